// JobThread: a thread of its own for what would hold a front-end thread for long, one job after the
// other.
//
// The connection that asked waits (After::AgainLater) and is woken when its job is done; if it goes
// before, the job is done all the same.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "server/conversation.h"

namespace kv::server {

/// Run by the thread, then read by who asked.
class Job {
  public:
    explicit Job(std::shared_ptr<Waker> waker) : waker_(std::move(waker)) {}
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;
    virtual ~Job() = default;

    [[nodiscard]] bool done() const { return done_.load(std::memory_order_acquire); }

  private:
    friend class JobThread;
    virtual void run() noexcept = 0;

    std::shared_ptr<Waker> waker_;
    std::atomic<bool> done_{false};
};

class JobThread {
  public:
    /// `name` has up to 15 characters.
    explicit JobThread(const char* name);
    JobThread(const JobThread&) = delete;
    JobThread& operator=(const JobThread&) = delete;
    ~JobThread() { stop(); }

    /// Any thread. Throws std::bad_alloc.
    void ask(std::shared_ptr<Job> job);
    /// Returns when the job at work is done; what waits behind it never is.
    void stop();

  private:
    void loop();

    std::mutex mutex_;  ///< guards jobs_ and stopping_
    std::condition_variable changed_;
    std::deque<std::shared_ptr<Job>> jobs_;
    bool stopping_{false};
    std::thread thread_;
};

}  // namespace kv::server
