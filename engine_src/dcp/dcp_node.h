// DcpNode: the shared state of all DCP connections of one bucket: the source of backfills, the
// producers, and the choice of cursors to drop.
//
// Ownership: bucket and executor outlive it; it outlives every producer that it made. Threads: any.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "bucket/bucket.h"
#include "checkpoint/checkpoint_remover.h"
#include "dcp/bucket_backfill.h"
#include "dcp/bucket_producer.h"
#include "dcp/limits.h"
#include "dcp/scan_watch.h"
#include "executor/executor.h"

namespace kv::dcp {

class DcpNode final : private CursorDropper {
  public:
    DcpNode(Bucket& bucket, Executor& executor, std::chrono::nanoseconds snapshotInterval,
            const BackfillLimits& limits = {}, const ConnectionLimits& connections = {});
    DcpNode(const DcpNode&) = delete;
    DcpNode& operator=(const DcpNode&) = delete;
    ~DcpNode() override;

    Bucket& bucket() { return bucket_; }
    /// `name` is unique among connections. The caller holds a BucketMemoryGuard: its arguments and
    /// everything made here are the bucket's. Ask mayConnect() first.
    std::shared_ptr<BucketProducer> makeProducer(std::string_view name, std::string_view user,
                                                 std::function<void()> wakeConnection);
    /// True if the user may open another connection.
    [[nodiscard]] bool mayConnect(std::string_view user) const;
    /// Memory of a stream with its cursor, in bytes: an upper estimate, for a long name.
    static constexpr size_t kStreamBytes = 2048;
    /// True if the user may open another stream. Streams are charged to the bucket: all of them may
    /// take a tenth of its quota, and those of a user a half of that. Four streams of each vBucket,
    /// two of them for a user, are possible in any case.
    [[nodiscard]] bool mayStream(std::string_view user) const;
    /// Destroys a producer whose connection is gone on another thread, because that may have to
    /// wait for a read from disk.
    void retire(std::shared_ptr<BucketProducer> producer) noexcept;

    struct ProducerLine {
        std::string name;
        ProducerStats producer;
        std::vector<std::pair<Vbid, ActiveStream::Stats>> streams;
    };
    [[nodiscard]] std::vector<ProducerLine> producers() const;
    /// Number of retired producers whose memory is not free yet.
    [[nodiscard]] size_t ending() const { return ending_.load(std::memory_order_acquire); }
    [[nodiscard]] ScanWatch::Stats scans() const { return watch_.stats(); }

  private:
    struct Load {
        size_t connections{0};
        size_t streams{0};
    };
    struct Loads {
        Load all{};
        Load user{};
    };
    /// Returns what all users and this one have open.
    [[nodiscard]] Loads loads(std::string_view user) const;
    bool dropCursor(Vbid vbid, const CursorPtr& cursor) override;
    [[nodiscard]] std::vector<std::shared_ptr<BucketProducer>> living() const;
    TaskResult watch();
    void watchScans();
    /// Frees checkpoints if the bucket is short of memory, by dropping cursors if necessary.
    /// Returns true if that freed a significant amount.
    bool recoverMemory();
    /// Returns true if some are left, because other threads still use them: one of those would
    /// destroy them otherwise.
    bool destroyRetired();
    /// Removes a retired producer from producers_. The caller holds mutex_.
    void unlist(const std::shared_ptr<BucketProducer>& producer);

    Bucket& bucket_;
    Executor& executor_;
    const std::chrono::nanoseconds snapshotInterval_;
    const BackfillLimits limits_;
    const ConnectionLimits connectionLimits_;
    BucketBackfill backfill_;
    ScanWatch watch_;
    mutable std::mutex mutex_;
    mutable std::vector<std::weak_ptr<BucketProducer>> producers_;  ///< guarded by mutex_
    /// Guarded by mutex_; has room for all of producers_ as well, so that retiring one cannot fail.
    std::vector<std::shared_ptr<BucketProducer>> retired_;
    std::atomic<size_t> ending_{0};
    TaskTime notBefore_{0};  ///< used only by the watch task
    TaskPtr watchTask_;
    TaskPtr retireTask_;
};

}  // namespace kv::dcp
