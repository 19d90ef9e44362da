// HashTable: the documents of one vBucket by key, with statistics that are correct after every
// change.
//
// Every change goes through insert(), update() or remove(), which examine the StoredValue before
// and after (prologue, epilogue) and apply the difference to the stripe of this CPU. `StatsPolicy`
// (options/ht_stats.h) determines the number of stripes. Threads and ownership as HashIndex.
#pragma once

#include <utility>

#include "bucket/hash_index.h"
#include "bucket/hash_table_counters.h"
#include "options/selected/ht_stats.h"

namespace kv {

struct HashTableConfig {
    uint32_t size{47};  ///< initial and smallest number of buckets
    uint32_t locks{47};
    Ordered ordered{Ordered::No};
};

enum class SetStatus : uint8_t {
    WasClean,  ///< the key was missing, or its StoredValue was not dirty
    WasDirty,  ///< the key had a change that is not persisted yet
};

template <class StatsPolicy>
class BasicHashTable : public HashIndex {
  public:
    using Policy = StatsPolicy;
    using Store = typename StatsPolicy::template Store<HashTableCounters>;

    explicit BasicHashTable(const HashTableConfig& config,
                            const options::Topology& topology = options::Topology::process())
        : HashIndex(config.size, config.locks), counters_(topology), ordered_(config.ordered) {}

    [[nodiscard]] Ordered ordered() const { return ordered_; }
    [[nodiscard]] StoredValuePtr make(std::string_view key) const {
        return StoredValue::create(key, ordered_);
    }

    /// Makes room in the key's line, so that the next insert() there under this guard allocates
    /// nothing.
    void reserve(const Guard& guard) { reserveEntry(guard); }
    /// Adds a filled-in StoredValue whose key is not in the table.
    StoredValue& insert(const Guard& guard, StoredValuePtr value) {
        StoredValue& added = *value;
        link(guard, std::move(value));
        epilogue(StoredValueFacts(), &added);
        return added;
    }
    /// Runs change(value) and updates the statistics.
    template <class Change>
    void update(const Guard&, StoredValue& value, Change change) {
        const StoredValueFacts before(&value);
        change(value);
        epilogue(before, &value);
    }
    /// Removes it from the table; the caller owns it.
    [[nodiscard]] StoredValuePtr remove(const Guard& guard, StoredValue& value) {
        epilogue(StoredValueFacts(&value), nullptr);
        return unlink(guard, &value);
    }
    /// Replaces `old`, which the caller then owns, by `fresh`, which has the same key. Allocates
    /// nothing.
    [[nodiscard]] StoredValuePtr replace(const Guard& guard, StoredValue& old,
                                         StoredValuePtr fresh) {
        const StoredValueFacts before(&old);
        StoredValue& added = *fresh;
        StoredValuePtr removed = exchange(guard, &old, std::move(fresh));
        epilogue(before, &added);
        return removed;
    }
    /// Inserts or overwrites a whole document as dirty, as the historic ht.set() did (for
    /// benchmarks and simple callers).
    SetStatus set(const Item& item) {
        const Guard guard = lock(item.key());
        const ItemMeta meta{.cas = item.cas(),
                            .seqno = item.seqno(),
                            .revSeqno = item.revSeqno(),
                            .flags = item.flags(),
                            .exptime = item.exptime(),
                            .datatype = item.datatype()};
        if (StoredValue* present = find(guard, item.key())) {
            const bool dirty = present->isDirty();
            update(guard, *present,
                   [&](StoredValue& value) { value.setDocument(meta, item.blob()); });
            present->setDirty(true);
            return dirty ? SetStatus::WasDirty : SetStatus::WasClean;
        }
        StoredValuePtr value = make(item.key());
        value->setDocument(meta, item.blob());
        value->setDirty(true);
        insert(guard, std::move(value));
        return SetStatus::WasClean;
    }
    /// Removes every StoredValue, for the caller to free without the locks, and zeroes every
    /// counter of every stripe. Allocates nothing.
    [[nodiscard]] Contents clear(const AllGuard& guard, EmptyLines empty) {
        Contents taken = takeAll(guard, std::move(empty));
        counters_.forEach([](HashTableCounters& stripe) { stripe.reset(); });
        return taken;
    }

    void clear() {
        EmptyLines empty = makeEmptyLines();
        const Contents freed = clear(lockAll(), std::move(empty));
    }

    /// Applies a difference to this CPU's stripe. `after` is nullptr if the StoredValue is gone.
    void epilogue(const StoredValueFacts& before, const StoredValue* after) {
        counters_.local().apply(before, StoredValueFacts(after));
    }

    /// Returns the sums over all stripes; exact while no change is in progress.
    [[nodiscard]] HashTableSums sums() const {
        HashTableSums sums;
        counters_.forEach([&sums](const HashTableCounters& stripe) { stripe.addTo(sums); });
        return sums;
    }
    /// StoredValues in the table, live or not.
    [[nodiscard]] size_t entries() const {
        const HashTableSums now = sums();
        return static_cast<size_t>(std::max<int64_t>(0, now.items + now.tombstones));
    }
    /// Resizes if the number of entries requires it. Returns true if it did.
    bool resizeIfNeeded() {
        const uint32_t wanted = preferredSize(entries());
        if (wanted == size()) {
            return false;
        }
        resize(wanted);
        return true;
    }
    [[nodiscard]] unsigned statsStripes() const { return counters_.stripes(); }
    [[nodiscard]] size_t statsBytes() const { return counters_.bytes(); }
    /// Bytes requested for the table without its documents.
    [[nodiscard]] size_t fixedBytes() const { return structureBytes() + statsBytes(); }

  private:
    Store counters_;
    const Ordered ordered_;
};

using HashTable = BasicHashTable<options::SelectedHtStats>;

}  // namespace kv
