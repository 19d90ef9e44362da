#include "logging/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <exception>

namespace kv::log {

namespace {

spdlog::level::level_enum levelOf(Level level) {
    switch (level) {
        case Level::Trace:
            return spdlog::level::trace;
        case Level::Debug:
            return spdlog::level::debug;
        case Level::Info:
            return spdlog::level::info;
        case Level::Warn:
            return spdlog::level::warn;
        case Level::Error:
            return spdlog::level::err;
        case Level::Off:
            break;
    }
    return spdlog::level::off;
}

}  // namespace

void openStderr(const std::string& level) {
    spdlog::set_default_logger(spdlog::stderr_logger_mt("kv_engine"));
    spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %L %v");
    spdlog::set_level(spdlog::level::from_str(level));
}

void setLevel(Level level) {
    spdlog::set_level(levelOf(level));
}

void write(Level level, fmt::string_view format, fmt::format_args args) noexcept {
    try {
        auto* const logger = spdlog::default_logger_raw();
        if (const auto as = levelOf(level); logger->should_log(as)) {
            logger->log(as, fmt::vformat(format, args));
        }
    } catch (const std::exception&) {
        return;
    }
}

}  // namespace kv::log
