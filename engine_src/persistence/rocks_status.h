// Shared by the files of RocksStore: conversions to RocksDB's types, and its statuses as
// exceptions.
#pragma once

#include <rocksdb/slice.h>
#include <rocksdb/status.h>

#include <array>
#include <string>
#include <string_view>

#include "persistence/store_error.h"

namespace kv::rocks {

inline rocksdb::Slice slice(std::string_view text) {
    return {text.data(), text.size()};
}
template <size_t N>
rocksdb::Slice slice(const std::array<char, N>& bytes) {
    return {bytes.data(), N};
}
inline std::string_view view(const rocksdb::Slice& bytes) {
    return {bytes.data(), bytes.size()};
}

/// Throws DamageError if the store's files are damaged or missing, and StoreError if `what` failed
/// for another reason.
inline void check(const rocksdb::Status& status, const char* what) {
    const auto text = [&] { return std::string(what) + ": " + status.ToString(); };
    if (status.IsCorruption() || status.IsPathNotFound() || status.IsInvalidArgument()) {
        throw DamageError(text());
    }
    if (!status.ok()) {
        throw StoreError(text());
    }
}

}  // namespace kv::rocks
