#include "dcp/rollback.h"

#include <gtest/gtest.h>

namespace kv::dcp {
namespace {

constexpr VbUuid kNew{30};
constexpr VbUuid kMiddle{20};
constexpr VbUuid kOld{10};
/// The old history ended at 100, the middle one at 200; the newest has 250.
const std::vector<FailoverEntry> kLog{{kNew, Seqno{200}}, {kMiddle, Seqno{100}}, {kOld, Seqno{0}}};
constexpr Seqno kHigh{250};

std::optional<uint64_t> ask(uint64_t start, VbUuid uuid, uint64_t first, uint64_t last,
                            uint64_t purged = 0) {
    const auto back = rollbackPoint({Seqno{start}, uuid, {Seqno{first}, Seqno{last}}, false}, kLog,
                                    kHigh, Seqno{purged});
    return back ? std::optional(back->get()) : std::nullopt;
}

TEST(Rollback, AClientWithNothingMayStart) {
    EXPECT_EQ(ask(0, VbUuid{0}, 0, 0), std::nullopt);
    EXPECT_EQ(ask(0, VbUuid{99}, 0, 0, 50), std::nullopt);
}
TEST(Rollback, AStrictClientWithNothingMustNameAKnownHistory) {
    const auto strict = [](VbUuid uuid) {
        return rollbackPoint({Seqno{0}, uuid, {}, true}, kLog, kHigh, Seqno{50});
    };
    EXPECT_EQ(strict(VbUuid{99}), Seqno{0});
    EXPECT_EQ(strict(kOld), std::nullopt);
    EXPECT_EQ(strict(VbUuid{0}), std::nullopt);
}
TEST(Rollback, TheSameHistoryContinues) {
    EXPECT_EQ(ask(250, kNew, 250, 250), std::nullopt);
    EXPECT_EQ(ask(150, kMiddle, 140, 160), std::nullopt);
    EXPECT_EQ(ask(100, kOld, 100, 100), std::nullopt);
}
TEST(Rollback, AnUnknownHistoryStartsOver) {
    EXPECT_EQ(ask(5, VbUuid{99}, 5, 5), 0u);
}
TEST(Rollback, MutationsAfterTheBranchAreLost) {
    EXPECT_EQ(ask(120, kOld, 120, 120), 100u);
    EXPECT_EQ(ask(260, kNew, 260, 260), 250u) << "we have less than the client";
}
TEST(Rollback, APartialSnapshotAcrossTheBranchGoesBackToItsBeginning) {
    EXPECT_EQ(ask(95, kOld, 90, 110), 90u);
    EXPECT_EQ(ask(105, kOld, 102, 110), 100u);
}
TEST(Rollback, ASnapshotThatIsWholeOrUntouchedDoesNotMatter) {
    EXPECT_EQ(ask(100, kOld, 50, 100), std::nullopt) << "all of it was received";
    EXPECT_EQ(ask(100, kOld, 100, 170), std::nullopt) << "nothing of it was received";
}
TEST(Rollback, AClientThatMissedPurgedDeletionsStartsOver) {
    EXPECT_EQ(ask(100, kOld, 100, 100, 101), 0u);
    EXPECT_EQ(ask(100, kOld, 100, 100, 100), std::nullopt);
}

}  // namespace
}  // namespace kv::dcp
