#include "load/core/cpu_clock.h"

#include <cerrno>
#include <string>

#include "load/core/load_error.h"
#include "load/core/socket.h"

namespace kv::load {

ProcessCpuClock::ProcessCpuClock(int pid) : pid_(pid) {
    // A clock's id has 29 bits for the pid: a larger number would be the clock of another process.
    constexpr int kLargest = 1 << 22;  // the kernel's own limit
    const int error = pid < 1 || pid > kLargest ? ESRCH : ::clock_getcpuclockid(pid, &clock_);
    if (error != 0) {
        throw LoadError("CPU clock of process " + std::to_string(pid) + ": " + errnoText(error));
    }
}

Nanos ProcessCpuClock::read() {
    timespec time{};
    if (::clock_gettime(clock_, &time) != 0) {
        throw LoadError("CPU clock of process " + std::to_string(pid_) + ": " + errnoText(errno));
    }
    return time.tv_sec * kSecond + time.tv_nsec;
}

}  // namespace kv::load
