// BucketBackfill: backfill of a bucket's vBuckets by seqno from the store (persistent) or from the
// sequence list (ephemeral). The streams of a bucket hold at most a twentieth of its quota in
// unsent items (and each of them a little, whatever the others hold).
//
// Ownership: the bucket outlives it and its scans. Threads: any, under a BucketMemoryGuard of the
// bucket (the items are the bucket's).
#pragma once

#include "bucket/persistent_bucket.h"
#include "dcp/backfill.h"

namespace kv::dcp {

class BucketBackfill final : public BackfillSource {
  public:
    explicit BucketBackfill(Bucket& bucket)
        : bucket_(bucket), persistent_(dynamic_cast<PersistentBucket*>(&bucket)) {}

    std::unique_ptr<BackfillScan> open(Vbid vbid, Seqno after, Seqno last) override;
    [[nodiscard]] Seqno purged(Vbid vbid) const override {
        return bucket_.vbucket(vbid).purgedSeqno();
    }
    [[nodiscard]] size_t mostUnsent() const override {
        constexpr size_t kShareOfQuota = 20;
        return bucket_.memory().quota() / kShareOfQuota;
    }
    /// Old versions in the sequence lists, or replaced files of the stores.
    [[nodiscard]] size_t pinned() const override;
    /// A twentieth of the quota; for files in addition a tenth of the stored bytes.
    [[nodiscard]] size_t mostPinned() const override;

  private:
    Bucket& bucket_;
    PersistentBucket* persistent_;
};

}  // namespace kv::dcp
