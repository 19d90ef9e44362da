#pragma once

// The CPU clocks of processes on another host, from the `kvctl clock-server` there. One question is
// answered for all of its processes and costs a round trip.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "load/core/cpu_clock.h"
#include "load/core/socket.h"

namespace kv::load {

/// The connection to a clock server. Threads: one at a time.
class ClockConnection {
  public:
    /// Throws LoadError if the server cannot be reached or rejects the password. `timeout` bounds
    /// each wait.
    ClockConnection(const Address& server, const std::string& password,
                    std::chrono::milliseconds timeout);

    /// Returns the index of a process among the answers. Throws LoadError if it is not served.
    std::size_t indexOf(int pid) const;
    /// Sends the question unless its answer is still awaited.
    void ask();
    /// Returns the time from the newest answer; waits if the answer is still awaited. Throws
    /// LoadError.
    Nanos time(std::size_t index);

  private:
    std::string receive(std::size_t size);

    std::string name_;  // for messages
    std::chrono::milliseconds timeout_;
    Socket socket_;
    std::vector<std::uint32_t> pids_;
    std::vector<std::uint64_t> times_;
    bool asked_ = false;
};

/// One process of a connection, which the clocks of several processes share.
class RemoteCpuClock final : public CpuClock {
  public:
    /// Throws LoadError if the server does not serve `pid`.
    RemoteCpuClock(std::shared_ptr<ClockConnection> connection, int pid)
        : connection_(std::move(connection)), index_(connection_->indexOf(pid)) {}
    void ask() override { connection_->ask(); }
    Nanos read() override { return connection_->time(index_); }

  private:
    std::shared_ptr<ClockConnection> connection_;
    std::size_t index_;
};

}  // namespace kv::load
