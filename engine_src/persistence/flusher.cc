#include "persistence/flusher.h"

#include <spdlog/spdlog.h>

#include "memory/bucket_memory.h"

namespace kv {

namespace {

void count(std::atomic<uint64_t>& counter) {
    counter.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

void PersistenceContext::setCallback(const Item& item, PersistSetStatus status) {
    if (status == PersistSetStatus::Failed) {
        // The item is still in its checkpoint and the cursor goes back to it: nothing is to be made
        // dirty again.
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

size_t dropOlderVersions(std::vector<ItemPtr>& items) {
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
    // Keys of the two indexes, a document header, an index entry, the deletion of the entry that is
    // replaced.
    constexpr size_t kPerItem = 80;
    size_t bytes = 0;
    for (const ItemPtr& item : items) {
        bytes += kPerItem + 2 * item->key().size() + item->value().size();
    }
    return bytes;
}

void logFlushFailure(Vbid vbid, size_t items, const std::string& why) {
    const NonBucketGuard guard;
    spdlog::warn("vb {}: flush of {} items failed, will be tried again: {}", vbid.get(), items,
                 why);
}

}  // namespace kv
