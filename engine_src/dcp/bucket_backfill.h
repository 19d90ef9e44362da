// BucketBackfill: backfill of a bucket's vBuckets: by seqno from the store (persistent) or from the
// sequence list (ephemeral). The streams of a bucket hold at most a twentieth of its quota that is
// not sent yet (and each a little, whatever the others hold).
//
// The bucket outlives it and its scans. Threads: any, under a BucketMemoryGuard of the bucket (the
// items are the bucket's).
#pragma once

#include "bucket/persistent_bucket.h"
#include "dcp/backfill.h"

namespace kv::dcp {

class BucketBackfill final : public BackfillSource {
  public:
    explicit BucketBackfill(Bucket& bucket)
        : bucket_(bucket), persistent_(dynamic_cast<PersistentBucket*>(&bucket)) {}

    std::unique_ptr<BackfillScan> open(Vbid vbid, Seqno after) override;
    [[nodiscard]] Seqno purged(Vbid vbid) const override {
        return bucket_.vbucket(vbid).purgedSeqno();
    }
    [[nodiscard]] size_t mostUnsent() const override {
        constexpr size_t kShareOfQuota = 20;
        return bucket_.memory().quota() / kShareOfQuota;
    }

  private:
    Bucket& bucket_;
    PersistentBucket* persistent_;
};

}  // namespace kv::dcp
