#pragma once

// CPU time of a server's process, all its threads together, in nanoseconds. The process is on this
// host, or on another one, where a `kvctl clock-server` answers one question for all of its
// processes and costs a round trip.

#include <chrono>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "load/core/clock.h"
#include "load/core/socket.h"

namespace kv::load {

/// Threads: one at a time. Clocks that are read together are all asked first, so that those of
/// other hosts cost one round trip together.
class CpuClock {
  public:
    virtual ~CpuClock() = default;
    /// Called before each read().
    virtual void ask() {}
    /// Returns the CPU time since the process began. Throws LoadError if it is no longer known.
    virtual Nanos read() = 0;
};

/// The sum over several processes, such as the nodes of a cluster.
class SumCpuClock final : public CpuClock {
  public:
    explicit SumCpuClock(std::vector<std::unique_ptr<CpuClock>> clocks)
        : clocks_(std::move(clocks)) {}
    void ask() override {
        for (auto& clock : clocks_) {
            clock->ask();
        }
    }
    Nanos read() override {
        Nanos sum = 0;
        for (auto& clock : clocks_) {
            sum += clock->read();
        }
        return sum;
    }

  private:
    std::vector<std::unique_ptr<CpuClock>> clocks_;
};

/// The clock of a process of this host; a reading takes about a microsecond. Throws LoadError if
/// there is no such process.
class ProcessCpuClock final : public CpuClock {
  public:
    explicit ProcessCpuClock(int pid);
    Nanos read() override;

  private:
    int pid_;
    clockid_t clock_{};
};

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
