#include "dcp/bucket_backfill.h"

#include <chrono>
#include <thread>
#include <vector>

#include "logging/log.h"

namespace kv::dcp {

namespace {

class StoreScan final : public BackfillScan {
  public:
    StoreScan(Vbid vbid, std::unique_ptr<SeqnoScan> scan) : vbid_(vbid), scan_(std::move(scan)) {}

    Step next(ItemPtr& item) override {
        try {
            StoredDoc doc;
            if (!scan_->next(doc)) {
                return Step::End;
            }
            item = Item::create(vbid_, doc.op, doc.key, doc.meta,
                                isDeletion(doc.op) ? BlobPtr{} : Blob::create(doc.value));
            return Step::Item;
        } catch (const StoreError& error) {
            log::error("backfill of vBucket {}: {}", vbid_.get(), error.what());
            return Step::Failed;
        }
    }
    [[nodiscard]] Seqno high() const override { return scan_->state().highSeqno; }
    [[nodiscard]] Seqno purged() const override { return scan_->state().purgedSeqno; }
    [[nodiscard]] Seqno snapshotEnd() const override {
        return std::max(high(), scan_->state().snapshot.end);
    }

  private:
    const Vbid vbid_;
    std::unique_ptr<SeqnoScan> scan_;
};

class ListScan final : public BackfillScan {
  public:
    ListScan(VBucket& vbucket, Seqno from, Seqno last)
        : reader_(*vbucket.sequence(), vbucket.id(), from, last),
          snapshotEnd_(reader_.high()),
          purged_(vbucket.purgedSeqno()) {
        const SnapshotRange snapshot = vbucket.checkpoints().currentSnapshot();
        if (snapshot.start <= reader_.high()) {
            snapshotEnd_ = std::max(snapshotEnd_, snapshot.end);
        }
    }

    Step next(ItemPtr& item) override {
        // Every mutation of the vBucket takes the list's lock, so only few items are read at a
        // time.
        constexpr size_t kPiece = 64;
        if (next_ == items_.size()) {
            items_.clear();
            next_ = 0;
            while (items_.empty() && more_) {
                more_ = reader_.read(items_, kPiece);
                if (items_.empty() && more_) {
                    // Otherwise this thread would have the lock again before one that waits for it.
                    std::this_thread::sleep_for(std::chrono::microseconds(20));
                }
            }
        }
        if (reader_.isAborted()) {
            log::warn("backfill: the vBucket was cleared during the scan");
            return Step::Failed;
        }
        if (reader_.isGivenUp()) {
            return Step::GivenUp;
        }
        if (next_ == items_.size()) {
            return Step::End;
        }
        item = std::move(items_[next_++]);
        return Step::Item;
    }
    [[nodiscard]] Seqno high() const override { return reader_.high(); }
    [[nodiscard]] Seqno snapshotEnd() const override { return snapshotEnd_; }
    [[nodiscard]] Seqno purged() const override { return purged_; }

  private:
    SequenceReader reader_;
    Seqno snapshotEnd_;
    const Seqno purged_;
    std::vector<ItemPtr> items_;
    size_t next_{0};
    bool more_{true};
};

}  // namespace

size_t BucketBackfill::pinned() const {
    return persistent_ == nullptr ? bucket_.staleBudget().bytes()
                                  : persistent_->storedBytes().replaced;
}

size_t BucketBackfill::mostPinned() const {
    if (persistent_ == nullptr) {
        return bucket_.staleBudget().most();
    }
    constexpr size_t kShareOfStored = 10;
    return std::max(bucket_.staleBudget().most(),
                    persistent_->storedBytes().current / kShareOfStored);
}

std::unique_ptr<BackfillScan> BucketBackfill::open(Vbid vbid, Seqno after, Seqno last) {
    if (persistent_ == nullptr) {
        return std::make_unique<ListScan>(bucket_.vbucket(vbid), kv::next(after), last);
    }
    try {
        auto scan = persistent_->storeOf(vbid).openSeqnoScan(vbid, kv::next(after), last);
        if (scan == nullptr) {
            log::error("backfill of vBucket {}: it is not stored", vbid.get());
            return nullptr;
        }
        return std::make_unique<StoreScan>(vbid, std::move(scan));
    } catch (const StoreError& error) {
        log::error("backfill of vBucket {}: {}", vbid.get(), error.what());
        return nullptr;
    }
}

}  // namespace kv::dcp
