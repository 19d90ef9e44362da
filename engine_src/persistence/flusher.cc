#include "persistence/flusher.h"

#include <array>
#include <bit>

#include "logging/log.h"
#include "memory/bucket_memory.h"
#include "types/key_hash.h"

namespace kv {

namespace {

void count(std::atomic<uint64_t>& counter) {
    counter.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

void PersistenceContext::setCallback(const Item& item, PersistSetStatus status) {
    if (status == PersistSetStatus::Failed) {
        // The item is still in its checkpoint, and the cursor goes back to it: nothing needs to be
        // made dirty again.
        count(stats_.failedItems);
        return;
    }
    count(status == PersistSetStatus::Insert ? stats_.inserts : stats_.updates);
    count(stats_.persisted);
    target_.persistedSet(item);
}

void PersistenceContext::deleteCallback(const Item& item, PersistDeleteStatus status) {
    if (status == PersistDeleteStatus::Failed) {
        count(stats_.failedItems);
        return;
    }
    count(status == PersistDeleteStatus::Success ? stats_.deletes : stats_.deleteMisses);
    count(stats_.persisted);
    target_.persistedDelete(item);
}

namespace {

/// Up to this number, items are searched without allocation and without sorting: in nearly every
/// flush none is an older version.
constexpr size_t kFew = 1024;

size_t dropOlderOfFew(std::vector<ItemPtr>& items) {
    // An open hash table, at most half full, of positions + 1 in `items`; 0: free.
    std::array<uint16_t, 2 * kFew> table;
    const size_t mask = std::bit_ceil(2 * items.size()) - 1;
    std::fill_n(table.begin(), mask + 1, uint16_t{0});
    size_t dropped = 0;
    for (size_t i = 0; i < items.size(); ++i) {
        size_t at = hashKey(items[i]->key()) & mask;
        while (table[at] != 0 && items[table[at] - 1U]->key() != items[i]->key()) {
            at = (at + 1) & mask;
        }
        uint16_t& newest = table[at];
        if (newest != 0) {
            ++dropped;
            if (items[i]->seqno() < items[newest - 1U]->seqno()) {
                items[i] = {};
                continue;
            }
            items[newest - 1U] = {};
        }
        newest = static_cast<uint16_t>(i + 1);
    }
    if (dropped != 0) {
        std::erase_if(items, [](const ItemPtr& item) { return !item; });
    }
    return dropped;
}

}  // namespace

size_t dropOlderVersions(std::vector<ItemPtr>& items) {
    if (items.size() <= kFew) {
        return dropOlderOfFew(items);
    }
    std::sort(items.begin(), items.end(), [](const ItemPtr& a, const ItemPtr& b) {
        const int order = a->key().compare(b->key());
        return order != 0 ? order < 0 : a->seqno() > b->seqno();
    });
    const size_t before = items.size();
    items.erase(
            std::unique(items.begin(), items.end(),
                        [](const ItemPtr& a, const ItemPtr& b) { return a->key() == b->key(); }),
            items.end());
    return before - items.size();
}

size_t transactionBytes(const std::vector<ItemPtr>& items) {
    // Keys of the two indexes, a document header, an index entry, and the deletion of the replaced
    // entry.
    constexpr size_t kPerItem = 80;
    size_t bytes = 0;
    for (const ItemPtr& item : items) {
        bytes += kPerItem + 2 * item->key().size() + item->value().size();
    }
    return bytes;
}

void logFlushFailure(Vbid vbid, size_t vbuckets, size_t items, std::string_view why) {
    const NonBucketGuard guard;
    log::warn("flush of {} vBuckets from vb {} on, {} items, failed, will be tried again: {}",
              vbuckets, vbid.get(), items, why);
}

}  // namespace kv
