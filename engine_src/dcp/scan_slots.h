// ScanSlots: limits the backfills that may be open at a time, for one connection and for the whole
// node.
//
// An open backfill pins the data that it reads: old versions in memory, or replaced files on disk.
// A stream that finds no slot waits until one is given back.
//
// Ownership: the node's slots outlive those of its connections, and all outlive the taken Slots.
// Threads: any; a Slot belongs to one stream.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace kv::dcp {

class ScanSlots {
  public:
    /// The slots of a connection also take from `node`.
    explicit ScanSlots(size_t most, ScanSlots* node = nullptr) : most_(most), node_(node) {}
    ScanSlots(const ScanSlots&) = delete;
    ScanSlots& operator=(const ScanSlots&) = delete;

    [[nodiscard]] size_t most() const { return most_.load(std::memory_order_relaxed); }
    void setMost(size_t most) { most_.store(most, std::memory_order_relaxed); }
    [[nodiscard]] size_t taken() const { return taken_.load(std::memory_order_relaxed); }
    /// True if a slot was refused since the last call.
    bool wasRefused() { return refused_.exchange(false, std::memory_order_relaxed); }

    class Slot {
      public:
        Slot() = default;
        Slot(const Slot&) = delete;
        Slot& operator=(const Slot&) = delete;
        ~Slot() { release(); }

        bool take(ScanSlots& from) {
            if (of_ == nullptr && from.take()) {
                of_ = &from;
                number_.store(from.newNumber(), std::memory_order_release);
            }
            return of_ != nullptr;
        }
        void release() {
            if (ScanSlots* of = std::exchange(of_, nullptr)) {
                number_.store(0, std::memory_order_release);
                of->giveBack();
            }
        }
        /// The number of this slot, unique in the node; 0 if it is empty. Any thread.
        [[nodiscard]] uint64_t number() const { return number_.load(std::memory_order_acquire); }

      private:
        ScanSlots* of_{nullptr};
        std::atomic<uint64_t> number_{0};
    };

  private:
    bool take() {
        if (taken_.fetch_add(1, std::memory_order_relaxed) >= most()) {
            taken_.fetch_sub(1, std::memory_order_relaxed);
            refused_.store(true, std::memory_order_relaxed);
            return false;
        }
        if (node_ != nullptr && !node_->take()) {
            taken_.fetch_sub(1, std::memory_order_relaxed);
            return false;
        }
        return true;
    }
    uint64_t newNumber() {
        return node_ != nullptr ? node_->newNumber()
                                : 1 + numbers_.fetch_add(1, std::memory_order_relaxed);
    }
    void giveBack() {
        taken_.fetch_sub(1, std::memory_order_relaxed);
        if (node_ != nullptr) {
            node_->giveBack();
        }
    }

    std::atomic<size_t> most_;
    ScanSlots* const node_;
    std::atomic<size_t> taken_{0};
    std::atomic<bool> refused_{false};
    std::atomic<uint64_t> numbers_{0};
};

}  // namespace kv::dcp
