#include "server/connections/connection_state.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>

namespace kv::server {
namespace {

using enum ConnectionState;

constexpr std::array kStates{Reading, Speaking,  Yielding, Blocked,
                             Waiting, Penalised, Draining, Lingering};

template <class Property>
std::string row(Property property) {
    std::string marks;
    for (const ConnectionState state : kStates) {
        marks += property(state) ? 'x' : '.';
    }
    return marks;
}

TEST(ConnectionState, AllowsExactlyTheListedTransitions) {
    // A row for each state that is left and a column for each that is entered, both in the order of
    // kStates.
    constexpr std::array<std::string_view, kStates.size()> kAllowed{
            ".xxxxxx.",  // Reading
            "x.xxxxx.",  // Speaking
            "xx.xxxx.",  // Yielding
            // Blocked: nothing is executed, so no request can wait, fail or end the connection.
            "xxx.....",
            "xxxx....",  // Waiting
            "xxxx....",  // Penalised
            ".......x",  // Draining
            "........",  // Lingering
    };
    for (size_t from = 0; from < kStates.size(); ++from) {
        EXPECT_EQ(row([&](ConnectionState to) { return mayFollow(kStates[from], to); }),
                  kAllowed[from])
                << "row " << from;
    }
}

TEST(ConnectionState, EachStateWatchesTheRightEvents) {
    EXPECT_EQ(row(isServing), "xxxx....");
    EXPECT_EQ(row(isLeaving), "......xx");
    EXPECT_EQ(row(isRead), "xx.....x");
    EXPECT_EQ(row(isSent), "xxxx..x.");
}

}  // namespace
}  // namespace kv::server
