// SequenceList: the documents of an ephemeral vBucket in seqno order, including tombstones. A DCP
// backfill reads it.
//
// Ownership: the hash table owns the StoredValues; only stale ones (replaced while a reader still
// needs them) belong to the list, which frees them when no reader covers them any more. Threads:
// one mutex; lock() returns the proof that the changing functions require. Lock order: hash-bucket
// lock, list, checkpoint manager. Seqnos are assigned with the list locked, so the list is in seqno
// order.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "bucket/stale_budget.h"
#include "bucket/stored_value.h"
#include "types/ids.h"
#include "types/item.h"

namespace kv {

class SequenceList;

/// Reads, in pieces, the documents with from <= seqno <= end as they were when it was opened. `end`
/// is the last seqno in the list at that time, or `to` if that is less. While the reader lives,
/// changes to documents ahead of it leave the old versions in place, as long as the list's budget
/// allows. One thread at a time.
class SequenceReader {
  public:
    SequenceReader(SequenceList& list, Vbid vbid, Seqno from, Seqno to = Seqno{UINT64_MAX});
    SequenceReader(const SequenceReader&) = delete;
    SequenceReader& operator=(const SequenceReader&) = delete;
    ~SequenceReader();

    /// Appends up to `limit` documents; each key at most once over the whole range. Returns false
    /// when the range is done. Adds none while it looks for the first one: that takes several calls
    /// if there are many before it, because every change of the vBucket waits for a call.
    bool read(std::vector<ItemPtr>& items, size_t limit);
    [[nodiscard]] Seqno last() const { return last_; }
    /// The last seqno in the list when it was opened: a document that left the range by then has a
    /// later version up to here.
    [[nodiscard]] Seqno high() const { return high_; }
    /// True if the vBucket was cleared before the range was done: the result is not complete.
    [[nodiscard]] bool isAborted() const { return end() == End::Cleared; }
    /// True if the list stopped keeping versions for it: the rest has to be read by another reader.
    [[nodiscard]] bool isGivenUp() const { return end() == End::GivenUp; }

  private:
    friend class SequenceList;
    enum class End : uint8_t { Read, Cleared, GivenUp };
    [[nodiscard]] End end() const { return end_.load(std::memory_order_acquire); }
    /// The caller holds the list's lock.
    void endEarly(End why) {
        if (next_ != nullptr) {
            next_ = nullptr;
            end_.store(why, std::memory_order_release);
        }
    }

    /// True if the version is in the part of the range that is still to be read. The caller holds
    /// the list's lock.
    [[nodiscard]] bool covers(const StoredValue& value) const {
        return next_ != nullptr && std::max(next_->seqno(), from_) <= value.seqno() &&
               value.seqno() <= last_;
    }
    /// Moves on from `next_`, which the caller is about to remove or has read, with the list's
    /// lock.
    void advance() {
        StoredValue* const following = next_->links().next;
        next_ = following != nullptr && following->seqno() <= last_ ? following : nullptr;
    }

    SequenceList& list_;
    Vbid vbid_;
    const Seqno from_;
    Seqno high_;
    Seqno last_;
    /// Guarded by the list's lock; nullptr at the end. Before `from_` until it has been found.
    StoredValue* next_{nullptr};
    std::atomic<End> end_{End::Read};
};

class SequenceList {
  public:
    using Guard = std::unique_lock<std::mutex>;

    SequenceList() = default;
    SequenceList(const SequenceList&) = delete;
    SequenceList& operator=(const SequenceList&) = delete;
    ~SequenceList();

    [[nodiscard]] Guard lock() const { return Guard(mutex_); }
    void append(const Guard& guard, StoredValue& value);
    void moveToEnd(const Guard& guard, StoredValue& value);
    /// Removes a document that leaves the hash table. Not allowed while isCovered().
    void unlink(const Guard& guard, StoredValue& value);
    /// True if a reader has yet to read it, so that it must stay unchanged.
    [[nodiscard]] bool isCovered(const Guard& guard, const StoredValue& value) const;
    /// Sets the budget. Without one, the list keeps everything that its readers cover.
    void setBudget(StaleBudget& budget) { budget_ = &budget; }
    /// True if the version must be kept, because a reader covers it and the budget is not spent. If
    /// the budget is spent, the list gives up its readers.
    [[nodiscard]] bool mustKeep(const Guard& guard, const StoredValue& value);
    /// Room for one stale version, with which keepStale() allocates nothing.
    class StaleSlot {
        friend class SequenceList;
        std::unordered_map<const StoredValue*, Seqno>::node_type node_;
    };
    [[nodiscard]] StaleSlot reserveStaleSlot(const Guard& guard);
    /// Keeps a version that has left the hash table for the readers that cover it.
    void keepStale(const Guard& guard, StoredValuePtr old, Seqno replacedBy, StaleSlot slot);
    /// Forgets every document (their owner is about to free them) and frees the stale ones; readers
    /// are aborted.
    void clear(const Guard& guard);

    [[nodiscard]] size_t staleCount() const;
    /// Bytes of stale versions, including values.
    [[nodiscard]] size_t staleBytes() const;
    [[nodiscard]] size_t size() const;

  private:
    friend class SequenceReader;
    /// Removes the stale versions that no reader covers from the list, chained by their `next`.
    [[nodiscard]] StoredValue* takeUncoveredStale(const Guard& guard) noexcept;
    static void free(StoredValue* chain) noexcept;

    mutable std::mutex mutex_;
    StoredValue* first_{nullptr};
    StoredValue* last_{nullptr};
    Seqno high_{};  ///< of all that were ever in the list
    size_t size_{0};
    /// With the seqno of the version that replaced it.
    std::unordered_map<const StoredValue*, Seqno> stale_;
    size_t staleBytes_{0};
    StaleBudget* budget_{nullptr};
    std::vector<SequenceReader*> readers_;
};

}  // namespace kv
