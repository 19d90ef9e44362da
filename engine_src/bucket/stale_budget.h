// StaleBudget: limits the bytes of old versions that the sequence lists of one bucket keep for
// their readers.
//
// A reader of a list (a DCP backfill) keeps the versions that it has yet to read. If it stops
// reading, that would eventually be a second copy of the documents. When the budget is spent, the
// lists keep no further version: a reader that blocks a change is given up, and its owner continues
// with a new one from the same position.
//
// Ownership: owned by the bucket, shared by its lists. Threads: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <utility>

namespace kv {

class StaleBudget {
  public:
    StaleBudget() = default;
    StaleBudget(const StaleBudget&) = delete;
    StaleBudget& operator=(const StaleBudget&) = delete;

    void setMost(size_t bytes) { most_.store(bytes, std::memory_order_relaxed); }
    [[nodiscard]] size_t most() const { return most_.load(std::memory_order_relaxed); }
    [[nodiscard]] size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
    [[nodiscard]] bool isSpent() const { return bytes() >= most(); }
    void add(size_t bytes) { bytes_.fetch_add(bytes, std::memory_order_relaxed); }
    void subtract(size_t bytes) { bytes_.fetch_sub(bytes, std::memory_order_relaxed); }

    /// Sets the callback for a spent budget or a nearly full bucket. It is called once, until
    /// rearm(). Writers call it with locks held, so it must be quick and must not call back.
    /// When this returns, the former callback is not running and will not be called.
    void onSpent(std::function<void()> callback) {
        const std::lock_guard lock(mutex_);
        callback_ = std::move(callback);
    }
    void notifySpent() {
        if (notified_.load(std::memory_order_relaxed) ||
            notified_.exchange(true, std::memory_order_acq_rel)) {
            return;
        }
        const std::lock_guard lock(mutex_);
        if (callback_) {
            callback_();
        }
    }
    void rearm() { notified_.store(false, std::memory_order_release); }

  private:
    std::atomic<size_t> bytes_{0};
    std::atomic<size_t> most_{SIZE_MAX};
    std::atomic<bool> notified_{false};
    std::mutex mutex_;
    std::function<void()> callback_;  ///< guarded by mutex_
};

}  // namespace kv
