// EngineBucket: the bucket that the flags ask for, ready to serve: stored documents loaded, every
// vBucket in a state.
//
// Owns the bucket; the executor outlives it. Constructing a persistent one blocks until warm-up is
// done. vBuckets that were never stored start active (as replicas where the node follows another),
// stored ones in the state they were left in.
#pragma once

#include <memory>

#include "bucket/persistent_bucket.h"
#include "executor/executor.h"
#include "server/background_tasks.h"
#include "server/command_line.h"
#include "server/server_context.h"

namespace kv::server {

class EngineBucket {
  public:
    /// Throws StoreError when the data directory cannot be used.
    EngineBucket(const CommandLine& line, Executor& executor);
    EngineBucket(const EngineBucket&) = delete;
    EngineBucket& operator=(const EngineBucket&) = delete;

    Bucket& get() { return *bucket_; }
    /// Starts the recurring work (expiry and so on).
    void startBackground(const TaskPeriods& periods);
    /// Adds the STAT figures that only a persistent bucket has.
    void addStats(ServerContext& context) const;
    /// Ends the background work, which would queue more, and returns when everything queued is on
    /// disk (at once for an ephemeral bucket); false when the store refuses.
    bool persistAll();

  private:
    void open(const CommandLine& line, Executor& executor);
    void activate(VbState initial);

    Executor& executor_;
    std::unique_ptr<Bucket> bucket_;
    PersistentBucket* persistent_{nullptr};  ///< bucket_, where it is persistent
    WarmupResult warmup_;
    std::string survives_;  ///< what a persisted mutation survives, for STAT
    std::unique_ptr<BackgroundTasks> tasks_;
};

}  // namespace kv::server
