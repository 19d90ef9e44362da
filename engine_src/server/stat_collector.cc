#include "server/stat_collector.h"

#include <pthread.h>

#include <new>
#include <utility>

namespace kv::server {

void StatJob::run(ServerContext& server) {
    try {
        answer_ = collectStats(server, group_);
    } catch (const std::bad_alloc&) {
        answer_ = {protocol::Status::kEtmpfail, {}};
    }
    done_.store(true, std::memory_order_release);
    waker_->wake();
}

StatCollector::StatCollector(ServerContext& server) : server_(server), thread_([this] { loop(); }) {
    pthread_setname_np(thread_.native_handle(), "stat");
}

StatCollector::~StatCollector() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
}

std::shared_ptr<const StatJob> StatCollector::ask(std::string_view group,
                                                  std::shared_ptr<Waker> waker) {
    auto job = std::make_shared<StatJob>(group, std::move(waker));
    {
        const std::lock_guard lock(mutex_);
        jobs_.push_back(job);
    }
    changed_.notify_one();
    return job;
}

void StatCollector::loop() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
        if (stopping_) {
            return;
        }
        const auto job = std::move(jobs_.front());
        jobs_.pop_front();
        lock.unlock();
        job->run(server_);
        lock.lock();
    }
}

}  // namespace kv::server
