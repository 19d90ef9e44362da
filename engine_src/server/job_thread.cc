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

void JobThread::ask(std::shared_ptr<Job> job, std::string_view requester) {
    {
        const std::lock_guard lock(mutex_);
        if (queued_ >= sweepAt_) {
            dropUnwanted();
            sweepAt_ = std::max(kLeastToSweep, 2 * queued_);
        }
        const auto found =
                std::find_if(requesters_.begin(), requesters_.end(),
                             [&](const Requester& entry) { return entry.name == requester; });
        if (found != requesters_.end()) {
            found->jobs.push_back(std::move(job));
        } else {
            Requester added{std::string(requester), {}};
            added.jobs.push_back(std::move(job));
            requesters_.push_back(std::move(added));
        }
        ++queued_;
    }
    changed_.notify_one();
}

void JobThread::dropUnwanted() {
    for (Requester& requester : requesters_) {
        queued_ -= std::erase_if(requester.jobs,
                                 [](const auto& waiting) { return !isWanted(waiting); });
    }
    requesters_.remove_if([](const Requester& requester) { return requester.jobs.empty(); });
}

std::shared_ptr<Job> JobThread::takeNext() {
    auto& jobs = requesters_.front().jobs;
    std::shared_ptr<Job> job = std::move(jobs.front());
    jobs.pop_front();
    --queued_;
    if (jobs.empty()) {
        requesters_.pop_front();
    } else {
        requesters_.splice(requesters_.end(), requesters_, requesters_.begin());
    }
    return job;
}

void JobThread::loop() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return stopping_ || queued_ != 0; });
        if (stopping_) {
            return;
        }
        const auto job = takeNext();
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
