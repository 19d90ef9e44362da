// StatCollector: gathers groups of statistics on a thread of its own.
//
// A walk over a thousand vBuckets, or through the allocator's free lists, takes milliseconds: on a
// front-end thread all its connections would wait for that.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/job_thread.h"
#include "server/stats.h"

namespace kv::server {

/// One group that was asked for.
class StatJob final : public Job {
  public:
    StatJob(ServerContext& server, std::string_view group, std::shared_ptr<Waker> waker)
        : Job(std::move(waker)), server_(server), group_(group) {}

    /// Once done().
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

    /// Any thread. `waker` is woken when the job is done.
    std::shared_ptr<const StatJob> ask(std::string_view group, std::shared_ptr<Waker> waker);
    /// Returns when the group at work is collected; what waits behind it never is.
    void stop() { thread_.stop(); }

  private:
    ServerContext& server_;
    JobThread thread_{"stat"};
};

}  // namespace kv::server
