#include "server/job_thread.h"

#include <pthread.h>

#include <algorithm>

namespace kv::server {

JobThread::JobThread(const char* name) : thread_([this] { loop(); }) {
    pthread_setname_np(thread_.native_handle(), name);
}

void JobThread::stop() {
    if (!thread_.joinable()) {
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
}

void JobThread::ask(std::shared_ptr<Job> job) {
    {
        const std::lock_guard lock(mutex_);
        if (jobs_.size() >= sweepAt_) {
            std::erase_if(jobs_, [](const auto& waiting) { return !isWanted(waiting); });
            sweepAt_ = std::max(kLeastToSweep, 2 * jobs_.size());
        }
        jobs_.push_back(std::move(job));
    }
    changed_.notify_one();
}

void JobThread::loop() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
        if (stopping_) {
            return;
        }
        const auto job = std::move(jobs_.front());
        jobs_.pop_front();
        lock.unlock();
        if (isWanted(job)) {
            job->run();
            job->done_.store(true, std::memory_order_release);
            job->waker_->wake();
        }
        lock.lock();
    }
}

}  // namespace kv::server
