#include "persistence/recoverable_files.h"

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <atomic>
#include <string>
#include <utility>

namespace kv {

using rocksdb::FileOptions;
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

}  // namespace

class RecoverableFileSystem final : public rocksdb::FileSystemWrapper {
  public:
    using FileSystemWrapper::FileSystemWrapper;
    [[nodiscard]] const char* Name() const override { return "RecoverableFileSystem"; }

    IOStatus NewWritableFile(const std::string& name, const FileOptions& options,
                             std::unique_ptr<FSWritableFile>* file,
                             IODebugContext* debug) override {
        return wrapped(target()->NewWritableFile(name, options, file, debug), *file);
    }
    IOStatus ReopenWritableFile(const std::string& name, const FileOptions& options,
                                std::unique_ptr<FSWritableFile>* file,
                                IODebugContext* debug) override {
        return wrapped(target()->ReopenWritableFile(name, options, file, debug), *file);
    }
    IOStatus ReuseWritableFile(const std::string& name, const std::string& old,
                               const FileOptions& options, std::unique_ptr<FSWritableFile>* file,
                               IODebugContext* debug) override {
        return wrapped(target()->ReuseWritableFile(name, old, options, file, debug), *file);
    }

    bool giveUp() {
        patience_->isOver = true;
        return patience_->wasNeeded;
    }

  private:
    IOStatus wrapped(IOStatus status, std::unique_ptr<FSWritableFile>& file) {
        if (status.ok()) {
            file = std::make_unique<RecoverableFile>(std::move(file), patience_);
        }
        return patience_->mark(std::move(status));
    }

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
