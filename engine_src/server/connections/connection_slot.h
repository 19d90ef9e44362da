// ConnectionSlot: counts one of the allowed connections from the moment that a socket is accepted
// until it is closed, in any way. An empty slot counts nothing.
//
// Ownership: the counter outlives the slot. Threads: a slot is used by its owner, the counter by
// any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace kv::server {

class ConnectionSlot {
  public:
    ConnectionSlot() = default;
    explicit ConnectionSlot(std::atomic<uint32_t>& taken) : taken_(&taken) {
        taken.fetch_add(1, std::memory_order_relaxed);
    }
    ConnectionSlot(ConnectionSlot&& other) noexcept
        : taken_(std::exchange(other.taken_, nullptr)) {}
    ConnectionSlot& operator=(ConnectionSlot&& other) noexcept {
        // The old one is given back when `old` ends.
        const ConnectionSlot old(std::exchange(taken_, std::exchange(other.taken_, nullptr)));
        return *this;
    }
    ConnectionSlot(const ConnectionSlot&) = delete;
    ConnectionSlot& operator=(const ConnectionSlot&) = delete;
    explicit operator bool() const { return taken_ != nullptr; }
    ~ConnectionSlot() {
        if (taken_ != nullptr) {
            taken_->fetch_sub(1, std::memory_order_relaxed);
        }
    }

  private:
    /// Takes over a count.
    explicit ConnectionSlot(std::atomic<uint32_t>* taken) : taken_(taken) {}

    std::atomic<uint32_t>* taken_{nullptr};
};

}  // namespace kv::server
