#include "logging/log.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

// A single test, because the log is global to the process and tests would see each other's
// settings.
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
    setLevel(Level::Off);
    error("hidden as well");
    const auto text = testing::internal::GetCapturedStderr();

    const std::string time = "[0-9-]{10}T[0-9:]{8}\\.[0-9]{3} ";
    EXPECT_THAT(text, testing::MatchesRegex(
                              time + "I vb 7: opened\n" + time + "D seen 1\n" + time +
                              "W a brace \\{\\} is text\n" + time +
                              "W of a damaged file: \\?\u00e9\\?\\?\\?\\?\\?\U0001f642\\?\\?\n"));
}

}  // namespace
}  // namespace kv::log
