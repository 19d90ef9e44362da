#include "persistence/rocks_scan.h"

#include <rocksdb/db.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "memory/bucket_memory.h"
#include "persistence/doc_codec.h"
#include "persistence/rocks_status.h"

namespace kv::rocks {

namespace {

class RocksSeqnoScan final : public SeqnoScan {
  public:
    RocksSeqnoScan(rocksdb::DB& db, const rocksdb::Snapshot* snapshot,
                   rocksdb::ColumnFamilyHandle* family, PersistedVbState state, Vbid vbid,
                   Seqno from, Seqno to)
        : state_(std::move(state)), end_(codec::seqnoKey(vbid, after(to))), endSlice_(slice(end_)) {
        rocksdb::ReadOptions options;
        // Needed until the iterator is made, which keeps the data that it reads: a snapshot would
        // also keep compactions from dropping versions that later scans do not need.
        options.snapshot = snapshot;
        options.iterate_upper_bound = &endSlice_;
        options.fill_cache = false;
        options.background_purge_on_iterator_cleanup = true;
        iterator_.reset(db.NewIterator(options, family));
        iterator_->Seek(slice(codec::seqnoKey(vbid, from)));
    }
    RocksSeqnoScan(const RocksSeqnoScan&) = delete;
    RocksSeqnoScan& operator=(const RocksSeqnoScan&) = delete;
    ~RocksSeqnoScan() override {
        const NonBucketGuard guard;
        state_ = {};
        iterator_.reset();
    }

    bool next(StoredDoc& doc) override {
        const NonBucketGuard guard;
        if (started_ && iterator_->Valid()) {
            iterator_->Next();
        }
        started_ = true;
        if (!iterator_->Valid()) {
            check(iterator_->status(), "scan by seqno");
            return false;
        }
        doc = codec::decodeDoc(codec::seqnoOf(view(iterator_->key())), value());
        return true;
    }
    [[nodiscard]] const PersistedVbState& state() const override { return state_; }

  private:
    /// The value under the iterator, valid until it moves.
    std::string_view value() {
#ifdef __SANITIZE_THREAD__
        // ThreadSanitizer does not see how RocksDB publishes its bytes, and tests/tsan.supp leaves
        // this file out. A copy keeps the callers out of it.
        copy_ = iterator_->value().ToString();
        return copy_;
#else
        return view(iterator_->value());
#endif
    }
    static Seqno after(Seqno to) {
        return to.get() == ~uint64_t{0} ? to : kv::next(to);
    }

    PersistedVbState state_;
    std::array<char, 10> end_;
    rocksdb::Slice endSlice_;
    std::unique_ptr<rocksdb::Iterator> iterator_;
    bool started_{false};
#ifdef __SANITIZE_THREAD__
    std::string copy_;
#endif
};

}  // namespace

std::unique_ptr<SeqnoScan> openScan(rocksdb::DB& db, const rocksdb::Snapshot* snapshot,
                                    rocksdb::ColumnFamilyHandle* family, PersistedVbState state,
                                    Vbid vbid, Seqno from, Seqno to) {
    return std::make_unique<RocksSeqnoScan>(db, snapshot, family, std::move(state), vbid, from, to);
}

}  // namespace kv::rocks
