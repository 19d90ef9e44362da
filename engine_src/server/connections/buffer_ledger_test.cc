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
    EXPECT_EQ(ids(ledger.update({nullptr, 1}, 60, 100)), Ids{});
    EXPECT_EQ(ids(ledger.update({nullptr, 2}, 50, 100)), Ids{1});
    EXPECT_EQ(ids(ledger.update({nullptr, 3}, 10, 100)), Ids{}) << "1 is about to leave";
    EXPECT_EQ(ids(ledger.update({nullptr, 3}, 70, 100)), Ids{3});
    ledger.remove(1);
    ledger.remove(3);
    EXPECT_EQ(ledger.held(), 50U);
}

TEST(BufferLedgerTest, AConnectionThatCouldNotBeNotifiedIsSelectedAgain) {
    BufferLedger ledger;
    EXPECT_EQ(ids(ledger.update({nullptr, 1}, 60, 100)), Ids{});
    EXPECT_EQ(ids(ledger.update({nullptr, 2}, 50, 100)), Ids{1});
    ledger.stays(1);
    ledger.stays(9);  // no such connection
    EXPECT_EQ(ids(ledger.update({nullptr, 2}, 40, 100)), Ids{}) << "it shrank: 100 are allowed";
    EXPECT_EQ(ids(ledger.update({nullptr, 2}, 41, 100)), Ids{1});
}

}  // namespace
}  // namespace kv::server
