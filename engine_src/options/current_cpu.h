// currentCpu(): the CPU that the calling thread runs on, now or a moment ago. A hint: the thread
// may move at any time.
//
// With restartable sequences (glibc 2.35+ on a kernel that has them) the kernel keeps the number in
// the thread's own memory: one load. Otherwise getcpu is asked once in 32 uses.
#pragma once

#include <sched.h>
#include <sys/rseq.h>

#include <cstdint>

namespace kv::options {

inline constexpr unsigned kCpuRefreshUses = 32;

namespace detail {
struct CachedCpu {
    unsigned cpu{0};
    unsigned usesLeft{0};
};
inline constinit thread_local CachedCpu cachedCpu{};

inline unsigned cachedGetCpu() noexcept {
    CachedCpu& cached = cachedCpu;
    if (cached.usesLeft == 0) [[unlikely]] {
        const int cpu = sched_getcpu();
        cached = {cpu < 0 ? 0u : static_cast<unsigned>(cpu), kCpuRefreshUses};
    }
    --cached.usesLeft;
    return cached.cpu;
}
}  // namespace detail

inline unsigned currentCpu() noexcept {
    if (__rseq_size != 0) [[likely]] {
        const auto* area = reinterpret_cast<const volatile struct rseq*>(
                static_cast<const char*>(__builtin_thread_pointer()) + __rseq_offset);
        const auto cpu = static_cast<int32_t>(area->cpu_id);
        if (cpu >= 0) [[likely]] {
            return static_cast<unsigned>(cpu);
        }
    }
    return detail::cachedGetCpu();
}

}  // namespace kv::options
