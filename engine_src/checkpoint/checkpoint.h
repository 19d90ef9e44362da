// Checkpoint: a run of mutations of one vBucket, in seqno order, with each key at most once among
// those that cursors can still see.
//
// Ownership: owned by a CheckpointList. Threads: every function is called under the owning
// manager's queue lock, except the destructor of a checkpoint that was extracted from the list.
// Positions: an entry's position is its index since the checkpoint began (including expelled
// entries and holes), so a position stays valid when a prefix is expelled. compact() renumbers, and
// the manager adjusts the cursors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "types/ids.h"
#include "types/item.h"
#include "types/string_hash.h"

namespace kv {

enum class CheckpointType : uint8_t { Memory, Disk };

class Checkpoint {
  public:
    /// `first` is the first seqno that the checkpoint may hold. The snapshot begins there, or
    /// earlier if an earlier checkpoint holds its beginning. `end` is the last announced seqno (==
    /// start - 1 when empty).
    Checkpoint(CheckpointId id, SnapshotRange snapshot, Seqno first, CheckpointType type,
               uint64_t createdAtNs)
        : id_(id),
          snapshot_(snapshot),
          createdAtNs_(createdAtNs),
          first_(first),
          availableFrom_(first),
          type_(type) {}
    Checkpoint(const Checkpoint&) = delete;
    Checkpoint& operator=(const Checkpoint&) = delete;
    ~Checkpoint() = default;

    [[nodiscard]] CheckpointId id() const { return id_; }
    [[nodiscard]] CheckpointType type() const { return type_; }
    [[nodiscard]] bool isOpen() const { return open_; }
    [[nodiscard]] SnapshotRange snapshot() const { return snapshot_; }
    [[nodiscard]] Seqno first() const { return first_; }
    [[nodiscard]] uint64_t createdAtNs() const { return createdAtNs_; }
    [[nodiscard]] Checkpoint* next() const { return next_; }
    [[nodiscard]] Checkpoint* previous() const { return previous_; }
    [[nodiscard]] uint32_t cursorCount() const { return cursorCount_; }
    /// Entries that hold an item.
    [[nodiscard]] size_t liveItems() const { return liveItems_; }
    /// Lowest seqno from which on nothing has been expelled.
    [[nodiscard]] Seqno availableFrom() const { return availableFrom_; }
    [[nodiscard]] size_t beginPosition() const { return base_; }
    [[nodiscard]] size_t endPosition() const { return base_ + entries_.size(); }
    /// Bytes that this checkpoint accounts for: itself, its entries, the items and their values.
    [[nodiscard]] size_t memory() const { return bytes_; }

    /// Makes room, so that the next append() allocates nothing. Throws std::bad_alloc without any
    /// change.
    void reserveEntry();
    void append(ItemPtr item);
    /// Closes the checkpoint: nothing is replaced in it any more, so its notes for that are freed.
    /// Returns the bytes freed.
    [[nodiscard]] size_t close();
    void extendSnapshot(Seqno end) { snapshot_.end = end; }
    /// Records that the part of the snapshot above `end` will not come.
    void cutSnapshot(Seqno end) { snapshot_.end = std::min(snapshot_.end, end); }
    /// Turns an empty checkpoint into another one, except its id. Returns the bytes that it
    /// accounts for less.
    [[nodiscard]] size_t reuse(SnapshotRange snapshot, Seqno first, CheckpointType type);
    /// Numbers a checkpoint that is in no log yet.
    void number(CheckpointId id) { id_ = id; }
    /// The age counts from the first item, not from the time when the checkpoint was opened.
    void startClock(uint64_t nowNs) { createdAtNs_ = nowNs; }
    [[nodiscard]] bool hasEntries() const { return !entries_.empty(); }
    /// Records that mutations before `seqno` were never kept here.
    void missingBefore(Seqno seqno) { availableFrom_ = seqno; }

    static constexpr size_t kNowhere = ~size_t{0};
    /// Returns the position of the entry of exactly this seqno (hole or not); kNowhere if absent or
    /// expelled.
    [[nodiscard]] size_t positionOf(Seqno seqno) const;
    /// Returns the position of the first entry above `seqno`; endPosition() if there is none.
    [[nodiscard]] size_t positionAfter(Seqno seqno) const;
    /// The item at a position; null for a hole. `position` in [beginPosition, endPosition).
    [[nodiscard]] const ItemPtr& at(size_t position) const {
        return entries_[position - base_].item;
    }
    /// Number of live items at `position` and after it. O(1) for the whole checkpoint, otherwise
    /// O(entries).
    [[nodiscard]] size_t liveFrom(size_t position) const;

    /// Turns the entry into a hole and returns its item, which the caller frees outside the lock.
    [[nodiscard]] ItemPtr remove(size_t position);
    /// Removes the entries before `position` and passes them to the caller. Returns the bytes that
    /// they accounted for.
    size_t expelBefore(size_t position, std::vector<ItemPtr>& expelled);
    /// Moves all entries, of which there is at least one, to another checkpoint, as if they were
    /// expelled. Throws std::bad_alloc without any change.
    [[nodiscard]] std::unique_ptr<Checkpoint> takeEntries();
    /// True if there are more holes than live entries: then squeezing them out costs O(1) per hole.
    [[nodiscard]] bool wantsCompaction() const { return entries_.size() > 2 * liveItems_ + 64; }
    /// Squeezes the holes out. Each of `positions` is replaced by the new position of the same next
    /// live entry.
    void compact(std::vector<size_t*> positions);

    /// Records the seqno of a deletion in this checkpoint whose StoredValue is gone. Returns the
    /// bytes that it accounts for more.
    size_t noteTombstone(std::string_view key, Seqno seqno);
    /// Returns the recorded seqno of `key`; none if not recorded.
    [[nodiscard]] Seqno tombstone(std::string_view key) const;
    /// Returns the bytes that it accounts for less.
    size_t forgetTombstone(std::string_view key);

    void cursorArrived() { ++cursorCount_; }
    void cursorLeft() { --cursorCount_; }

    /// Bytes that an item accounts for in its checkpoint, including its entry.
    static size_t itemMemory(const Item& item);

  private:
    friend class CheckpointList;
    struct Entry {
        Seqno seqno;
        ItemPtr item;
    };
    using TombstoneTable = std::unordered_map<std::string, Seqno, StringHash, std::equal_to<>>;
    /// Bytes that the note of one tombstone accounts for.
    static size_t noteMemory(std::string_view key);
    /// Forgets those below `seqno`. Returns the bytes that their notes accounted for.
    size_t forgetTombstonesBelow(Seqno seqno);

    CheckpointId id_;
    SnapshotRange snapshot_;
    std::vector<Entry> entries_;  ///< ascending seqnos; entries_[i] has position base_ + i
    size_t base_{0};              ///< entries expelled so far
    size_t liveItems_{0};
    size_t bytes_{sizeof(Checkpoint)};
    uint64_t createdAtNs_;
    Seqno first_;
    Seqno availableFrom_;
    std::unique_ptr<TombstoneTable>
            tombstones_;  ///< allocated on first use: few checkpoints need it
    Checkpoint* next_{nullptr};
    Checkpoint* previous_{nullptr};
    uint32_t cursorCount_{0};
    CheckpointType type_;
    bool open_{true};
};

}  // namespace kv
