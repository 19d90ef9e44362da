#include "load/core/thread_team.h"

#include <sys/resource.h>

#include <ctime>
#include <thread>
#include <vector>

namespace kv::load {

namespace {

double toSeconds(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

sigset_t endSignals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return set;
}

CpuTime threadCpu() {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return {toSeconds(usage.ru_utime), toSeconds(usage.ru_stime)};
}

void ThreadTeam::blockSignals() {
    const auto set = endSignals();
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Nanos ThreadTeam::inStep(const std::function<void()>& last) {
    if (threads_ == 1) {
        last();
        return nowNanos();
    }
    std::unique_lock lock(mutex_);
    if (waiting_ + 1 == running_) {
        last();  // if it throws, this thread leaves without having arrived: see leave()
        release();
    } else {
        const auto round = round_;
        ++waiting_;
        step_.wait(lock, [&] { return round_ != round; });
    }
    return roundStart_;
}

void ThreadTeam::release() {
    ++round_;
    waiting_ = 0;
    roundStart_ = nowNanos();
    step_.notify_all();
}

void ThreadTeam::leave() {
    const std::lock_guard lock(mutex_);
    if (--running_ != 0 && waiting_ == running_) {  // no other thread is awaited
        release();
    }
    ended_.notify_all();
}

RunResult ThreadTeam::run(const std::function<void(std::size_t)>& body,
                          const std::function<void()>& onTick) {
    RunResult result;
    running_ = threads_;
    std::vector<std::thread> threads;
    threads.reserve(threads_);
    for (std::size_t i = 0; i < threads_; ++i) {
        threads.emplace_back([this, i, &body, &result] {
            try {
                body(i);
            } catch (const std::exception& error) {
                const std::lock_guard lock(mutex_);
                if (result.failure.empty()) {
                    result.failure = error.what();
                    result.cause = std::current_exception();
                }
                stop_.store(true, std::memory_order_relaxed);
            }
            leave();
        });
    }

    const auto set = endSignals();
    Nanos nextTick = nowNanos() + kSecond;
    for (;;) {
        {
            std::unique_lock lock(mutex_);
            if (ended_.wait_for(lock, std::chrono::milliseconds(20),
                                [&] { return running_ == 0; })) {
                break;
            }
        }
        const timespec noWait{0, 0};
        if (::sigtimedwait(&set, nullptr, &noWait) > 0) {
            result.interrupted = true;
            stop_.store(true, std::memory_order_relaxed);
        }
        if (nowNanos() >= nextTick) {
            nextTick += kSecond;
            onTick();
        }
    }
    for (auto& thread : threads) {
        thread.join();
    }
    return result;
}

}  // namespace kv::load
