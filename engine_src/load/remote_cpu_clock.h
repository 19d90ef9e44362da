#pragma once

// The CPU clock of a process on another host, asked of the `kvctl clock-server` there. A reading
// costs a round trip.

#include <chrono>
#include <string>

#include "load/cpu_clock.h"
#include "load/ensemble_options.h"
#include "load/socket.h"

namespace kv::load {

class RemoteCpuClock final : public CpuClock {
  public:
    /// Throws LoadError when the server cannot be reached, does not take the password, or does not
    /// serve `pid`. `timeout` bounds each wait.
    RemoteCpuClock(const Address& server, const std::string& password, int pid,
                   std::chrono::milliseconds timeout);
    Nanos read() override;

  private:
    std::string hear(std::size_t size);

    std::string name_;  // for messages
    std::chrono::milliseconds timeout_;
    Socket socket_;
    std::uint32_t index_ = 0;  // of the process, at the server
};

}  // namespace kv::load
