// MemoryPeak: bytes of heap that the process holds more than at the start of the watch, and the
// highest value of that. For benchmarks only: while one is alive every allocation of every thread
// does an atomic addition.
//
// One at a time per process (a second one throws std::logic_error). current() may be negative when
// blocks from before the watch are freed. Threads: any; resetMax() only makes sense while the other
// threads are quiet.
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
    /// The highest value becomes the current one: call it right before the timed part.
    void resetMax() noexcept;
};

}  // namespace kv
