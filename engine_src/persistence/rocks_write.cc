// Writes to a store and to its log, and what is done when the disk refuses them.
#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>
#include <sys/stat.h>

#include <chrono>
#include <thread>

#include "logging/log.h"
#include "memory/bucket_memory.h"
#include "options/mutation.h"
#include "persistence/recoverable_files.h"
#include "persistence/rocks_status.h"
#include "persistence/rocks_store.h"

namespace kv {

using rocks::check;

namespace {

/// Longest wait of a write for RocksDB to make room in memory.
constexpr std::chrono::seconds kLongestStall{10};

/// Writes when there is room in memory. RocksDB could wait for that itself, but then version 9
/// never recovers from a full disk: its recovery waits for the write, and the write for the
/// recovery.
rocksdb::Status writeSoon(rocksdb::DB& db, rocksdb::WriteOptions options,
                          rocksdb::WriteBatch& batch) {
    options.no_slowdown = true;
    rocksdb::Status status = db.Write(options, &batch);
    if (!status.IsIncomplete()) [[likely]] {
        return status;
    }
    const auto limit = std::chrono::steady_clock::now() + kLongestStall;
    do {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        status = db.Write(options, &batch);
    } while (status.IsIncomplete() && std::chrono::steady_clock::now() < limit);
    return status;
}

}  // namespace

rocksdb::Status RocksStore::tryWrite(rocksdb::WriteBatch& batch) {
    rocksdb::WriteOptions options;
    if (files_->logIsEmpty()) [[unlikely]] {
        // After a failed write RocksDB begins another log, but only if its memory has something to
        // be written to files. If it goes on with the log that failed, it ends the process.
        rocksdb::WriteBatch nothing;
        check(nothing.Delete(states_, ""), "batch");
        options.disableWAL = true;
        if (rocksdb::Status status = writeSoon(*db_, options, nothing); !status.ok()) {
            return status;
        }
        options.disableWAL = false;
    }
    options.sync = config_.sync && !options::mutated(options::Mutation::MissingFsync);
    return writeSoon(*db_, options, batch);
}

bool RocksStore::write(rocksdb::WriteBatch& batch) {
    if (!isInPlace()) {
        failedCommits_.fetch_add(1, std::memory_order_relaxed);
        return false;
    }
    if (const rocksdb::Status status = tryWrite(batch); !status.ok()) {
        failedCommits_.fetch_add(1, std::memory_order_relaxed);
        // After an I/O error RocksDB refuses writes until it has recovered by itself; the caller
        // retries the transaction. Resume() may never return: RocksDB 7 can lose its flushes.
        return false;
    }
    commits_.fetch_add(1, std::memory_order_relaxed);
    bytesWritten_.fetch_add(batch.GetDataSize(), std::memory_order_relaxed);
    return true;
}

bool RocksStore::isInPlace() {
    struct stat named {};
    struct stat ours {};
    const bool there = ::stat((path_ / "CURRENT").c_str(), &named) == 0 &&
                       ::stat(path_.c_str(), &named) == 0 &&
                       ::fstat(directory_.get(), &ours) == 0 && named.st_dev == ours.st_dev &&
                       named.st_ino == ours.st_ino;
    if (!there && !away_.exchange(true)) {
        log::error("{} was moved, removed or replaced: nothing is stored until it is back",
                   path_.string());
    } else if (there) {
        away_ = false;
    }
    return there;
}

bool RocksStore::sync() {
    const NonBucketGuard guard;
    // Table files and the manifest are synced when they are written, so only the log remains.
    const bool synced = isInPlace() && !files_->hasFailedLogs() && db_->SyncWAL().ok();
    syncs_.fetch_add(synced ? 1U : 0U, std::memory_order_relaxed);
    return synced;
}

bool RocksStore::emptyLog() {
    const NonBucketGuard guard;
    const uint64_t errors = sumOf(rocksdb::DB::Properties::kBackgroundErrors);
    if (files_->hasFailedLogs() || !db_->Flush({}, {keys_, seqnos_, states_}).ok()) {
        return false;
    }
    // After an error RocksDB 7 does not wait for the end of a flush, and may have lost it.
    const auto limit = std::chrono::steady_clock::now() + config_.longestFlush;
    while (sumOf(rocksdb::DB::Properties::kNumImmutableMemTable) != 0) {
        if (sumOf(rocksdb::DB::Properties::kBackgroundErrors) != errors ||
            std::chrono::steady_clock::now() >= limit) {
            return false;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

}  // namespace kv
