// How a DCP producer knows which vBuckets have something to send: the four designs of the historic
// change.
//
//   onelock     one mutex of the producer covers the list, the stream map and the whole of step();
//               the list is searched linearly by every notification (before)
//   roundrobin  a flag a vBucket, scanned from where the last scan stopped; the flow-control check
//               is made at every slot
//   readyqueue  a queue and a lookup of its members behind a mutex of its own (after)
//   lockfree    a bounded queue and a flag a vBucket, no lock (the later design)
//
// Contract of all four: pushUnique(vb) returns true when vb was not in the list before; what a
// notifier wrote before its pushUnique is visible to whoever pops vb afterwards; a vb that is
// pushed after it was popped is popped again (no lost wake-up). pop(isFull) asks isFull() at the
// points where its historic design did, and leaves the list as it was when full. Threads: any may
// push; one at a time pops (the producer's step). OneLock is called under its own mutex() only.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "options/choice.h"
#include "options/selected/dcp.h"
#include "types/ids.h"

namespace kv::options {

enum class Pop : uint8_t { Ready, Empty, Full };

struct PopResult {
    Pop outcome{Pop::Empty};
    Vbid vbid{};
};

/// First in, first out, as many places as vBuckets: allocates nothing after construction. Not
/// thread-safe.
class VbidRing {
  public:
    explicit VbidRing(size_t vbuckets) : places_(vbuckets == 0 ? 1 : vbuckets) {}

    [[nodiscard]] size_t size() const { return size_; }
    [[nodiscard]] Vbid at(size_t index) const { return places_[(first_ + index) % places_.size()]; }
    void push(Vbid vbid) { places_[(first_ + size_++) % places_.size()] = vbid; }
    Vbid pop() {
        const Vbid vbid = places_[first_];
        first_ = first_ + 1 == places_.size() ? 0 : first_ + 1;
        --size_;
        return vbid;
    }

  private:
    std::vector<Vbid> places_;
    size_t first_{0};
    size_t size_{0};
};

/// The list as it was inside the one lock: first in, first out, searched from its head.
class OneLockReady {
  public:
    static constexpr std::string_view kName = "onelock";
    static constexpr bool kOneLock = true;
    explicit OneLockReady(size_t vbuckets) : list_(vbuckets) {}

    std::mutex& mutex() { return mutex_; }

    bool pushUnique(Vbid vbid) {
        for (size_t i = 0; i < list_.size(); ++i) {
            if (list_.at(i) == vbid) {
                return false;
            }
        }
        list_.push(vbid);
        return true;
    }

    template <class IsFull>
    PopResult pop(IsFull&& isFull) {
        if (list_.size() == 0) {
            return {};
        }
        if (isFull()) {
            return {Pop::Full, {}};
        }
        return {Pop::Ready, list_.pop()};
    }

    [[nodiscard]] bool empty() const { return list_.size() == 0; }

  private:
    std::mutex mutex_;
    VbidRing list_;
};

class RoundRobinReady {
  public:
    static constexpr std::string_view kName = "roundrobin";
    static constexpr bool kOneLock = false;
    explicit RoundRobinReady(size_t vbuckets) : ready_(vbuckets) {}

    bool pushUnique(Vbid vbid) {
        if (ready_[vbid.get()].exchange(true, std::memory_order_acq_rel)) {
            return false;
        }
        notified_.store(true, std::memory_order_release);
        return true;
    }

    template <class IsFull>
    PopResult pop(IsFull&& isFull) {
        // A flag raised behind the scan leaves notified_ set: scan again before saying that nothing
        // is ready.
        do {
            for (size_t scanned = 0; scanned < ready_.size(); ++scanned) {
                if (isFull()) {
                    return {Pop::Full, {}};
                }
                const size_t index = next_;
                next_ = next_ + 1 == ready_.size() ? 0 : next_ + 1;
                bool expected = true;
                if (ready_[index].compare_exchange_strong(expected, false,
                                                          std::memory_order_acq_rel)) {
                    return {Pop::Ready, Vbid{static_cast<uint16_t>(index)}};
                }
            }
        } while (notified_.exchange(false, std::memory_order_acq_rel));
        return {};
    }

    [[nodiscard]] bool empty() const {
        for (const auto& flag : ready_) {
            if (flag.load(std::memory_order_acquire)) {
                return false;
            }
        }
        return true;
    }

  private:
    std::vector<std::atomic<bool>> ready_;
    std::atomic<bool> notified_{false};
    size_t next_{0};
};

/// The number of members is readable without the mutex, so that a client that asks again and again
/// does not keep notifiers from it.
class QueueReady {
  public:
    static constexpr std::string_view kName = "readyqueue";
    static constexpr bool kOneLock = false;
    explicit QueueReady(size_t vbuckets) : queue_(vbuckets), listed_(vbuckets) {}

    bool pushUnique(Vbid vbid) {
        const std::scoped_lock lock(mutex_);
        if (listed_[vbid.get()]) {
            return false;
        }
        listed_[vbid.get()] = true;
        queue_.push(vbid);
        size_.store(queue_.size(), std::memory_order_release);
        return true;
    }

    template <class IsFull>
    PopResult pop(IsFull&& isFull) {
        if (empty()) {
            return {};
        }
        const auto front = popFront();
        if (!front) {
            return {};
        }
        if (isFull()) {
            pushUnique(*front);
            return {Pop::Full, {}};
        }
        return {Pop::Ready, *front};
    }

    [[nodiscard]] bool empty() const { return size_.load(std::memory_order_acquire) == 0; }

  private:
    std::optional<Vbid> popFront() {
        const std::scoped_lock lock(mutex_);
        if (queue_.size() == 0) {
            return std::nullopt;
        }
        const Vbid vbid = queue_.pop();
        listed_[vbid.get()] = false;
        size_.store(queue_.size(), std::memory_order_release);
        return vbid;
    }

    std::mutex mutex_;
    VbidRing queue_;
    std::vector<bool> listed_;
    std::atomic<size_t> size_{0};
};

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
        // Exchange, not store: it must see what the notifiers wrote who found the flag up.
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

using DcpReady = std::conditional_t<
        is(KV_SELECTED_DCP_READY, "onelock"), OneLockReady,
        std::conditional_t<is(KV_SELECTED_DCP_READY, "roundrobin"), RoundRobinReady,
                           std::conditional_t<is(KV_SELECTED_DCP_READY, "lockfree"), LockFreeReady,
                                              QueueReady>>>;
static_assert(is(KV_SELECTED_DCP_READY, DcpReady::kName));

}  // namespace kv::options
