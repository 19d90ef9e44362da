// BucketJob: work on the bucket that takes time in proportion to its documents. A JobThread runs
// it.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bucket/op_result.h"
#include "logging/log.h"
#include "server/commands/command.h"
#include "server/job_thread.h"

namespace kv::server {

class BucketJob final : public Job {
  public:
    /// What the work leaves for its request.
    struct Result {
        std::vector<uint8_t> value{};  ///< of the answer, if there is one
        Bucket::Stored stored{};       ///< of a read of the store
        std::string key{};             ///< of a document that was found
        std::string why{};             ///< a request was refused, if there is more than one reason
        ItemMeta meta{};
    };
    using Work = std::function<OpStatus(Result& result)>;

    BucketJob(Work work, std::shared_ptr<Waker> waker)
        : Job(std::move(waker)), work_(std::move(work)) {}

    /// The result of the work. Call it only when done() is true.
    [[nodiscard]] OpStatus status() const { return status_; }
    [[nodiscard]] const Result& result() const { return result_; }

    void run() noexcept override {
        try {
            status_ = work_(result_);
        } catch (const std::exception& error) {
            log::warn("a job on all documents failed: {}", error.what());
            status_ = OpStatus::TmpFail;
        }
    }

  private:
    Work work_;
    OpStatus status_{};
    Result result_;
};

/// Runs `work` on `thread`, apart from the front-end threads, or here if `thread` is null. Returns
/// its result, or nothing while the request has to wait; then call it again when the request runs
/// again. Drop the result under a NonBucketGuard.
template <class Work>
std::shared_ptr<const BucketJob> runBucketJob(CommandContext& context, JobThread* thread,
                                              Work work) {
    const NonBucketGuard nobody;  // the job belongs to the connection
    auto& job = context.session.bucketJob();
    if (!job) {
        auto asked = std::make_shared<BucketJob>(std::move(work), context.session.waker());
        if (thread == nullptr) {
            asked->run();
            return asked;
        }
        thread->ask(asked, context.session.user());
        job = std::move(asked);
    }
    return job->done() ? std::exchange(job, nullptr) : nullptr;
}
template <class Work>
std::shared_ptr<const BucketJob> runBucketJob(CommandContext& context, Work work) {
    return runBucketJob(context, context.server.bucketJobs, std::move(work));
}

/// Returns the result of an operation that may have to read a key from the store, or nothing while
/// the request waits for that read. `operation` receives what was read, or nullptr.
template <class Operation>
std::optional<OpResult> withStored(CommandContext& context, Vbid vbid, std::string_view key,
                                   Operation operation) {
    const Bucket::Stored* const unread = nullptr;
    if (context.session.bucketJob() == nullptr) {
        if (const OpResult result = operation(unread); result.status != OpStatus::WouldBlock)
                [[likely]] {
            return result;
        }
    }
    while (true) {  // again if a deletion was stored in the meantime
        Bucket::Stored stored;
        {
            const NonBucketGuard nobody;
            auto read = [&bucket = context.server.bucket, vbid,
                         name = std::string(key)](BucketJob::Result& result) {
                result.stored = bucket.readStored(vbid, name);
                return OpStatus::Ok;
            };
            const auto done = runBucketJob(context, context.server.storeReads, std::move(read));
            if (!done) {
                return std::nullopt;
            }
            stored = done->result().stored;
            if (done->status() != OpStatus::Ok) {  // it was not read
                OpResult refused;
                refused.status = done->status();
                return refused;
            }
        }
        if (const OpResult result = operation(&stored); result.status != OpStatus::WouldBlock) {
            return result;
        }
    }
}

}  // namespace kv::server
