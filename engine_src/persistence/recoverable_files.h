// RecoverableFiles: files whose errors RocksDB tries to recover from.
//
// By itself it treats a failed write of its log as final, and so an error of a flush or a
// compaction: a file that cannot be opened, a directory that cannot be synced. After one
// EIO or EMFILE, although it may be temporary (a network disk, a controller's reset, too many
// connections), every later write is refused until the process is restarted, and everything that
// waits in memory is lost with it. From a full disk it recovers: it writes its memory to new files
// and begins another log, at once and then every five seconds until that succeeds. So these files
// report every error of writing as a full disk. If they called it retryable instead, RocksDB 7
// would go on with a log that failed after a table file, and end the process.
#pragma once

#include <cstdint>
#include <memory>

#include "persistence/log_notes.h"

namespace rocksdb {
class Env;
}  // namespace rocksdb

namespace kv {

class RecoverableFileSystem;

/// When a write counts as stored.
enum class Stored : uint8_t { Written, Synced };

class RecoverableFiles {
  public:
    /// `below` outlives it. The logs that are made and removed are recorded in `notes`.
    RecoverableFiles(rocksdb::Env& below, std::shared_ptr<LogNotes> notes,
                     Stored stored = Stored::Written);
    RecoverableFiles(const RecoverableFiles&) = delete;
    RecoverableFiles& operator=(const RecoverableFiles&) = delete;
    ~RecoverableFiles();

    [[nodiscard]] rocksdb::Env* env() const { return env_.get(); }
    /// True if nothing has been written to the newest log.
    [[nodiscard]] bool logIsEmpty() const;
    /// True if RocksDB still has a log that had an error. It is neither synced nor emptied until
    /// its memory is in other files.
    [[nodiscard]] bool hasFailedLogs() const;

  private:
    std::shared_ptr<RecoverableFileSystem> files_;
    std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace kv
