#pragma once

// CPU time that a server's process has used, all its threads together, in nanoseconds.

#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "load/clock.h"

namespace kv::load {

/// Used by one thread at a time.
class CpuClock {
  public:
    virtual ~CpuClock() = default;
    /// CPU time since the process began. Throws LoadError when it cannot be known any more.
    virtual Nanos read() = 0;
};

/// Of several processes, as the nodes of a cluster, one after the other: their sum.
class SumCpuClock final : public CpuClock {
  public:
    explicit SumCpuClock(std::vector<std::unique_ptr<CpuClock>> clocks)
        : clocks_(std::move(clocks)) {}
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

/// Of a process of this host. About a microsecond a reading. Throws LoadError if there is none.
class ProcessCpuClock final : public CpuClock {
  public:
    explicit ProcessCpuClock(int pid);
    Nanos read() override;

  private:
    int pid_;
    clockid_t clock_{};
};

}  // namespace kv::load
