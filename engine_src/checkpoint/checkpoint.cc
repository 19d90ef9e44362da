#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <new>
#include <utility>

namespace kv {

size_t Checkpoint::close() {
    open_ = false;
    const size_t bytes = forgetTombstonesBelow(Seqno{UINT64_MAX});
    tombstones_.reset();
    return bytes;
}

size_t Checkpoint::reuse(SnapshotRange snapshot, Seqno first, CheckpointType type) {
    snapshot_ = snapshot;
    type_ = type;
    first_ = first;
    availableFrom_ = first;
    base_ = 0;
    return forgetTombstonesBelow(first);
}

void Checkpoint::reserveEntry() {
    if (entries_.size() == entries_.capacity()) {
        entries_.reserve(std::max<size_t>(1, 2 * entries_.size()));
    }
}

void Checkpoint::append(ItemPtr item) {
    const Seqno seqno = item->seqno();
    const size_t bytes = itemMemory(*item);
    entries_.push_back({seqno, std::move(item)});
    ++liveItems_;
    bytes_ += bytes;
    snapshot_.end = std::max(snapshot_.end, seqno);
}

size_t Checkpoint::itemMemory(const Item& item) {
    return sizeof(Entry) + item.size() +
           (item.blob() ? Blob::allocationSize(item.value().size()) : 0);
}

size_t Checkpoint::positionOf(Seqno seqno) const {
    if (entries_.empty() || seqno < entries_.front().seqno || seqno > entries_.back().seqno) {
        return kNowhere;
    }
    // Seqnos are consecutive unless a replica skipped some or holes were squeezed out: then the
    // entry is before the guess.
    const size_t guess = std::min(static_cast<size_t>(seqno.get() - entries_.front().seqno.get()),
                                  entries_.size() - 1);
    if (entries_[guess].seqno == seqno) {
        return base_ + guess;
    }
    const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(guess);
    const auto found =
            std::lower_bound(entries_.begin(), end, seqno,
                             [](const Entry& entry, Seqno wanted) { return entry.seqno < wanted; });
    if (found == end || found->seqno != seqno) {
        return kNowhere;
    }
    return base_ + static_cast<size_t>(found - entries_.begin());
}

size_t Checkpoint::positionAfter(Seqno seqno) const {
    const auto found =
            std::upper_bound(entries_.begin(), entries_.end(), seqno,
                             [](Seqno wanted, const Entry& entry) { return wanted < entry.seqno; });
    return base_ + static_cast<size_t>(found - entries_.begin());
}

size_t Checkpoint::liveFrom(size_t position) const {
    if (position <= base_) {
        return liveItems_;
    }
    size_t live = 0;
    for (size_t at = position - base_; at < entries_.size(); ++at) {
        live += entries_[at].item ? 1U : 0U;
    }
    return live;
}

ItemPtr Checkpoint::remove(size_t position) {
    ItemPtr item = std::move(entries_[position - base_].item);
    if (item) {
        --liveItems_;
        // The hole keeps its entry until it is compacted or expelled.
        bytes_ -= itemMemory(*item) - sizeof(Entry);
    }
    return item;
}

size_t Checkpoint::expelBefore(size_t position, std::vector<ItemPtr>& expelled) {
    const size_t count = position - base_;
    if (count == 0) {
        return 0;
    }
    const size_t before = bytes_;
    const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(count);
    bool listed = true;
    try {
        expelled.reserve(expelled.size() + count);
    } catch (const std::bad_alloc&) {
        listed = false;  // freed here with the lock held, because expelling is what frees memory
    }
    for (auto entry = entries_.begin(); entry != end; ++entry) {
        if (entry->item) {
            bytes_ -= itemMemory(*entry->item) - sizeof(Entry);
            --liveItems_;
            ItemPtr item = std::move(entry->item);
            if (listed) {
                expelled.push_back(std::move(item));
            }
        }
    }
    availableFrom_ = kv::next(std::prev(end)->seqno);
    entries_.erase(entries_.begin(), end);
    entries_.shrink_to_fit();
    bytes_ -= count * sizeof(Entry);
    (void)forgetTombstonesBelow(availableFrom_);  // where nothing can be replaced any more
    base_ = position;
    return before - bytes_;
}

std::unique_ptr<Checkpoint> Checkpoint::takeEntries() {
    auto taken = std::make_unique<Checkpoint>(id_, snapshot_, first_, type_, createdAtNs_);
    base_ = endPosition();
    availableFrom_ = kv::next(entries_.back().seqno);
    taken->entries_.swap(entries_);
    taken->tombstones_.swap(tombstones_);  // nothing can be replaced before availableFrom_
    taken->liveItems_ = std::exchange(liveItems_, 0);
    taken->bytes_ = std::exchange(bytes_, sizeof(Checkpoint));
    return taken;
}

void Checkpoint::compact(std::vector<size_t*> positions) {
    std::sort(positions.begin(), positions.end(),
              [](const size_t* a, const size_t* b) { return *a < *b; });
    size_t at = base_;
    size_t live = base_;
    for (size_t* position : positions) {
        for (; at < *position; ++at) {
            live += entries_[at - base_].item ? 1U : 0U;
        }
        *position = live;
    }
    const size_t before = entries_.size();
    std::erase_if(entries_, [](const Entry& entry) { return !entry.item; });
    bytes_ -= (before - entries_.size()) * sizeof(Entry);
}

size_t Checkpoint::noteMemory(std::string_view key) {
    // A node of the table, its place in it, and the key's bytes, which may be in the node.
    return 3 * sizeof(void*) + sizeof(TombstoneTable::value_type) + key.size();
}

size_t Checkpoint::noteTombstone(std::string_view key, Seqno seqno) {
    if (tombstones_ == nullptr) {
        tombstones_ = std::make_unique<TombstoneTable>();
    }
    if (!tombstones_->insert_or_assign(std::string(key), seqno).second) {
        return 0;
    }
    const size_t bytes = noteMemory(key);
    bytes_ += bytes;
    return bytes;
}

size_t Checkpoint::forgetTombstonesBelow(Seqno seqno) {
    if (tombstones_ == nullptr) {
        return 0;
    }
    size_t bytes = 0;
    std::erase_if(*tombstones_, [&](const auto& note) {
        const bool below = note.second < seqno;
        bytes += below ? noteMemory(note.first) : 0;
        return below;
    });
    bytes_ -= bytes;
    return bytes;
}

Seqno Checkpoint::tombstone(std::string_view key) const {
    if (tombstones_ == nullptr) {
        return Seqno{};
    }
    const auto found = tombstones_->find(key);
    return found != tombstones_->end() ? found->second : Seqno{};
}

size_t Checkpoint::forgetTombstone(std::string_view key) {
    const auto found = tombstones_->find(key);
    if (found == tombstones_->end()) {
        return 0;
    }
    tombstones_->erase(found);
    const size_t bytes = noteMemory(key);
    bytes_ -= bytes;
    return bytes;
}

}  // namespace kv
