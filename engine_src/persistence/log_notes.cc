#include "persistence/log_notes.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>

#include "persistence/checked_file.h"
#include "types/fd.h"

namespace kv {

namespace {

bool isLog(std::string_view name) {
    constexpr std::string_view kEnding = ".log";
    return name.size() > kEnding.size() && name.ends_with(kEnding) &&
           std::all_of(name.begin(), name.end() - kEnding.size(),
                       [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::set<std::string> LogNotes::names() const {
    const std::lock_guard lock(mutex_);
    std::set<std::string> names;
    std::ifstream in(file_);
    for (std::string line; std::getline(in, line);) {
        if (line.empty() || !isLog(std::string_view(line).substr(1))) {
            continue;
        }
        if (line[0] == '+') {
            names.insert(line.substr(1));
        } else if (line[0] == '-') {
            names.erase(line.substr(1));
        }
    }
    return names;
}

void LogNotes::beginWith(const std::string& name) {
    const std::lock_guard lock(mutex_);
    writeWhole(file_, "+" + name + "\n");
}

void LogNotes::made(std::string_view name) noexcept {
    append('+', name, Durable::No);
}

void LogNotes::removing(std::string_view name) noexcept {
    append('-', name, Durable::Yes);
}

void LogNotes::append(char event, std::string_view name, Durable durable) noexcept {
    std::array<char, 64> line{};  // without the heap, which may be exhausted
    const int size = std::snprintf(line.data(), line.size(), "%c%.*s\n", event,
                                   static_cast<int>(name.size()), name.data());
    const std::lock_guard lock(mutex_);
    const Fd out(::open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
    const bool written = out && ::write(out.get(), line.data(), static_cast<size_t>(size)) == size;
    if (!written || (durable == Durable::Yes && ::fdatasync(out.get()) != 0)) {
        (void)::unlink(file_.c_str());
    }
}

}  // namespace kv
