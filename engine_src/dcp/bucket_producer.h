// BucketProducer: a producer of one bucket: it is notified of the bucket's mutations and has its
// own background tasks.
//
// Ownership: bucket, backfill source and executor outlive it. Threads: as Producer; construct and
// destroy it on the connection's thread. Memory: streams hold memory of the bucket, so construct,
// step and destroy it under a BucketMemoryGuard of the bucket; tasks take their own. The destructor
// returns when no mutation and no task refers to it any more; `wakeConnection` may be called until
// then, from any thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "bucket/bucket.h"
#include "dcp/backfill.h"
#include "dcp/producer.h"
#include "dcp/producer_tasks.h"
#include "executor/executor.h"

namespace kv::dcp {

class BucketProducer final : private SeqnoListener {
  public:
    /// At most `mostScans` of its backfills are open at a time.
    BucketProducer(std::string name, Bucket& bucket, BackfillSource& source, Executor& executor,
                   std::chrono::nanoseconds snapshotInterval, std::function<void()> wakeConnection,
                   size_t mostScans = SIZE_MAX);
    BucketProducer(const BucketProducer&) = delete;
    BucketProducer& operator=(const BucketProducer&) = delete;
    ~BucketProducer() override;

    /// The state of a vBucket before a request for its stream was checked.
    struct Seen {
        explicit Seen(const VBucket& vbucket)
            : clears(vbucket.clears()),
              term(vbucket.term()),
              uuid(vbucket.failoverLog().uuid()),
              state(vbucket.state()) {}
        uint64_t clears;
        uint64_t term;
        VbUuid uuid;
        VbState state;
    };
    /// Opens a stream of an existing vBucket; returns false if it already has one. `request` has
    /// been checked; a change since then ends the stream.
    bool open(const StreamRequest& request, const Seen& seen);
    /// The user who is limited, empty if nobody is; set it before others can see this object.
    void setUser(std::string_view user) { user_ = user; }
    [[nodiscard]] const std::string& user() const { return user_; }
    Producer& producer() { return producer_; }
    [[nodiscard]] const Producer& producer() const { return producer_; }

  private:
    void onSeqno(Vbid vbid, Seqno) noexcept override { producer_.onSeqno(vbid); }
    void onRolledBack(Vbid vbid) noexcept override {
        producer_.endStream(vbid, EndStatus::Rollback);
    }
    void onStateChanged(Vbid vbid) noexcept override {
        producer_.endStream(vbid, EndStatus::StateChanged);
    }

    Bucket& bucket_;
    BackfillSource& source_;
    ScanSlots slots_;  ///< before the streams, which use them
    Producer producer_;
    ProducerTasks<Producer> tasks_;
    uint64_t opened_{0};
    std::string user_;
};

}  // namespace kv::dcp
