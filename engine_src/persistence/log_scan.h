// scanLog: determines how much of a file in RocksDB's log format is intact. Write-ahead logs and
// manifests have this format.
//
// RocksDB does not report how much of a write-ahead log it could not read. It also takes a manifest
// record whose length exceeds the end of the file for one that was being written when the process
// died; then it removes the table files that this record, and all later ones, had added. So a store
// checks these files before it lets RocksDB open them. Threads: any; a function.
#pragma once

#include <cstdint>
#include <filesystem>

namespace kv {

struct LogScan {
    uint64_t bytes{0};       ///< of the file
    uint64_t wholeBytes{0};  ///< of its records up to the first one that cannot be read
    /// The unreadable part is not just the beginning of a record, as a crash in mid-write leaves
    /// it: bytes were changed.
    bool damaged{false};

    [[nodiscard]] bool isWhole() const { return wholeBytes == bytes; }
};

/// Reads the whole file and checks every checksum. Throws StoreError if it cannot be read.
LogScan scanLog(const std::filesystem::path& file);

}  // namespace kv
