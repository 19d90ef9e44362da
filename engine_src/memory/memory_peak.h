// MemoryPeak: the bytes of heap that the process holds above those at the start of the watch, and
// the highest value of that. For benchmarks only: while one is alive, every allocation of every
// thread does an atomic addition.
//
// One at a time per process (a second one throws std::logic_error). current() may be negative if
// blocks from before the watch are freed. Threads: any; resetMax() is meaningful only while the
// other threads are idle.
#pragma once

#include <cstdint>

namespace kv {

class MemoryPeak {
  public:
    MemoryPeak();
    MemoryPeak(const MemoryPeak&) = delete;
    MemoryPeak& operator=(const MemoryPeak&) = delete;
    ~MemoryPeak();

    [[nodiscard]] int64_t current() const noexcept;
    [[nodiscard]] int64_t max() const noexcept;
    /// Sets the highest value to the current one: call it right before the timed part.
    void resetMax() noexcept;
};

}  // namespace kv
