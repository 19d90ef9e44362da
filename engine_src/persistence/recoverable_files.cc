#include "persistence/recoverable_files.h"

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <atomic>
#include <string>
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

/// Shared by the files, which may outlive their file system.
struct Patience {
    std::atomic<bool> isOver{false};
    std::atomic<bool> wasNeeded{false};

    IOStatus mark(IOStatus status) {
        // RocksDB recovers from a full disk by itself.
        if (status.IsIOError() && !status.IsNoSpace()) {
            wasNeeded = true;
            status.SetRetryable(!isOver);
        }
        return status;
    }
};

class RecoverableFile final : public rocksdb::FSWritableFileOwnerWrapper {
  public:
    RecoverableFile(std::unique_ptr<FSWritableFile> real, std::shared_ptr<Patience> patience)
        : FSWritableFileOwnerWrapper(std::move(real)), patience_(std::move(patience)) {}

    IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
        return patience_->mark(target()->Append(data, options, debug));
    }
    IOStatus Append(const Slice& data, const IOOptions& options,
                    const rocksdb::DataVerificationInfo& info, IODebugContext* debug) override {
        return patience_->mark(target()->Append(data, options, info, debug));
    }
    IOStatus Flush(const IOOptions& options, IODebugContext* debug) override {
        return patience_->mark(target()->Flush(options, debug));
    }
    IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
        return patience_->mark(target()->Sync(options, debug));
    }
    IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
        return patience_->mark(target()->Fsync(options, debug));
    }
    IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
        return patience_->mark(target()->Close(options, debug));
    }

  private:
    const std::shared_ptr<Patience> patience_;
};

class RecoverableDirectory final : public rocksdb::FSDirectoryWrapper {
  public:
    RecoverableDirectory(std::unique_ptr<FSDirectory> real, std::shared_ptr<Patience> patience)
        : FSDirectoryWrapper(std::move(real)), patience_(std::move(patience)) {}

    IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
        return patience_->mark(FSDirectoryWrapper::Fsync(options, debug));
    }
    IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* debug,
                                 const rocksdb::DirFsyncOptions& which) override {
        return patience_->mark(FSDirectoryWrapper::FsyncWithDirOptions(options, debug, which));
    }

  private:
    const std::shared_ptr<Patience> patience_;
};

/// Wraps what was opened, and marks the error if it was not.
template <class Recoverable, class File>
IOStatus wrapped(IOStatus status, std::unique_ptr<File>& file,
                 const std::shared_ptr<Patience>& patience) {
    if (status.ok()) {
        file = std::make_unique<Recoverable>(std::move(file), patience);
    }
    return patience->mark(std::move(status));
}

}  // namespace

class RecoverableFileSystem final : public rocksdb::FileSystemWrapper {
  public:
    using FileSystemWrapper::FileSystemWrapper;
    [[nodiscard]] const char* Name() const override { return "RecoverableFileSystem"; }

    IOStatus NewWritableFile(const std::string& name, const FileOptions& options,
                             std::unique_ptr<FSWritableFile>* file,
                             IODebugContext* debug) override {
        return wrapped<RecoverableFile>(target()->NewWritableFile(name, options, file, debug),
                                        *file, patience_);
    }
    IOStatus ReopenWritableFile(const std::string& name, const FileOptions& options,
                                std::unique_ptr<FSWritableFile>* file,
                                IODebugContext* debug) override {
        return wrapped<RecoverableFile>(target()->ReopenWritableFile(name, options, file, debug),
                                        *file, patience_);
    }
    IOStatus ReuseWritableFile(const std::string& name, const std::string& old,
                               const FileOptions& options, std::unique_ptr<FSWritableFile>* file,
                               IODebugContext* debug) override {
        return wrapped<RecoverableFile>(
                target()->ReuseWritableFile(name, old, options, file, debug), *file, patience_);
    }
    IOStatus NewRandomAccessFile(const std::string& name, const FileOptions& options,
                                 std::unique_ptr<FSRandomAccessFile>* file,
                                 IODebugContext* debug) override {
        // Errors of reading stay final: a file that is damaged or gone does not come back, and a
        // compaction that tried again without end would block writes instead of refusing
        // them.
        IOStatus status = target()->NewRandomAccessFile(name, options, file, debug);
        return status.IsPathNotFound() ? status : patience_->mark(std::move(status));
    }
    IOStatus NewDirectory(const std::string& name, const IOOptions& options,
                          std::unique_ptr<FSDirectory>* directory, IODebugContext* debug) override {
        return wrapped<RecoverableDirectory>(
                target()->NewDirectory(name, options, directory, debug), *directory, patience_);
    }
    IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                        IODebugContext* debug) override {
        return patience_->mark(target()->RenameFile(from, to, options, debug));
    }

    bool giveUp() {
        patience_->isOver = true;
        return patience_->wasNeeded;
    }

  private:
    const std::shared_ptr<Patience> patience_{std::make_shared<Patience>()};
};

RecoverableFiles::RecoverableFiles(rocksdb::Env& below)
    : files_(std::make_shared<RecoverableFileSystem>(below.GetFileSystem())),
      env_(rocksdb::NewCompositeEnv(files_)) {}

RecoverableFiles::~RecoverableFiles() = default;

bool RecoverableFiles::giveUp() {
    return files_->giveUp();
}

}  // namespace kv
