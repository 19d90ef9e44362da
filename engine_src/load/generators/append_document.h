#pragma once

// The documents of the append workload: a JSON array of equal fields of 60 bytes,
//   [{"pn": "000000000042", "nam": "ViberPhone_0123456789abcdef"}, {...}, ...]
// A document depends only on (seed, id, number of fields), so its size and content are known
// without reading it back, and do not depend on the order in which documents were updated.

#include <array>
#include <cstdint>
#include <string>

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

}  // namespace kv::load
