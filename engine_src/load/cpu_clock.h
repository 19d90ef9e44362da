#pragma once

// CPU time that a server's process has used, all its threads together, in nanoseconds.

#include <ctime>

#include "load/clock.h"

namespace kv::load {

/// Used by one thread at a time.
class CpuClock {
  public:
    virtual ~CpuClock() = default;
    /// CPU time since the process began. Throws LoadError when it cannot be known any more.
    virtual Nanos read() = 0;
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
