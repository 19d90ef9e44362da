// BucketJob: what an administrator asks of the bucket and takes as long as there are documents:
// done by a JobThread.
#pragma once

#include <exception>
#include <functional>

#include "bucket/op_result.h"
#include "logging/log.h"
#include "server/job_thread.h"

namespace kv::server {

class BucketJob final : public Job {
  public:
    using Work = std::function<OpStatus()>;

    BucketJob(Work work, std::shared_ptr<Waker> waker)
        : Job(std::move(waker)), work_(std::move(work)) {}

    /// Once done().
    [[nodiscard]] OpStatus status() const { return status_; }

  private:
    void run() noexcept override {
        try {
            status_ = work_();
        } catch (const std::exception& error) {
            log::warn("job of an administrator: {}", error.what());
            status_ = OpStatus::TmpFail;
        }
    }

    Work work_;
    OpStatus status_{};
};

}  // namespace kv::server
