// StatCollector: gathers groups of statistics on its own thread.
//
// Visiting a thousand vBuckets, or the allocator's free lists, takes milliseconds. On a front-end
// thread all its connections would wait.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/job_thread.h"
#include "server/stats/stats.h"

namespace kv::server {

/// One requested group.
class StatJob final : public Job {
  public:
    StatJob(ServerContext& server, std::string_view group, std::shared_ptr<Waker> waker)
        : Job(std::move(waker)), server_(server), group_(group) {}

    /// The answer. Call it only when done() is true.
    [[nodiscard]] const StatAnswer& answer() const { return answer_; }

  private:
    void run() noexcept override;

    ServerContext& server_;
    std::string group_;
    StatAnswer answer_;
};

class StatCollector {
  public:
    explicit StatCollector(ServerContext& server) : server_(server) {}

    /// Queues a group. Any thread. `waker` is woken when the job is done.
    std::shared_ptr<const StatJob> ask(std::string_view group, std::shared_ptr<Waker> waker,
                                       std::string_view user = {});
    /// Returns when the current group is collected; groups queued behind it are never collected.
    void stop() { thread_.stop(); }

  private:
    ServerContext& server_;
    JobThread thread_{"stat"};
};

}  // namespace kv::server
