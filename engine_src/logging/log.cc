#include "logging/log.h"

#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

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

/// How many bytes the UTF-8 character at the front of `text` has; 0 if there is none, or if it
/// controls a terminal.
std::size_t characterSize(std::string_view text) {
    const auto byte = [text](std::size_t n) { return static_cast<unsigned char>(text[n]); };
    const unsigned lead = byte(0);
    const std::size_t size = lead < 0x80           ? 1
                             : (lead >> 5) == 0x06 ? 2
                             : (lead >> 4) == 0x0e ? 3
                             : (lead >> 3) == 0x1e ? 4
                                                   : 0;
    if (size < 2) {
        return lead < ' ' || lead == 0x7f ? 0 : size;
    }
    if (text.size() < size) {
        return 0;
    }
    std::uint32_t point = lead & (0xffU >> (size + 1));
    for (std::size_t n = 1; n < size; ++n) {
        if ((byte(n) & 0xc0U) != 0x80) {
            return 0;
        }
        point = point << 6 | (byte(n) & 0x3fU);
    }
    constexpr std::array<std::uint32_t, 3> kLeast = {0xa0, 0x800, 0x10000};
    const bool surrogate = point >= 0xd800 && point <= 0xdfff;
    return point >= kLeast.at(size - 2) && point <= 0x10ffff && !surrogate ? size : 0;
}

/// Replaces what is not UTF-8, and control characters: a message may quote a damaged file or
/// another node, and readers of a log expect lines of text.
void makeText(std::string& line) {
    for (std::size_t at = 0; at < line.size();) {
        const auto size = characterSize(std::string_view(line).substr(at));
        if (size == 0) {
            line[at] = '?';
        }
        at += std::max<std::size_t>(size, 1);
    }
}

/// A longer message is cut: a line of up to PIPE_BUF bytes is written to a pipe as a whole.
constexpr std::size_t kMostBytes = 4000;

/// Writes to stderr without waiting, and not without limit. A reader that has stopped (a pager, a
/// supervisor that hangs) must not stop the threads that log, and strangers who fail to log in must
/// not fill the disk that has the log. Lines beyond that are lost, and the next one that is written
/// is preceded by their number. Strangers cause information only, so that it leaves lines for
/// warnings and errors.
class BoundedStderr final : public spdlog::sinks::base_sink<std::mutex> {
  protected:
    void sink_it_(const spdlog::details::log_msg& message) override {
        if (!mayWrite(message.time, message.level < spdlog::level::warn ? kReserved : 0)) {
            ++lost_;
            return;
        }
        spdlog::memory_buf_t line;
        formatter_->format(message, line);
        if (lost_ != 0 && writeNow(fmt::format("{} lines are lost\n", lost_))) {
            lost_ = 0;
        }
        if (lost_ != 0 || !writeNow({line.data(), line.size()})) {
            ++lost_;
        }
    }
    void flush_() override {}

  private:
    using Time = spdlog::log_clock::time_point;
    static constexpr double kBurst = 20'000;
    static constexpr double kLinesPerSecond = 100;
    static constexpr double kReserved = 1'000;

    bool mayWrite(Time now, double reserved) {
        const std::chrono::duration<double> passed = now - last_;
        tokens_ = std::min(kBurst, tokens_ + std::max(0.0, passed.count()) * kLinesPerSecond);
        last_ = now;
        if (tokens_ < reserved + 1) {
            return false;
        }
        --tokens_;
        return true;
    }
    /// Returns false if there is no room, or nobody reads any more.
    static bool writeNow(std::string_view text) {
        pollfd room{STDERR_FILENO, POLLOUT, 0};
        // A pipe has room for PIPE_BUF bytes then.
        return ::poll(&room, 1, 0) == 1 && (room.revents & POLLOUT) != 0 &&
               ::write(STDERR_FILENO, text.data(), text.size()) > 0;
    }

    std::size_t lost_{0};
    double tokens_{kBurst};
    Time last_{};
};

}  // namespace

void openStderr(const std::string& level) {
    spdlog::set_default_logger(
            std::make_shared<spdlog::logger>("kv_engine", std::make_shared<BoundedStderr>()));
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
            auto line = fmt::vformat(format, args);
            if (line.size() > kMostBytes) {
                line.resize(kMostBytes);
                line += " (cut)";
            }
            makeText(line);
            logger->log(as, line);
        }
    } catch (const std::exception&) {
        return;
    }
}

}  // namespace kv::log
