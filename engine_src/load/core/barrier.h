#pragma once

// A barrier between load processes on several hosts: each process reports that it is ready and
// waits; when all have reported, all are released within the time of one packet. It needs no login,
// because it knows no secrets and decides only when to begin.

#include <atomic>
#include <chrono>
#include <cstdint>

#include "load/core/socket.h"

namespace kv::load {

class BarrierServer {
  public:
    /// Listens at once; port 0 takes any free one. Throws LoadError if it cannot.
    BarrierServer(const Address& listen, std::size_t parties);

    std::uint16_t port() const noexcept { return port_; }
    /// Runs until all parties have arrived and been released, or `stop` is readable. A party whose
    /// connection ends has not arrived.
    void run(const Socket& stop);

  private:
    Socket listener_;
    std::uint16_t port_;
    std::size_t parties_;
};

/// Arrives and waits; returns early when `stop` becomes true. Throws LoadError if the barrier is
/// not there or goes away.
void waitAtBarrier(const Address& barrier, std::chrono::milliseconds connectTimeout,
                   const std::atomic<bool>& stop);

}  // namespace kv::load
