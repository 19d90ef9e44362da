#include "load/generators/sampler.h"

#include <charconv>
#include <chrono>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "load/core/clock.h"
#include "load/core/load_error.h"
#include "load/core/process_usage.h"
#include "load/core/thread_team.h"

namespace kv::load {

using Json = nlohmann::ordered_json;

Json numbersOf(const std::map<std::string, std::string>& group) {
    Json numbers = Json::object();
    for (const auto& [key, text] : group) {
        const char* const end = text.data() + text.size();
        std::int64_t whole = 0;
        if (const auto parsed = std::from_chars(text.data(), end, whole);
            parsed.ec == std::errc{} && parsed.ptr == end) {
            numbers[key] = whole;
            continue;
        }
        double real = 0;
        if (const auto parsed = std::from_chars(text.data(), end, real);
            parsed.ec == std::errc{} && parsed.ptr == end) {
            numbers[key] = real;
        }
    }
    return numbers;
}

namespace {

/// Seconds since 1970 at its creation, and from then on by a clock that nobody sets: a series of
/// these never jumps.
class SeriesClock {
  public:
    [[nodiscard]] double now() const { return begin_ + seconds(nowNanos() - beginNanos_); }

  private:
    const double begin_{
            std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
                    .count()};
    const Nanos beginNanos_{nowNanos()};
};

Json sampleAt(double t, Client& client, int pid) {
    const auto stat = client.stat("memory");
    const auto usage = readUsage(pid);
    return {{"t", t},
            {"rss", usage.rss},
            {"pss", usage.pss},
            {"pss_file", usage.pssFile ? Json(*usage.pssFile) : Json(nullptr)},
            {"lazyfree", usage.lazyFree},
            {"anon_huge", usage.anonHuge},
            {"vsz", usage.vsz},
            {"stacks_vsz", usage.stacksVsz ? Json(*usage.stacksVsz) : Json(nullptr)},
            {"cpu_user_s", usage.cpuUser},
            {"cpu_sys_s", usage.cpuSystem},
            {"threads", usage.threads},
            {"stat", numbersOf(stat)}};
}

}  // namespace

Json takeSample(Client& client, int pid) {
    return sampleAt(SeriesClock().now(), client, pid);
}

void runSampler(Client& client, const SamplerOptions& options) {
    std::ofstream out(options.out, std::ios::app);
    const sigset_t end = endSignals();
    const SeriesClock clock;
    Nanos next = nowNanos();
    for (bool last = false;;) {
        out << sampleAt(clock.now(), client, options.pid).dump() << '\n' << std::flush;
        if (!out) {
            throw LoadError("cannot write " + options.out);
        }
        if (last) {
            return;
        }
        const Nanos interval = Nanos{options.intervalMs} * 1'000'000;
        next += interval;
        if (next < nowNanos()) {  // a sample took longer than the interval: skip the missed times
            next = nowNanos();
        }
        const Nanos left = std::max<Nanos>(next - nowNanos(), 0);
        const timespec span{left / kSecond, left % kSecond};
        last = ::sigtimedwait(&end, nullptr, &span) > 0;
    }
}

}  // namespace kv::load
