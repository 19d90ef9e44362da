#include "persistence/recoverable_files.h"

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace kv {

using rocksdb::FileOptions;
using rocksdb::FSDirectory;
using rocksdb::FSRandomAccessFile;
using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

namespace {

/// An error as one that RocksDB recovers from.
IOStatus recoverable(IOStatus status) {
    if (status.IsIOError() && !status.IsNoSpace()) {
        return IOStatus::NoSpace("or another error", status.ToString());
    }
    return status;
}

/// Shared by the logs, which may outlive their file system.
struct LogStates {
    explicit LogStates(Stored when) : stored(when) {}
    const Stored stored;
    std::atomic<const void*> emptyLog{nullptr};  ///< the newest one, if nothing is in it
    std::atomic<int> failedLogs{0};              ///< that are still open
};

class RecoverableFile final : public rocksdb::FSWritableFileOwnerWrapper {
  public:
    explicit RecoverableFile(std::unique_ptr<FSWritableFile> real)
        : FSWritableFileOwnerWrapper(std::move(real)) {}

    IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
        return recoverable(target()->Append(data, options, debug));
    }
    IOStatus Append(const Slice& data, const IOOptions& options,
                    const rocksdb::DataVerificationInfo& info, IODebugContext* debug) override {
        return recoverable(target()->Append(data, options, info, debug));
    }
    IOStatus Flush(const IOOptions& options, IODebugContext* debug) override {
        return recoverable(target()->Flush(options, debug));
    }
    IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
        return recoverable(target()->Sync(options, debug));
    }
    IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
        return recoverable(target()->Fsync(options, debug));
    }
    IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
        return recoverable(target()->Close(options, debug));
    }
};

/// A write-ahead log. After an error it takes nothing more and reports none: RocksDB has refused
/// the write and begins another log, but tries to write the rest of this one before it writes its
/// memory to files, and ends the process if it meets the error again.
class RecoverableLog final : public FSWritableFile {
  public:
    using Make = std::function<IOStatus(std::unique_ptr<FSWritableFile>& file)>;
    /// If the file cannot be made now, it is made when something is written to it. RocksDB 7 ends
    /// the process when it prepares for the same log a second time and its memory has deletions of
    /// ranges, such as that of a vBucket.
    RecoverableLog(Make make, std::shared_ptr<LogStates> states)
        : make_(std::move(make)), states_(std::move(states)) {
        states_->emptyLog = this;
        make_(file_).PermitUncheckedError();
    }
    RecoverableLog(const RecoverableLog&) = delete;
    RecoverableLog& operator=(const RecoverableLog&) = delete;
    ~RecoverableLog() override { states_->failedLogs -= failed_ ? 1 : 0; }

    IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
        if (failed_) {
            return IOStatus::OK();
        }
        IOStatus status = file_ != nullptr ? IOStatus::OK() : make_(file_);
        status = status.ok() ? file_->Append(data, options, debug) : std::move(status);
        bytes_ += data.size();
        if (!status.ok()) {
            // A part of a record counts as damage: after a crash a start would refuse the store if
            // only some of its memory is in newer files.
            resize(wholeBytes_, options);
        }
        return noted(std::move(status));
    }
    IOStatus Append(const Slice& data, const IOOptions& options,
                    const rocksdb::DataVerificationInfo& /*info*/, IODebugContext* debug) override {
        return Append(data, options, debug);
    }
    /// Called after each record.
    IOStatus Flush(const IOOptions& options, IODebugContext* debug) override {
        if (failed_ || file_ == nullptr) {
            return IOStatus::OK();
        }
        IOStatus status = file_->Flush(options, debug);
        if (status.ok() && bytes_ != wholeBytes_) {
            wholeBytes_ = bytes_;
            const void* self = this;
            states_->emptyLog.compare_exchange_strong(self, nullptr);
        }
        return noted(std::move(status));
    }
    IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
        if (failed_ || file_ == nullptr) {
            return IOStatus::OK();
        }
        const uint64_t bytes = wholeBytes_;
        IOStatus status = noted(file_->Sync(options, debug));
        if (status.ok()) {
            syncedBytes_ = bytes;
        } else if (states_->stored == Stored::Synced) {
            // RocksDB refuses what is not synced. The next start would read it, but only into those
            // families whose memory has not been written to files since. Zeros are the end of a
            // log, and keep the size that RocksDB may already expect of it.
            resize(syncedBytes_, options);
            resize(bytes, options);
        }
        return status;
    }
    IOStatus RangeSync(uint64_t offset, uint64_t bytes, const IOOptions& options,
                       IODebugContext* debug) override {
        return file_ != nullptr ? file_->RangeSync(offset, bytes, options, debug) : IOStatus::OK();
    }
    IOStatus Allocate(uint64_t offset, uint64_t bytes, const IOOptions& options,
                      IODebugContext* debug) override {
        return file_ != nullptr ? file_->Allocate(offset, bytes, options, debug) : IOStatus::OK();
    }
    void PrepareWrite(size_t offset, size_t bytes, const IOOptions& options,
                      IODebugContext* debug) override {
        if (file_ != nullptr) {
            file_->PrepareWrite(offset, bytes, options, debug);
        }
    }
    void SetPreallocationBlockSize(size_t size) override {
        if (file_ != nullptr) {
            file_->SetPreallocationBlockSize(size);
        }
    }
    void SetWriteLifeTimeHint(rocksdb::Env::WriteLifeTimeHint hint) override {
        if (file_ != nullptr) {
            file_->SetWriteLifeTimeHint(hint);
        }
    }
    IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
        return file_ != nullptr ? file_->Close(options, debug) : IOStatus::OK();
    }
    bool IsSyncThreadSafe() const override { return true; }
    uint64_t GetFileSize(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
        return bytes_;
    }

  private:
    IOStatus noted(IOStatus status) {
        // A sync and a write of two threads may both fail.
        if (!status.ok() && !failed_.exchange(true)) {
            ++states_->failedLogs;
        }
        return status;
    }
    /// Removes what follows. Zeros take the place of what is missing.
    void resize(uint64_t bytes, const IOOptions& options) {
        if (file_ != nullptr) {
            file_->Truncate(bytes, options, nullptr).PermitUncheckedError();
        }
    }

    const Make make_;
    const std::shared_ptr<LogStates> states_;
    std::unique_ptr<FSWritableFile> file_;
    uint64_t bytes_{0};
    std::atomic<uint64_t> wholeBytes_{0};   ///< up to the end of the last record
    std::atomic<uint64_t> syncedBytes_{0};  ///< up to the end of the last record that was synced
    std::atomic<bool> failed_{false};
};

