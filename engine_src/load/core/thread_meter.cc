#include "load/core/thread_meter.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <string>

namespace kv::load {

ThreadMeter::ThreadMeter()
    : schedstat_(::open(("/proc/self/task/" + std::to_string(::gettid()) + "/schedstat").c_str(),
                        O_RDONLY | O_CLOEXEC)) {}

Nanos ThreadMeter::cpu() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * kSecond + time.tv_nsec;
}

std::optional<Nanos> ThreadMeter::runDelay() const {
    std::array<char, 128> text{};
    const auto got = ::pread(schedstat_.fd(), text.data(), text.size(), 0);
    if (got <= 0) {
        return std::nullopt;
    }
    return parseRunDelay(text.data(), text.data() + got);
}

std::optional<Nanos> parseRunDelay(const char* begin, const char* end) {
    const char* const second = std::find(begin, end, ' ');  // after the time on a CPU
    Nanos delay = 0;
    if (second == end || std::from_chars(second + 1, end, delay).ec != std::errc{}) {
        return std::nullopt;
    }
    return delay;
}

}  // namespace kv::load
