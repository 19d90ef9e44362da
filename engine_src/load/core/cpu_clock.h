#pragma once

// CPU time of a server's process, all its threads together, in nanoseconds.

#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "load/core/clock.h"

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

}  // namespace kv::load
