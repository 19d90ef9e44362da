#pragma once

// A barrier between load processes on several hosts: each says that it is ready and waits; when all
// have, all are let go, within the time that one packet takes. It knows no secrets and decides
// nothing but when to begin, so nobody has to log in.

#include <atomic>
#include <chrono>
#include <cstdint>

#include "load/ensemble_options.h"
#include "load/socket.h"

namespace kv::load {

class BarrierServer {
  public:
    /// Listens at once; port 0 takes any free one. Throws LoadError when it cannot.
    BarrierServer(const Address& listen, std::size_t parties);

    std::uint16_t port() const noexcept { return port_; }
    /// Until all parties have arrived and have been let go, or `stop` is readable. A party whose
    /// connection ends has not arrived.
    void run(const Socket& stop);

  private:
    Socket listener_;
    std::uint16_t port_;
    std::size_t parties_;
};

/// Arrives and waits; returns early when `stop` becomes true. Throws LoadError when the barrier is
/// not there or goes away.
void waitAtBarrier(const Address& barrier, std::chrono::milliseconds connectTimeout,
                   const std::atomic<bool>& stop);

}  // namespace kv::load
