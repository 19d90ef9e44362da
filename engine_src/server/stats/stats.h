// The STAT groups: every figure of the server, as text; and the thread that collects them.
//
// Threads: any. Counters of other threads are read relaxed, so sums are exact only when the server
// is idle.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "protocol/status.h"
#include "server/job_thread.h"
#include "server/server_context.h"

namespace kv::server {

/// The answer to a requested group: its figures, or why there are none.
struct StatAnswer {
    protocol::Status status{protocol::Status::kSuccess};
    KeyValues values{};
};

/// Returns keys and values of `group`; KeyEnoent if there is no such group. "reset" zeroes counters
/// and timings; "detail on" and "detail off" switch the counting by prefix.
StatAnswer collectStats(ServerContext& server, std::string_view group);

/// One requested group.
class StatJob final : public Job {
  public:
    StatJob(ServerContext& server, std::string_view group, std::shared_ptr<Waker> waker)
        : Job(std::move(waker)), server_(server), group_(group) {}

    // --- when done() is true
    [[nodiscard]] StatAnswer& answer() { return answer_; }
    /// Number of its figures that were answered, for the connection.
    [[nodiscard]] size_t& answered() { return answered_; }

  private:
    void run() noexcept override;

    ServerContext& server_;
    std::string group_;
    StatAnswer answer_;
    size_t answered_{0};
};

/// Gathers groups of statistics on its own thread: visiting a thousand vBuckets, or the allocator's
/// free lists, takes milliseconds. On a front-end thread all its connections would wait.
class StatCollector {
  public:
    explicit StatCollector(ServerContext& server) : server_(server) {}

    /// Queues a group. Any thread. `waker` is woken when the job is done.
    std::shared_ptr<StatJob> ask(std::string_view group, std::shared_ptr<Waker> waker,
                                 std::string_view user = {});
    /// Returns when the current group is collected; groups queued behind it are never collected.
    void stop() { thread_.stop(); }

  private:
    ServerContext& server_;
    JobThread thread_{"stat"};
};

}  // namespace kv::server