class RecoverableDirectory final : public rocksdb::FSDirectoryWrapper {
  public:
    explicit RecoverableDirectory(std::unique_ptr<FSDirectory> real)
        : FSDirectoryWrapper(std::move(real)) {}

    IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
        return recoverable(FSDirectoryWrapper::Fsync(options, debug));
    }
    IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* debug,
                                 const rocksdb::DirFsyncOptions& which) override {
        return recoverable(FSDirectoryWrapper::FsyncWithDirOptions(options, debug, which));
    }
};

template <class Recoverable, class File>
IOStatus wrapped(IOStatus status, std::unique_ptr<File>& file) {
    if (status.ok()) {
        file = std::make_unique<Recoverable>(std::move(file));
    }
    return recoverable(std::move(status));
}

}  // namespace

class RecoverableFileSystem final : public rocksdb::FileSystemWrapper {
  public:
    RecoverableFileSystem(const std::shared_ptr<rocksdb::FileSystem>& real,
                          std::shared_ptr<LogNotes> notes, Stored stored)
        : FileSystemWrapper(real),
          states_(std::make_shared<LogStates>(stored)),
          notes_(std::move(notes)) {}
    [[nodiscard]] const char* Name() const override { return "RecoverableFileSystem"; }

    IOStatus NewWritableFile(const std::string& name, const FileOptions& options,
                             std::unique_ptr<FSWritableFile>* file,
                             IODebugContext* debug) override {
        if (!name.ends_with(".log")) {
            return wrapped<RecoverableFile>(target()->NewWritableFile(name, options, file, debug),
                                            *file);
        }
        const auto make = [files = target_, notes = notes_, name,
                           options](std::unique_ptr<FSWritableFile>& made) {
            IOStatus status = files->NewWritableFile(name, options, &made, nullptr);
            if (status.ok()) {
                notes->made(fileOf(name));
            }
            return wrapped<RecoverableFile>(std::move(status), made);
        };
        *file = std::make_unique<RecoverableLog>(make, states_);
        return IOStatus::OK();
    }
    IOStatus ReopenWritableFile(const std::string& name, const FileOptions& options,
                                std::unique_ptr<FSWritableFile>* file,
                                IODebugContext* debug) override {
        return wrapped<RecoverableFile>(target()->ReopenWritableFile(name, options, file, debug),
                                        *file);
    }
    IOStatus ReuseWritableFile(const std::string& name, const std::string& old,
                               const FileOptions& options, std::unique_ptr<FSWritableFile>* file,
                               IODebugContext* debug) override {
        return wrapped<RecoverableFile>(
                target()->ReuseWritableFile(name, old, options, file, debug), *file);
    }
    IOStatus NewRandomAccessFile(const std::string& name, const FileOptions& options,
                                 std::unique_ptr<FSRandomAccessFile>* file,
                                 IODebugContext* debug) override {
        // Errors of reading stay final: a file that is damaged or gone does not come back, and a
        // compaction that tried again without end would block writes instead of refusing
        // them.
        IOStatus status = target()->NewRandomAccessFile(name, options, file, debug);
        return status.IsPathNotFound() ? status : recoverable(std::move(status));
    }
    IOStatus NewDirectory(const std::string& name, const IOOptions& options,
                          std::unique_ptr<FSDirectory>* directory, IODebugContext* debug) override {
        return wrapped<RecoverableDirectory>(
                target()->NewDirectory(name, options, directory, debug), *directory);
    }
    IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                        IODebugContext* debug) override {
        return recoverable(target()->RenameFile(from, to, options, debug));
    }

    IOStatus DeleteFile(const std::string& name, const IOOptions& options,
                        IODebugContext* debug) override {
        if (name.ends_with(".log")) {
            notes_->removing(fileOf(name));
        }
        return target()->DeleteFile(name, options, debug);
    }

    [[nodiscard]] bool logIsEmpty() const { return states_->emptyLog != nullptr; }
    [[nodiscard]] bool hasFailedLogs() const { return states_->failedLogs != 0; }

  private:
    static std::string_view fileOf(std::string_view path) {
        return path.substr(path.rfind('/') + 1);
    }

    const std::shared_ptr<LogStates> states_;
    const std::shared_ptr<LogNotes> notes_;
};

RecoverableFiles::RecoverableFiles(rocksdb::Env& below, std::shared_ptr<LogNotes> notes,
                                   Stored stored)
    : files_(std::make_shared<RecoverableFileSystem>(below.GetFileSystem(), std::move(notes),
                                                     stored)),
      env_(rocksdb::NewCompositeEnv(files_)) {}

RecoverableFiles::~RecoverableFiles() = default;

bool RecoverableFiles::logIsEmpty() const {
    return files_->logIsEmpty();
}

bool RecoverableFiles::hasFailedLogs() const {
    return files_->hasFailedLogs();
}

}  // namespace kv
