// The program's log. The formats are checked where they are written, but text is made of them in
// log.cc alone: a library's log call would compile its whole formatter into each file that logs.
#pragma once

#include <fmt/core.h>

#include <string>

namespace kv::log {

enum class Level : int { Trace, Debug, Info, Warn, Error, Off };

/// From here on to stderr, with the time and the level, what is at least `level`: its name as
/// --log-level takes it.
void openStderr(const std::string& level);
void setLevel(Level level);
/// Nothing is formatted that is below the level. Never throws: a message that cannot be made is
/// lost.
void write(Level level, fmt::string_view format, fmt::format_args args) noexcept;

template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
    write(Level::Debug, format, fmt::make_format_args(args...));
}

template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
    write(Level::Info, format, fmt::make_format_args(args...));
}

template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
    write(Level::Warn, format, fmt::make_format_args(args...));
}

template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
    write(Level::Error, format, fmt::make_format_args(args...));
}

}  // namespace kv::log
