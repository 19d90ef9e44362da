// The ready list without a lock (dcp_ready.h).
#pragma once

#include <atomic>
#include <bit>
#include <optional>
#include <string_view>
#include <vector>

#include "options/ready_list.h"

namespace kv::options {

/// Bounded multi-producer queue after Vyukov: a sequence number a cell tells whose turn it is. A
/// vBucket stands in it at most once (its flag is up exactly while it does), so as many cells as
/// vBuckets can never be too few.
class LockFreeReady {
  public:
    static constexpr std::string_view kName = "lockfree";
    static constexpr bool kOneLock = false;
    explicit LockFreeReady(size_t vbuckets)
        : listed_(vbuckets),
          cells_(std::bit_ceil(vbuckets < 2 ? size_t{2} : vbuckets)),
          mask_(cells_.size() - 1) {
        for (size_t i = 0; i < cells_.size(); ++i) {
            cells_[i].turn.store(i, std::memory_order_relaxed);
        }
    }

    bool pushUnique(Vbid vbid) {
        if (listed_[vbid.get()].exchange(true, std::memory_order_acq_rel)) {
            return false;
        }
        enqueue(vbid);
        return true;
    }

    template <class IsFull>
    PopResult pop(IsFull&& isFull) {
        if (empty()) {
            return {};
        }
        if (isFull()) {
            return {Pop::Full, {}};
        }
        const auto vbid = dequeue();
        if (!vbid) {
            return {};
        }
        // Exchange, not store: it must see the writes of notifiers that found the flag set.
        listed_[vbid->get()].exchange(false, std::memory_order_acq_rel);
        return {Pop::Ready, *vbid};
    }

    [[nodiscard]] bool empty() const {
        const size_t tail = tail_.load(std::memory_order_relaxed);
        return cells_[tail & mask_].turn.load(std::memory_order_acquire) != tail + 1;
    }

  private:
    struct Cell {
        std::atomic<size_t> turn{0};
        Vbid vbid{};
    };

    void enqueue(Vbid vbid) {
        const size_t position = head_.fetch_add(1, std::memory_order_relaxed);
        Cell& cell = cells_[position & mask_];
        // The cell was freed before this vBucket could be listed again; only its freeing thread's
        // last store may be due.
        while (cell.turn.load(std::memory_order_acquire) != position) {
        }
        cell.vbid = vbid;
        cell.turn.store(position + 1, std::memory_order_release);
    }

    std::optional<Vbid> dequeue() {
        const size_t position = tail_.load(std::memory_order_relaxed);
        Cell& cell = cells_[position & mask_];
        if (cell.turn.load(std::memory_order_acquire) != position + 1) {
            return std::nullopt;
        }
        const Vbid vbid = cell.vbid;
        cell.turn.store(position + cells_.size(), std::memory_order_release);
        tail_.store(position + 1, std::memory_order_relaxed);
        return vbid;
    }

    std::vector<std::atomic<bool>> listed_;
    std::vector<Cell> cells_;
    size_t mask_;
    alignas(64) std::atomic<size_t> head_{0};
    alignas(64) std::atomic<size_t> tail_{0};
};

}  // namespace kv::options
