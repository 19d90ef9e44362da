// The program's log. Formats are checked where they are written, but only log.cc turns them into
// text: otherwise the library's formatter would be compiled into each file that logs.
#pragma once

#include <fmt/core.h>

#include <string>

namespace kv::log {

enum class Level : int { Trace, Debug, Info, Warn, Error, Off };

/// Logs to stderr from here on, with the time and the level, everything of at least `level`: a name
/// as --log-level takes it. Does not wait for the reader of stderr: lines for which it leaves no
/// room, and those beyond 100 per second after a burst of 20 000, are counted and lost. The last
/// 1000 of the burst are for warnings and errors.
void openStderr(const std::string& level);
void setLevel(Level level);
/// Formats nothing below the level. Never throws: a message that cannot be formatted is lost. A
/// message of more than 4000 bytes is cut.
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
