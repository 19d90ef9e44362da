// StatCollector: gathers groups of statistics on a thread of its own.
//
// A walk over a thousand vBuckets, or through the allocator's free lists, takes milliseconds: on a
// front-end thread all its connections would wait for that. The connection that asked waits here
// (After::AgainLater) and is woken.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "server/conversation.h"
#include "server/stats.h"

namespace kv::server {

/// One group that was asked for. Written by the collector, then read by who asked.
class StatJob {
  public:
    StatJob(std::string_view group, std::shared_ptr<Waker> waker)
        : group_(group), waker_(std::move(waker)) {}

    [[nodiscard]] bool done() const { return done_.load(std::memory_order_acquire); }
    /// Once done().
    [[nodiscard]] const StatAnswer& answer() const { return answer_; }

  private:
    friend class StatCollector;
    void run(ServerContext& server);

    std::string group_;
    std::shared_ptr<Waker> waker_;
    StatAnswer answer_;
    std::atomic<bool> done_{false};
};

class StatCollector {
  public:
    explicit StatCollector(ServerContext& server);
    StatCollector(const StatCollector&) = delete;
    StatCollector& operator=(const StatCollector&) = delete;
    /// Finishes the group at work; what waits behind it is never done.
    ~StatCollector();

    /// Any thread. `waker` is woken when the job is done.
    std::shared_ptr<const StatJob> ask(std::string_view group, std::shared_ptr<Waker> waker);

  private:
    void loop();

    ServerContext& server_;
    std::mutex mutex_;  ///< guards jobs_ and stopping_
    std::condition_variable changed_;
    std::deque<std::shared_ptr<StatJob>> jobs_;
    bool stopping_{false};
    std::thread thread_;
};

}  // namespace kv::server
