// EngineBucket: the bucket that the flags describe, ready to serve: stored documents are loaded and
// every vBucket has a state.
//
// Ownership: owns the bucket; the executor outlives it. The constructor of a persistent one blocks
// until warm-up is done. vBuckets start in their stored state, except that those that were active
// are pending behind a fence (server/replication/cluster_fence.h). vBuckets that were never stored
// start active; as replicas if the node follows another; dead if it belongs to a cluster, by its
// flag or by its fence.
#pragma once

#include <memory>

#include "bucket/persistent_bucket.h"
#include "executor/executor.h"
#include "server/background_tasks.h"
#include "server/command_line.h"
#include "server/replication/cluster_fence.h"
#include "server/server_context.h"

namespace kv::server {

class EngineBucket {
  public:
    /// Throws StoreError if the data directory cannot be used.
    EngineBucket(const CommandLine& line, Executor& executor);
    EngineBucket(const EngineBucket&) = delete;
    EngineBucket& operator=(const EngineBucket&) = delete;

    Bucket& get() { return *bucket_; }
    ClusterFence& fence() { return *fence_; }
    /// Starts the recurring work, such as expiry.
    void startBackground(const TaskPeriods& periods);
    /// Adds the STAT figures that only a persistent bucket has.
    void addStats(ServerContext& context) const;
    /// Stops the background work, which would queue more, and returns when everything queued is on
    /// disk (at once for an ephemeral bucket). Returns false if the store refuses.
    bool persistAll();

  private:
    void open(const CommandLine& line, Executor& executor);
    /// Gives `initial` as the state of vBuckets that were never stored.
    void begin(VbState initial);

    Executor& executor_;
    std::unique_ptr<Bucket> bucket_;
    std::unique_ptr<ClusterFence> fence_;
    PersistentBucket* persistent_{nullptr};  ///< bucket_, if it is persistent
    WarmupResult warmup_;
    std::string survives_;  ///< the failures that a persisted mutation survives, for STAT
    std::unique_ptr<BackgroundTasks> tasks_;
};

}  // namespace kv::server
