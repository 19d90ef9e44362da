#include "load/core/process_usage.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <sstream>
#include <string_view>

#include "load/core/load_error.h"
#include "load/core/socket.h"

namespace kv::load {

namespace {

/// Plain read(2): files of /proc are small and must be read at once to be consistent.
std::string readProc(int pid, const char* name) {
    const std::string path = "/proc/" + std::to_string(pid) + "/" + name;
    const Socket file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.fd() < 0) {
        throw LoadError(path + ": " + errnoText(errno));
    }
    std::string text;
    for (;;) {
        const auto at = text.size();
        text.resize(at + 16384);
        const auto got = ::read(file.fd(), text.data() + at, text.size() - at);
        if (got < 0) {
            throw LoadError(path + ": " + errnoText(errno));
        }
        text.resize(at + static_cast<std::size_t>(got));
        if (got == 0) {
            return text;
        }
    }
}

std::optional<std::uint64_t> kilobytes(std::string_view text, std::string_view field) {
    const auto at = text.find("\n" + std::string(field) + ":");
    if (at == std::string_view::npos) {
        return std::nullopt;
    }
    auto rest = text.substr(at + field.size() + 2);
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    std::uint64_t value = 0;
    const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (parsed.ec != std::errc{}) {
        return std::nullopt;
    }
    return value * 1024;
}

}  // namespace

bool parseSmapsRollup(const std::string& text, ProcessUsage& usage) {
    const auto rss = kilobytes(text, "Rss");
    const auto pss = kilobytes(text, "Pss");
    const auto lazyFree = kilobytes(text, "LazyFree");
    const auto anonHuge = kilobytes(text, "AnonHugePages");
    if (!rss || !pss || !lazyFree || !anonHuge) {
        return false;
    }
    usage.rss = *rss;
    usage.pss = *pss;
    usage.pssFile = kilobytes(text, "Pss_File");
    usage.lazyFree = *lazyFree;
    usage.anonHuge = *anonHuge;
    return true;
}

bool parseStat(const std::string& text, double ticksPerSecond, ProcessUsage& usage) {
    const auto nameEnd = text.rfind(')');
    if (nameEnd == std::string::npos) {
        return false;
    }
    std::istringstream rest(text.substr(nameEnd + 1));
    std::string skipped;
    for (int field = 3; field < 14; ++field) {  // state (3) .. cmajflt (13)
        rest >> skipped;
    }
    double user = 0;
    double system = 0;
    rest >> user >> system;
    for (int field = 16; field < 20; ++field) {  // cutime .. nice
        rest >> skipped;
    }
    rest >> usage.threads >> skipped >> skipped >> usage.vsz;  // 20, itrealvalue, starttime, 23
    usage.cpuUser = user / ticksPerSecond;
    usage.cpuSystem = system / ticksPerSecond;
    return !rest.fail();
}

std::uint64_t stackBytes(const std::string& maps, std::uint64_t stackSize, std::uint64_t pageSize) {
    std::istringstream lines(maps);
    std::string line;
    std::uint64_t guardEnd = 0;
    std::uint64_t sum = 0;
    while (std::getline(lines, line)) {
        std::istringstream fields(line);
        std::uint64_t begin = 0;
        std::uint64_t end = 0;
        char dash = 0;
        std::string permissions;
        fields >> std::hex >> begin >> dash >> end >> permissions;
        if (fields.fail()) {
            continue;
        }
        const auto size = end - begin;
        if (permissions == "---p" && size == pageSize) {
            guardEnd = end;
        } else if (begin == guardEnd && begin != 0 && permissions.starts_with("rw") &&
                   size + pageSize >= stackSize && size <= stackSize) {
            sum += size;  // the stack's size includes the guard in some versions of glibc
        }
    }
    return sum;
}

ProcessUsage readUsage(int pid) {
    ProcessUsage usage;
    if (!parseSmapsRollup(readProc(pid, "smaps_rollup"), usage)) {
        throw LoadError("/proc/" + std::to_string(pid) +
                        "/smaps_rollup lacks a figure (has the process ended?)");
    }
    if (!parseStat(readProc(pid, "stat"), static_cast<double>(::sysconf(_SC_CLK_TCK)), usage)) {
        throw LoadError("/proc/" + std::to_string(pid) + "/stat is malformed");
    }
    rlimit stack{};
    if (::getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur != RLIM_INFINITY) {
        // The engine is started by the same user with the same limit, which is glibc's stack size.
        usage.stacksVsz = stackBytes(readProc(pid, "maps"), stack.rlim_cur,
                                     static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
    }
    return usage;
}

}  // namespace kv::load
