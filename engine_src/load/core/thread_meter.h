#pragma once

// Measures the CPU time of the calling thread and the time that it waited for a CPU.

#include <optional>

#include "load/core/clock.h"
#include "load/core/socket.h"

namespace kv::load {

/// Created and used by the thread that it measures.
class ThreadMeter {
  public:
    ThreadMeter();

    /// CPU time of the thread.
    static Nanos cpu();
    /// Time that the thread was ready to run and did not: the host was busy with others. Empty if
    /// the kernel does not count it (no CONFIG_SCHED_INFO).
    std::optional<Nanos> runDelay() const;

  private:
    Socket schedstat_;  // /proc/self/task/TID/schedstat, read again from its beginning each time
};

/// Parses the second figure of a schedstat file; empty if the text has another shape.
std::optional<Nanos> parseRunDelay(const char* begin, const char* end);

}  // namespace kv::load
