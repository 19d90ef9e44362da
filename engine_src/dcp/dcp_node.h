// DcpNode: everything that the DCP connections of one bucket share: where backfills come from,
// which producers there are, and who must let go of a cursor.
//
// Ownership: bucket and executor outlive it, it outlives every producer it made. Threads: any.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "bucket/bucket.h"
#include "checkpoint/checkpoint_remover.h"
#include "dcp/bucket_backfill.h"
#include "dcp/bucket_producer.h"
#include "executor/executor.h"

namespace kv::dcp {

class DcpNode final : private CursorDropper {
  public:
    DcpNode(Bucket& bucket, Executor& executor, std::chrono::nanoseconds snapshotInterval);
    DcpNode(const DcpNode&) = delete;
    DcpNode& operator=(const DcpNode&) = delete;
    ~DcpNode() override;

    Bucket& bucket() { return bucket_; }
    /// `name` is unique among connections. The caller holds a BucketMemoryGuard: what it passes, as
    /// what is made here, is the bucket's.
    std::shared_ptr<BucketProducer> makeProducer(std::string_view name,
                                                 std::function<void()> wakeConnection);
    /// A vBucket's state changed: its streams end, and say so. Allocates nothing.
    void endStreams(Vbid vbid);

    struct ProducerLine {
        std::string name;
        ProducerStats producer;
        std::vector<std::pair<Vbid, ActiveStream::Stats>> streams;
    };
    [[nodiscard]] std::vector<ProducerLine> producers() const;

  private:
    bool dropCursor(Vbid vbid, const CursorPtr& cursor) override;
    [[nodiscard]] std::vector<std::shared_ptr<BucketProducer>> living() const;

    Bucket& bucket_;
    Executor& executor_;
    const std::chrono::nanoseconds snapshotInterval_;
    BucketBackfill backfill_;
    mutable std::mutex mutex_;
    mutable std::vector<std::weak_ptr<BucketProducer>> producers_;  ///< under mutex_
};

}  // namespace kv::dcp
