#pragma once

// The documents of the append workload: a JSON array of equal fields of 60 bytes,
//   [{"pn": "000000000042", "nam": "ViberPhone_0123456789abcdef"}, {...}, ...]
// A document depends only on (seed, id, number of fields), so its size and content are known
// without reading it back, and do not depend on the order in which documents were updated.

#include <cstdint>
#include <string>
#include <vector>

namespace kv::load {

inline constexpr std::size_t kFieldSize = 60;
inline constexpr std::uint64_t kMaxAppendId = 999'999'999'999;  // 12 digits

/// Bytes of a document with that many fields (at least 1).
constexpr std::size_t documentSize(std::size_t fields) noexcept {
    return 2 + kFieldSize * fields + 2 * (fields - 1);  // brackets, fields, ", " between them
}

/// Writes the document to `to` (room for documentSize(fields)).
void writeDocument(std::uint8_t* to, std::uint64_t seed, std::uint64_t id,
                   std::size_t fields) noexcept;

/// Returns the document as text, for tests.
std::string documentText(std::uint64_t seed, std::uint64_t id, std::size_t fields);

/// Returns the number of fields with which the document is loaded: uniform in min..max, from (seed,
/// id).
std::uint32_t initialFields(std::uint64_t seed, std::uint64_t id, std::uint32_t min,
                            std::uint32_t max) noexcept;

/// The current state of all documents: the number of fields of each. Threads: shared by the threads
/// of a run without locks: document `id` belongs to thread id % threads, and only that thread
/// touches its entries.
class AppendStore {
  public:
    AppendStore(std::uint64_t items, std::uint64_t seed, std::uint32_t fieldsMin,
                std::uint32_t fieldsMax)
        : seed_(seed), fields_(items + 1), pending_(items + 1) {
        for (std::uint64_t id = 1; id <= items; ++id) {
            fields_[id] = initialFields(seed, id, fieldsMin, fieldsMax);
        }
    }

    std::uint64_t items() const noexcept { return fields_.size() - 1; }
    std::uint64_t seed() const noexcept { return seed_; }
    /// Number of fields of the stored document (ids are 1..items).
    std::uint32_t& fields(std::uint64_t id) noexcept { return fields_[id]; }
    std::uint32_t fields(std::uint64_t id) const noexcept { return fields_[id]; }
    /// Updates of this document that are drawn and not finished; all but one of them wait.
    std::uint32_t& pending(std::uint64_t id) noexcept { return pending_[id]; }

    /// Sum of the value sizes.
    std::uint64_t valueBytes() const noexcept {
        std::uint64_t sum = 0;
        for (std::size_t id = 1; id < fields_.size(); ++id) {
            sum += documentSize(fields_[id]);
        }
        return sum;
    }

  private:
    std::uint64_t seed_;
    std::vector<std::uint32_t> fields_;
    std::vector<std::uint32_t> pending_;
};

/// One pass of the historic pattern over the first n documents: floor(0.75 n) draws, uniform with
/// replacement, from 1..floor(0.8 n). The sequence depends only on (seed, round, step); each thread
/// computes all of it and takes its own documents' draws.
struct AppendPass {
    std::uint64_t draws = 0;
    std::uint64_t range = 0;
    std::uint64_t stream = 0;
};
/// step 0, 1, 2: n = items, items / 2, items / 4.
constexpr AppendPass appendPass(std::uint64_t items, std::uint32_t round,
                                std::uint32_t step) noexcept {
    const std::uint64_t n = items >> step;
    const std::uint64_t range = n / 5 * 4 + n % 5 * 4 / 5;  // without overflow
    return {range == 0 ? 0 : n / 4 * 3 + n % 4 * 3 / 4, range, std::uint64_t{round} * 3 + step};
}

}  // namespace kv::load
