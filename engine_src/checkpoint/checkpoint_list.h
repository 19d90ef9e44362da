// CheckpointList: owning, intrusive, doubly linked, without a size, so that cutting off any prefix
// takes constant time. CheckpointMemory counts the bytes of a log, ExtractedCheckpoints frees a
// list that was cut off.
//
// The number of checkpoints follows from their ids, which are consecutive. Threads: not
// thread-safe, except CheckpointMemory; the new owner of a cut-off list destroys it outside the
// manager's lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "checkpoint/checkpoint.h"

namespace kv {

class CheckpointList {
  public:
    CheckpointList() = default;
    CheckpointList(CheckpointList&& other) noexcept
        : first_(std::exchange(other.first_, nullptr)),
          last_(std::exchange(other.last_, nullptr)) {}
    CheckpointList& operator=(CheckpointList&& other) noexcept {
        std::swap(first_, other.first_);
        std::swap(last_, other.last_);
        return *this;
    }
    CheckpointList(const CheckpointList&) = delete;
    CheckpointList& operator=(const CheckpointList&) = delete;
    ~CheckpointList() { clear(); }

    [[nodiscard]] bool empty() const { return first_ == nullptr; }
    [[nodiscard]] Checkpoint* oldest() const { return first_; }
    [[nodiscard]] Checkpoint* newest() const { return last_; }
    [[nodiscard]] size_t size() const {
        return empty() ? 0 : static_cast<size_t>(last_->id().get() - first_->id().get() + 1);
    }

    /// Bytes of all its checkpoints. O(checkpoints).
    [[nodiscard]] size_t memory() const {
        size_t bytes = 0;
        for (const Checkpoint* checkpoint = first_; checkpoint != nullptr;
             checkpoint = checkpoint->next()) {
            bytes += checkpoint->memory();
        }
        return bytes;
    }

    void append(std::unique_ptr<Checkpoint> checkpoint) {
        Checkpoint* added = checkpoint.release();
        added->previous_ = last_;
        (last_ != nullptr ? last_->next_ : first_) = added;
        last_ = added;
    }

    /// Appends the checkpoints of `other`, which is empty then. O(1).
    void append(CheckpointList&& other) noexcept {
        if (other.empty()) {
            return;
        }
        other.first_->previous_ = last_;
        (last_ != nullptr ? last_->next_ : first_) = std::exchange(other.first_, nullptr);
        last_ = std::exchange(other.last_, nullptr);
    }

    /// Cuts off everything before `kept` (an element of this list). O(1).
    [[nodiscard]] CheckpointList cutBefore(Checkpoint* kept) {
        CheckpointList prefix;
        if (kept == first_) {
            return prefix;
        }
        prefix.first_ = std::exchange(first_, kept);
        prefix.last_ = std::exchange(kept->previous_, nullptr);
        prefix.last_->next_ = nullptr;
        return prefix;
    }

    void clear() {
        while (first_ != nullptr) {
            const std::unique_ptr<Checkpoint> doomed(std::exchange(first_, first_->next_));
        }
        last_ = nullptr;
    }

  private:
    Checkpoint* first_{nullptr};
    Checkpoint* last_{nullptr};
};

/// The bytes that one vBucket's checkpoints and their items account for: two sums that only grow,
/// so that threads that write and threads that free do not wait for each other. Bytes are added
/// under the queue lock and released by the thread that frees; any thread may read.
class CheckpointMemory {
  public:
    /// The caller holds the queue lock.
    void add(size_t bytes) {
        added_.store(added_.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
    }
    void release(size_t bytes) { released_.fetch_add(bytes, std::memory_order_relaxed); }
    /// Without extracted checkpoints that are already freed.
    [[nodiscard]] size_t bytes() const {
        return added_.load(std::memory_order_relaxed) - released_.load(std::memory_order_relaxed);
    }

  private:
    std::atomic<size_t> added_{0};
    std::atomic<size_t> released_{0};
};

/// Checkpoints that were removed from a vBucket's log. Frees them (and settles the log's memory
/// count) when destroyed, so keep it outside every lock. Must not outlive the CheckpointManager.
class ExtractedCheckpoints {
  public:
    ExtractedCheckpoints() = default;
    ExtractedCheckpoints(CheckpointList list, CheckpointMemory& memory)
        : list_(std::move(list)), memory_(&memory) {}
    ExtractedCheckpoints(ExtractedCheckpoints&&) = default;
    ExtractedCheckpoints& operator=(ExtractedCheckpoints&&) = delete;
    ExtractedCheckpoints(const ExtractedCheckpoints&) = delete;
    ~ExtractedCheckpoints() {
        if (!list_.empty()) {
            const size_t bytes = list_.memory();
            list_.clear();
            memory_->release(bytes);
        }
    }
    [[nodiscard]] size_t size() const { return list_.size(); }
    /// For an empty object only.
    void adopt(CheckpointList list, CheckpointMemory& memory) {
        list_ = std::move(list);
        memory_ = &memory;
    }

  private:
    CheckpointList list_;
    CheckpointMemory* memory_{nullptr};
};

}  // namespace kv
