// JobThread: a thread for work that would occupy a front-end thread for too long; it runs one job
// at a time.
//
// The connection that asked waits (After::AgainLater) and is woken when its job is done. A job
// whose connection is gone before it starts is dropped, so no more jobs wait than there are
// connections. Requesters take turns, so that none waits for many jobs of another.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "server/connections/conversation.h"

namespace kv::server {

/// Work that the thread runs and whose result the requester reads afterwards.
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
    /// `name` has at most 15 characters.
    explicit JobThread(const char* name);
    JobThread(const JobThread&) = delete;
    JobThread& operator=(const JobThread&) = delete;
    ~JobThread() { stop(); }

    /// Queues a job of `requester`, a user or an address; the caller keeps the job as long as it
    /// needs the result. Any thread. Throws std::bad_alloc.
    void ask(std::shared_ptr<Job> job, std::string_view requester = {});
    /// Returns when the running job is done; jobs queued behind it are never run.
    void stop();

  private:
    struct Requester {
        std::string name;
        std::deque<std::shared_ptr<Job>> jobs;  ///< never empty
    };
    void loop();
    void dropUnwanted();
    std::shared_ptr<Job> takeNext();
    static bool isWanted(const std::shared_ptr<Job>& job) { return job.use_count() > 1; }

    static constexpr size_t kLeastToSweep = 64;

    std::mutex mutex_;  ///< guards everything but thread_
    std::condition_variable changed_;
    std::list<Requester> requesters_;  ///< the first one is next
    size_t queued_{0};                 ///< jobs of all requesters
    /// Abandoned jobs are removed when the queue reaches this length.
    size_t sweepAt_{kLeastToSweep};
    bool stopping_{false};
    std::thread thread_;
};

}  // namespace kv::server
