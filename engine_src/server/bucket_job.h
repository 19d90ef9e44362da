// BucketJob: what is asked of the bucket and takes as long as there are documents: done by a
// JobThread.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "bucket/op_result.h"
#include "logging/log.h"
#include "server/command.h"
#include "server/job_thread.h"

namespace kv::server {

class BucketJob final : public Job {
  public:
    /// Fills in the value of the answer, where it has one.
    using Work = std::function<OpStatus(std::vector<uint8_t>& value)>;

    BucketJob(Work work, std::shared_ptr<Waker> waker)
        : Job(std::move(waker)), work_(std::move(work)) {}

    /// Once done().
    [[nodiscard]] OpStatus status() const { return status_; }
    [[nodiscard]] const std::vector<uint8_t>& value() const { return value_; }

    void run() noexcept override {
        try {
            status_ = work_(value_);
        } catch (const std::exception& error) {
            log::warn("what was asked of all documents: {}", error.what());
            status_ = OpStatus::TmpFail;
        }
    }

  private:
    Work work_;
    OpStatus status_{};
    std::vector<uint8_t> value_;
};

/// What became of `work`, which is done beside the front-end threads; nothing yet: the request
/// waits, and whoever runs it again must come here again. Drop it under a NonBucketGuard.
template <class Work>
std::shared_ptr<const BucketJob> beside(CommandContext& context, Work work) {
    const NonBucketGuard nobody;  // the job is the connection's
    auto& job = context.session.bucketJob();
    if (!job) {
        auto asked = std::make_shared<BucketJob>(std::move(work), context.session.waker());
        if (context.server.bucketJobs == nullptr) {
            asked->run();
            return asked;
        }
        context.server.bucketJobs->ask(asked);
        job = std::move(asked);
    }
    return job->done() ? std::exchange(job, nullptr) : nullptr;
}

}  // namespace kv::server
