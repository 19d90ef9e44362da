// Replicator: replicates vBuckets of another node to this one over one DCP connection. A vBucket
// may have only one at a time: destroy it before the next is constructed.
//
// Threads: its one thread connects and runs a ReplicationSession; when the connection ends, it
// tries again every second and resumes. Construct and destroy it from one thread; stats() from any.
// The destructor stops replication; nothing is applied after it returns. Ownership: bucket
// and executor outlive it.
#pragma once

#include <atomic>
#include <thread>

#include "executor/executor.h"
#include "server/replication/replication_link.h"
#include "server/replication/replication_session.h"
#include "server/replication/replication_source.h"
#include "server/stats/key_values.h"

namespace kv::server {

class Replicator {
  public:
    /// `vbuckets`: those to replicate from this source; empty means all that are replicas here.
    /// Throws std::bad_alloc, std::system_error.
    Replicator(Bucket& bucket, Executor& executor, ReplicationSource source,
               std::vector<bool> vbuckets = {});
    Replicator(const Replicator&) = delete;
    Replicator& operator=(const Replicator&) = delete;
    ~Replicator();

    /// Returns the figures of STAT replication.
    [[nodiscard]] KeyValues stats() const;

  private:
    void run();
    /// Runs one connection until it ends. Throws std::runtime_error if it failed.
    void replicate();

    Executor& executor_;
    const ReplicationSource source_;
    ReplicationLink link_;
    ReplicationSession session_;
    TaskPtr drain_;
    std::atomic<bool> connected_{false};
    std::atomic<uint64_t> connections_{0};
    std::thread thread_;
};

}  // namespace kv::server
