#include "server/connections/buffer_ledger.h"

#include <gtest/gtest.h>

namespace kv::server {
namespace {

std::vector<uint64_t> ids(const std::vector<BufferLedger::Holder>& holders) {
    std::vector<uint64_t> found;
    for (const auto& holder : holders) {
        found.push_back(holder.id);
    }
    return found;
}

using Ids = std::vector<uint64_t>;

TEST(BufferLedgerTest, TheLargestIsSelectedOnceUntilItIsGone) {
    BufferLedger ledger;
    EXPECT_EQ(ids(ledger.update({nullptr, 1}, "", 60, 100)), Ids{});
    EXPECT_EQ(ids(ledger.update({nullptr, 2}, "", 50, 100)), Ids{1});
    EXPECT_EQ(ids(ledger.update({nullptr, 3}, "", 10, 100)), Ids{}) << "1 is about to leave";
    EXPECT_EQ(ids(ledger.update({nullptr, 3}, "", 70, 100)), Ids{3});
    ledger.remove(1);
    ledger.remove(3);
    EXPECT_EQ(ledger.held(), 50U);
}

TEST(BufferLedgerTest, TheUserWhoHoldsMostGivesWay) {
    BufferLedger ledger;
    for (const uint64_t id : {1U, 2U, 3U}) {
        EXPECT_EQ(ids(ledger.update({nullptr, id}, "many", 20 + id, 100)), Ids{});
    }
    EXPECT_EQ(ids(ledger.update({nullptr, 4}, "one", 40, 100)), Ids{3})
            << "not the largest connection of all";
    ledger.remove(3);
    EXPECT_EQ(ids(ledger.update({nullptr, 4}, "one", 60, 100)), Ids{4}) << "by now one holds most";
}

TEST(BufferLedgerTest, AConnectionThatLogsInCountsToItsUser) {
    BufferLedger ledger;
    EXPECT_EQ(ids(ledger.update({nullptr, 1}, "", 30, 100)), Ids{});
    EXPECT_EQ(ids(ledger.update({nullptr, 2}, "", 35, 100)), Ids{});
    EXPECT_EQ(ids(ledger.update({nullptr, 2}, "known", 36, 100)), Ids{});
    EXPECT_EQ(ids(ledger.update({nullptr, 3}, "", 40, 100)), Ids{3}) << "70 bytes of strangers";
}

TEST(BufferLedgerTest, AConnectionThatCouldNotBeNotifiedIsSelectedAgain) {
    BufferLedger ledger;
    EXPECT_EQ(ids(ledger.update({nullptr, 1}, "", 60, 100)), Ids{});
    EXPECT_EQ(ids(ledger.update({nullptr, 2}, "", 50, 100)), Ids{1});
    ledger.stays(1);
    ledger.stays(9);  // no such connection
    EXPECT_EQ(ids(ledger.update({nullptr, 2}, "", 40, 100)), Ids{}) << "it shrank: 100 are allowed";
    EXPECT_EQ(ids(ledger.update({nullptr, 2}, "", 41, 100)), Ids{1});
}

}  // namespace
}  // namespace kv::server
