#pragma once

// What the calling thread has cost so far and how long it had to wait for a CPU.

#include <optional>

#include "load/clock.h"
#include "load/socket.h"

namespace kv::load {

/// Made and used by the thread that it measures.
class ThreadMeter {
  public:
    ThreadMeter();

    /// CPU time of the thread.
    static Nanos cpu();
    /// Time that the thread was ready to run and did not: the host was busy with others. Empty if
    /// the kernel does not count it (no CONFIG_SCHED_INFO).
    std::optional<Nanos> runDelay() const;

  private:
    Socket schedstat_;  // /proc/self/task/TID/schedstat, read anew from its beginning each time
};

/// The second figure of a schedstat file; empty if the text has another shape.
std::optional<Nanos> parseRunDelay(const char* begin, const char* end);

}  // namespace kv::load
