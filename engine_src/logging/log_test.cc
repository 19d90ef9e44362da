#include "logging/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

namespace kv::log {
namespace {

/// An argument that counts how often it is formatted.
struct Counted {
    int* times;
};

/// An argument that cannot be formatted.
struct Broken {};

}  // namespace
}  // namespace kv::log

template <>
struct fmt::formatter<kv::log::Counted> : fmt::formatter<int> {
    auto format(const kv::log::Counted& counted, fmt::format_context& context) const {
        return fmt::formatter<int>::format(++*counted.times, context);
    }
};

template <>
struct fmt::formatter<kv::log::Broken> : fmt::formatter<int> {
    static fmt::format_context::iterator format(const kv::log::Broken&, fmt::format_context&) {
        throw std::runtime_error("no text");
    }
};

namespace kv::log {
namespace {

std::string contentOf(int pipe) {
    std::string text;
    std::array<char, 4096> part{};
    for (ssize_t count = 0; (count = ::read(pipe, part.data(), part.size())) > 0;) {
        text.append(part.data(), static_cast<size_t>(count));
    }
    return text;
}

TEST(Log, DoesNotWaitForAReaderThatHasStopped) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe2(pipe.data(), O_NONBLOCK), 0);
    ASSERT_EQ(::fcntl(pipe[1], F_SETFL, 0), 0);  // a write to it waits
    const int before = ::dup(STDERR_FILENO);
    ASSERT_EQ(::dup2(pipe[1], STDERR_FILENO), STDERR_FILENO);
    openStderr("info");
    for (int i = 0; i < 10'000; ++i) {
        info("line {}", i);
    }
    const auto first = contentOf(pipe[0]);
    info("{}", std::string(100'000, 'x'));
    const auto second = contentOf(pipe[0]);
    ::dup2(before, STDERR_FILENO);
    for (const int fd : {before, pipe[0], pipe[1]}) {
        ::close(fd);
    }
    EXPECT_THAT(first, testing::HasSubstr("line 0\n"));
    EXPECT_THAT(first, testing::EndsWith("\n"));
    EXPECT_THAT(first, testing::Not(testing::HasSubstr("line 9999\n")));
    EXPECT_THAT(second, testing::HasSubstr(" lines are lost\n"));
    EXPECT_THAT(second, testing::EndsWith("xxx (cut)\n"));
    EXPECT_LT(second.size(), 4096U);
}

TEST(Log, IsBoundedInLines) {
    testing::internal::CaptureStderr();
    openStderr("info");
    for (int i = 0; i < 200'000; ++i) {
        info("line");
    }
    const auto text = testing::internal::GetCapturedStderr();
    const auto lines = std::count(text.begin(), text.end(), '\n');
    EXPECT_GE(lines, 19'000);
    EXPECT_LT(lines, 100'000);
}

TEST(Log, AFloodOfInformationHidesNoError) {
    testing::internal::CaptureStderr();
    openStderr("info");
    for (int i = 0; i < 200'000; ++i) {
        info("line");
        if (i % 1000 == 999) {
            error("failure {} of the disk", i / 1000);
        }
    }
    const auto text = testing::internal::GetCapturedStderr();
    for (int i = 0; i < 200; ++i) {
        EXPECT_THAT(text, testing::HasSubstr(fmt::format("failure {} of the disk", i)));
    }
}

// A single test of levels and texts, because the log is global to the process and tests would see
// each other's settings.
TEST(Log, HasTimeLevelAndTextFromTheLevelUp) {
    testing::internal::CaptureStderr();
    openStderr("info");
    int times = 0;
    debug("hidden {}", Counted{&times});
    EXPECT_EQ(times, 0) << "below the level nothing is formatted";
    info("vb {}: {}", 7, std::string("opened"));
    setLevel(Level::Debug);
    debug("seen {}", Counted{&times});
    EXPECT_EQ(times, 1);
    setLevel(Level::Warn);
    info("hidden too");
    warn("a brace {} is text", "{}");
    error("{}", Broken{});
    warn("of a damaged file: {}", "\xdd\xc3\xa9\xed\xa0\x80\xc0\x80\xf0\x9f\x99\x82\xe2\x82");
    warn("of a peer: {}", "a\nb\tc\x1b[2J\x7f\u0085\u00a0");
    setLevel(Level::Off);
    error("hidden as well");
    const auto text = testing::internal::GetCapturedStderr();

    const std::string time = "[0-9-]{10}T[0-9:]{8}\\.[0-9]{3} ";
    EXPECT_THAT(text, testing::MatchesRegex(
                              time + "I vb 7: opened\n" + time + "D seen 1\n" + time +
                              "W a brace \\{\\} is text\n" + time +
                              "W of a damaged file: \\?\u00e9\\?\\?\\?\\?\\?\U0001f642\\?\\?\n" +
                              time + "W of a peer: a\\?b\\?c\\?\\[2J\\?\\?\\?\u00a0\n"));
}

}  // namespace
}  // namespace kv::log
