// FlowControl: counts the bytes that one producer connection has sent and that have not been
// acknowledged.
//
// It is the one implementation that every ready-list design shares. The historic designs differed
// here by accident, which spoiled their comparison. A producer may send while it is not full, so it
// overshoots by at most one message. Threads: sent() by the stepping thread, acknowledged() by the
// thread that reads the connection, isFull() by any.
#pragma once

#include <atomic>
#include <cstddef>

namespace kv::dcp {

class FlowControl {
  public:
    /// 0 switches flow control off (the default until the client requests a buffer).
    void setBufferSize(size_t bytes) { bufferSize_.store(bytes, std::memory_order_relaxed); }
    [[nodiscard]] size_t bufferSize() const { return bufferSize_.load(std::memory_order_relaxed); }
    [[nodiscard]] size_t outstanding() const { return outstanding_.load(); }

    [[nodiscard]] bool isFull() const {
        const size_t size = bufferSize();
        return size != 0 && outstanding() >= size;
    }

    void sent(size_t bytes) { outstanding_.fetch_add(bytes); }

    /// Returns true if this acknowledgement made room in a full buffer, so that the producer must
    /// be woken. A client that acknowledges more than it received is taken to have acknowledged
    /// everything.
    bool acknowledged(size_t bytes) {
        const bool wasFull = isFull();
        size_t before = outstanding_.load(std::memory_order_relaxed);
        while (!outstanding_.compare_exchange_weak(before, before > bytes ? before - bytes : 0)) {
        }
        return wasFull && !isFull();
    }

  private:
    std::atomic<size_t> bufferSize_{0};
    std::atomic<size_t> outstanding_{0};
};

}  // namespace kv::dcp
