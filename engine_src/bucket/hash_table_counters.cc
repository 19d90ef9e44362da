#include "bucket/hash_table_counters.h"

namespace kv {

void HashTableCounters::addTo(HashTableSums& sums) const noexcept {
    sums.tombstones += tombstones.load(std::memory_order_relaxed);
    sums.nonResident += nonResident.load(std::memory_order_relaxed);
    sums.expiring += expiring.load(std::memory_order_relaxed);
    sums.metaBytes += metaBytes.load(std::memory_order_relaxed);
    sums.valueBytes += valueBytes.load(std::memory_order_relaxed);
    sums.savedBytes += savedBytes.load(std::memory_order_relaxed);
    for (size_t i = 0; i < kDatatypes; ++i) {
        const int64_t live = datatypes[i].load(std::memory_order_relaxed);
        sums.datatypes[i] += live;
        sums.items += live;
    }
}

void HashTableCounters::reset() noexcept {
    for (auto* counter :
         {&tombstones, &nonResident, &expiring, &metaBytes, &valueBytes, &savedBytes}) {
        counter->store(0, std::memory_order_relaxed);
    }
    for (auto& counter : datatypes) {
        counter.store(0, std::memory_order_relaxed);
    }
}

int64_t snappySavedBytes(std::string_view compressed) noexcept {
    // A Snappy block begins with its uncompressed length as a little-endian base-128 number of at
    // most 5 bytes.
    uint64_t length = 0;
    for (size_t i = 0; i < compressed.size() && i < 5; ++i) {
        const auto byte = static_cast<uint8_t>(compressed[i]);
        length |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
        if ((byte & 0x80) == 0) {
            return static_cast<int64_t>(length) - static_cast<int64_t>(compressed.size());
        }
    }
    return 0;
}

}  // namespace kv
