// The statistics of a hash table: the counters, and how a change is determined (prologue before,
// epilogue after).
//
// Threads: counters are relaxed atomics. One stripe may be negative (a document made on one CPU and
// deleted on another); only the sum over all stripes is meaningful.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "bucket/stored_value.h"

namespace kv {

inline constexpr size_t kDatatypes = 8;  ///< combinations of JSON, Snappy and Xattr

/// Sums of a hash table at one moment.
struct HashTableSums {
    int64_t items{0};        ///< live documents
    int64_t tombstones{0};   ///< deleted documents still in the table
    int64_t nonResident{0};  ///< live documents whose value is on disk only
    int64_t expiring{0};     ///< live documents with an expiry time
    int64_t metaBytes{0};    ///< bytes requested for StoredValues, including keys
    int64_t valueBytes{0};   ///< bytes requested for Blobs
    /// Bytes that the compressed values would need in addition if they were not compressed.
    int64_t savedBytes{0};
    std::array<int64_t, kDatatypes> datatypes{};  ///< live documents per datatype

    friend bool operator==(const HashTableSums&, const HashTableSums&) = default;
};

/// A StoredValue as the statistics see it; all zero for "none".
struct StoredValueFacts {
    int64_t metaBytes{0};
    int64_t valueBytes{0};
    int64_t savedBytes{0};
    uint8_t datatype{0};
    bool live{false};
    bool tombstone{false};
    bool nonResident{false};
    bool expiring{false};

    StoredValueFacts() = default;
    explicit StoredValueFacts(const StoredValue* value);
};

/// One stripe of counters. Live documents are counted by datatype only: their number is the sum, so
/// a change needs one locked addition less.
struct HashTableCounters {
    std::atomic<int64_t> tombstones{0};
    std::atomic<int64_t> nonResident{0};
    std::atomic<int64_t> expiring{0};
    std::atomic<int64_t> metaBytes{0};
    std::atomic<int64_t> valueBytes{0};
    std::atomic<int64_t> savedBytes{0};
    std::array<std::atomic<int64_t>, kDatatypes> datatypes{};

    /// Applies the difference between two states of a document; touches only the counters that
    /// differ.
    void apply(const StoredValueFacts& before, const StoredValueFacts& after) noexcept;
    void addTo(HashTableSums& sums) const noexcept;
    void reset() noexcept;
};
static_assert(sizeof(HashTableCounters) == 112, "bytes per stripe and vBucket (historic: 144)");

/// Returns the uncompressed minus the stored size of a Snappy value; 0 if its header is not a
/// length.
int64_t snappySavedBytes(std::string_view compressed) noexcept;

inline StoredValueFacts::StoredValueFacts(const StoredValue* value) {
    if (value == nullptr) {
        return;
    }
    constexpr uint8_t kSnappy = 2;
    metaBytes = static_cast<int64_t>(value->metaBytes());
    if (const Blob* blob = value->value().get()) {
        valueBytes = static_cast<int64_t>(Blob::allocationSize(blob->size()));
        if ((value->datatype() & kSnappy) != 0) {
            savedBytes = snappySavedBytes(blob->view());
        }
    }
    datatype = value->datatype() % kDatatypes;
    tombstone = value->isDeleted();
    live = !tombstone;
    nonResident = live && !value->isResident();
    expiring = live && value->exptime() != 0;
}

// Always inline: a call, which passes both facts in memory, costs 2 % of throughput.
[[gnu::always_inline]] inline void HashTableCounters::apply(
        const StoredValueFacts& before, const StoredValueFacts& after) noexcept {
    const auto add = [](std::atomic<int64_t>& counter, int64_t difference) {
        if (difference != 0) {
            counter.fetch_add(difference, std::memory_order_relaxed);
        }
    };
    add(tombstones, int64_t{after.tombstone} - int64_t{before.tombstone});
    add(nonResident, int64_t{after.nonResident} - int64_t{before.nonResident});
    add(expiring, int64_t{after.expiring} - int64_t{before.expiring});
    add(metaBytes, after.metaBytes - before.metaBytes);
    add(valueBytes, after.valueBytes - before.valueBytes);
    add(savedBytes, after.savedBytes - before.savedBytes);
    // Not `a != b || c != d`: gcc merges both comparisons into one through memory, which waits for
    // the two stores and for the locked additions before them.
    const int kindDiffers = (before.datatype ^ after.datatype) | (before.live ^ after.live);
    if (kindDiffers != 0) {
        add(datatypes[before.datatype], -int64_t{before.live});
        add(datatypes[after.datatype], int64_t{after.live});
    }
}

}  // namespace kv
