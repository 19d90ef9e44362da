// SequenceList: the documents of an ephemeral vBucket in seqno order, tombstones included. What a
// DCP backfill reads.
//
// Ownership: the hash table owns the StoredValues; only stale ones (replaced while a reader still
// needs them) belong to the list, which frees them when no reader covers them any more. Threads:
// one mutex. lock() gives the proof that the changing functions ask for. Lock order: hash-bucket
// lock, list, checkpoint manager. A seqno is assigned with the list locked, so the list's order is
// the seqnos' order.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "bucket/stored_value.h"
#include "types/ids.h"
#include "types/item.h"

namespace kv {

class SequenceList;

/// Reads the documents with from <= seqno <= end (the last seqno that the list was given before it
/// was opened) as they were then, in pieces. While it lives, changes to documents ahead of it leave
/// the old versions in place. One thread at a time.
class SequenceReader {
  public:
    SequenceReader(SequenceList& list, Vbid vbid, Seqno from);
    SequenceReader(const SequenceReader&) = delete;
    SequenceReader& operator=(const SequenceReader&) = delete;
    ~SequenceReader();

    /// Appends up to `limit` documents; each key at most once over the whole range. False when the
    /// range is done.
    bool read(std::vector<ItemPtr>& items, size_t limit);
    [[nodiscard]] Seqno end() const { return end_; }
    /// True when the vBucket was cleared before the range was done: what was read is not the whole.
    [[nodiscard]] bool isAborted() const;

  private:
    friend class SequenceList;
    SequenceList& list_;
    Vbid vbid_;
    Seqno end_;
    StoredValue* next_{nullptr};  ///< the list's lock; nullptr at the end
    bool aborted_{false};
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
    /// Takes a document out that leaves the hash table. Not allowed while isCovered().
    void unlink(const Guard& guard, StoredValue& value);
    /// True when a reader has yet to read it: it must stay as it is.
    [[nodiscard]] bool isCovered(const Guard& guard, const StoredValue& value) const;
    /// Room for one stale version: what keepStale() needs to allocate nothing.
    class StaleRoom {
        friend class SequenceList;
        std::unordered_map<const StoredValue*, Seqno>::node_type node_;
    };
    [[nodiscard]] StaleRoom makeRoomForStale(const Guard& guard);
    /// Keeps a version, out of the hash table already, for the readers that cover it.
    void keepStale(const Guard& guard, StoredValuePtr old, Seqno replacedBy, StaleRoom room);
    /// Forgets every document (their owner is about to free them) and frees the stale ones; readers
    /// end aborted.
    void clear(const Guard& guard);

    [[nodiscard]] size_t staleCount() const;
    /// Bytes of stale versions, values included.
    [[nodiscard]] size_t staleBytes() const;
    [[nodiscard]] size_t size() const;

  private:
    friend class SequenceReader;
    void freeUncoveredStale(const Guard& guard);

    mutable std::mutex mutex_;
    StoredValue* first_{nullptr};
    StoredValue* last_{nullptr};
    Seqno high_{};  ///< of all that were in the list, though they be gone
    size_t size_{0};
    std::unordered_map<const StoredValue*, Seqno> stale_;  ///< and which seqno replaced it
    size_t staleBytes_{0};
    std::vector<SequenceReader*> readers_;
};

}  // namespace kv
