// The requests of the plans and their times, without any connection.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "load/core/load_error.h"
#include "load/generators/access_plan.h"
#include "load/generators/populate_plan.h"
#include "load/protocols/key_codec.h"
#include "load/protocols/request_writer.h"
#include "protocol/frame.h"

namespace kv::load {
namespace {

class Plans : public testing::Test {
  protected:
    AccessPlan access(LaneRange lanes = {}, Nanos start = 0, Nanos deadline = kNever) {
        AccessPlan plan(options_, lanes, values_);
        plan.begin(start, deadline);
        return plan;
    }

    /// The request that the traffic makes of the plan's next operation.
    template <class Plan>
    std::size_t make(Plan& plan, std::size_t lane, std::uint32_t opaque) {
        const auto operation = plan.operation(lane, opaque);
        if (operation.kind == OpKind::kGet) {
            return requests_.get(buffer_.data(), operation.number, opaque);
        }
        const auto head = requests_.set(buffer_.data(), operation.number, opaque, operation.size);
        values_.write(buffer_.data() + head, operation.size, operation.word);
        const auto body = std::span(buffer_).subspan(head, operation.size);
        EXPECT_TRUE(values_.holds(body, operation.number));
        EXPECT_FALSE(values_.holds(body, operation.number + 1));
        return head + operation.size;
    }

    protocol::FrameView write(AccessPlan& plan, std::size_t lane = 0, std::uint32_t opaque = 7) {
        const auto size = make(plan, lane, opaque);
        const auto parsed = protocol::parseFrame(protocol::Bytes(buffer_).first(size));
        EXPECT_EQ(parsed.outcome, protocol::ParseOutcome::kFrame);
        EXPECT_EQ(parsed.frame.size(), size);
        EXPECT_LE(size, requests_.maxSize(values_.maxSize()));
        return parsed.frame;
    }

    AccessOptions options_{.items = 1000, .setPercent = 50, .seed = 4};
    KeyCodec keys_{"k:", KeyCodec::kMaxDigits};
    RequestWriter requests_{keys_, {.vbuckets = 1000, .expiry = 9, .flags = 0x03000002}};
    ValueSource values_{ValueSource::Kind::kBinary, 8, 40, 1};
    std::vector<std::uint8_t> buffer_ = std::vector<std::uint8_t>(4096);
};

TEST_F(Plans, RequestsAreWellFormed) {
    auto plan = access();
    std::set<std::size_t> sizes;
    std::set<std::string> bodies;
    for (int i = 0; i < 3000; ++i) {
        const auto frame = write(plan, 0, 0x01020304);
        EXPECT_EQ(frame.header.opaque, 0x01020304U);
        EXPECT_EQ(frame.header.vbucket(),
                  vbucketOf(crcOf(frame.keyText()), 1000));  // not a power of two
        EXPECT_TRUE(frame.keyText().starts_with("k:"));
        EXPECT_LT(std::stoull(std::string(frame.keyText().substr(2))), 1000U);
        if (frame.header.opcode == protocol::Opcode::kGet) {
            EXPECT_TRUE(frame.extras.empty());
            EXPECT_TRUE(frame.value.empty());
        } else {
            ASSERT_EQ(frame.header.opcode, protocol::Opcode::kSet);
            ASSERT_EQ(frame.extras.size(), 8U);
            EXPECT_EQ(loadBig<std::uint32_t>(frame.extras.data()), 0x03000002U);
            EXPECT_EQ(loadBig<std::uint32_t>(frame.extras.data() + 4), 9U);
            sizes.insert(frame.value.size());
            bodies.insert(std::string(frame.valueText()));
        }
    }
    EXPECT_EQ(*sizes.begin(), 8U);  // uniform, both ends included
    EXPECT_EQ(*sizes.rbegin(), 40U);
    EXPECT_EQ(sizes.size(), 33U);
    EXPECT_GT(bodies.size(), 1400U);  // every document differs
}

TEST_F(Plans, KeysAreUniformAndTheCoinIsIndependentOfThem) {
    options_.items = 10;
    options_.setPercent = 30;
    auto plan = access();
    std::map<std::string, std::array<int, 2>> seen;
    for (int i = 0; i < 100000; ++i) {
        const auto frame = write(plan);
        ++seen[std::string(frame.keyText())][frame.header.opcode == protocol::Opcode::kSet ? 1 : 0];
    }
    ASSERT_EQ(seen.size(), 10U);
    for (const auto& [key, counts] : seen) {
        EXPECT_NEAR(counts[0], 7000, 400) << key;
        EXPECT_NEAR(counts[1], 3000, 300) << key;
    }
}

TEST_F(Plans, SameSeedSameRequestsOtherSeedOthers) {
    auto text = [this](std::uint64_t seed) {
        options_.seed = seed;
        auto plan = access();
        std::string all;
        for (int i = 0; i < 50; ++i) {
            const auto size = make(plan, 0, 0);
            all.append(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(size));
        }
        return all;
    };
    EXPECT_EQ(text(1), text(1));
    EXPECT_NE(text(1), text(2));
}

TEST_F(Plans, WithARateBatchesAreDueOnAGridWhateverTheServerDoes) {
    options_.rate = 1000;
    options_.batch = 10;  // two lanes: a batch each 20 ms, 10 ms apart
    auto plan = access({0, 2, 2}, 100 * kSecond, 101 * kSecond);
    const Nanos start = 100 * kSecond;
    EXPECT_EQ(plan.next(0, start).at, start);
    EXPECT_EQ(plan.next(0, start).ops, 0U);  // not due yet
    EXPECT_EQ(plan.next(1, start).ops, 0U);
    EXPECT_EQ(plan.wakeAt(0), start + 20 * kMilli);
    EXPECT_EQ(plan.wakeAt(1), start + 10 * kMilli);
    // The server was slow: batches that became due keep their due time, so the wait counts.
    EXPECT_EQ(plan.next(0, start + 95 * kMilli).at, start + 20 * kMilli);
    EXPECT_EQ(plan.next(0, start + 95 * kMilli).at, start + 40 * kMilli);
    // 20 ms * 50 = 1 s: lane 0 has 50 batches due, 3 sent; lane 1 has 50 (10, 30 ... 990 ms).
    EXPECT_EQ(plan.overdue(102 * kSecond), (47U + 50U) * 10U);
    EXPECT_FALSE(plan.finished(0));
}

TEST_F(Plans, TheDeadlineEndsALane) {
    auto plan = access({}, 0, 10);
    EXPECT_EQ(plan.next(0, 9).ops, 100U);
    EXPECT_FALSE(plan.finished(0));
    EXPECT_EQ(plan.next(0, 10).ops, 0U);
    EXPECT_TRUE(plan.finished(0));
    auto open = access();
    EXPECT_FALSE(open.finished(0));
    open.stop();
    EXPECT_TRUE(open.finished(0));
    EXPECT_EQ(open.next(0, 1).ops, 0U);
}

TEST_F(Plans, ASchedulePausesBetweenTurns) {
    options_.rate = 1000;
    options_.batch = 10;  // due at 0, 10, 20 ... ms of the time in slice
    auto plan = access({}, 1000 * kMilli, 1015 * kMilli);
    EXPECT_EQ(plan.next(0, 1000 * kMilli).ops, 10U);
    EXPECT_EQ(plan.next(0, 1010 * kMilli).at, 1010 * kMilli);
    EXPECT_EQ(plan.next(0, 1014 * kMilli).ops, 0U);
    EXPECT_FALSE(plan.finished(0));  // nothing more is due, but the slice is not over
    EXPECT_EQ(plan.wakeAt(0), 1015 * kMilli);
    EXPECT_EQ(plan.next(0, 1015 * kMilli).ops, 0U);
    EXPECT_TRUE(plan.finished(0));
    EXPECT_FALSE(plan.exhausted());

    plan.begin(5000 * kMilli, 5015 * kMilli);  // 15 ms of slices have passed: the next is due at 20
    EXPECT_FALSE(plan.finished(0));
    EXPECT_EQ(plan.next(0, 5004 * kMilli).ops, 0U);
    EXPECT_EQ(plan.wakeAt(0), 5005 * kMilli);
    EXPECT_EQ(plan.next(0, 5006 * kMilli).at, 5005 * kMilli);
    EXPECT_EQ(plan.overdue(5015 * kMilli), 0U);

    plan.begin(9000 * kMilli, 9015 * kMilli);  // 30 and 40 are due; the window stays full
    EXPECT_EQ(plan.overdue(9015 * kMilli), 20U);
    // A late batch stays late by as much: 30 was due at once, 40 with 5 ms left in the slice.
    plan.begin(9900 * kMilli, 9915 * kMilli);
    EXPECT_EQ(plan.next(0, 9900 * kMilli).at, 9885 * kMilli);
    EXPECT_EQ(plan.next(0, 9900 * kMilli).at, 9895 * kMilli);
}

TEST_F(Plans, ATurnWithoutARateHasABatchHoweverLateItIs) {
    auto plan = access({0, 2, 2}, 0, 10);
    EXPECT_EQ(plan.next(0, 99).ops, 100U);
    EXPECT_EQ(plan.next(0, 99).ops, 0U);
    EXPECT_EQ(plan.next(1, 99).ops, 0U);
    EXPECT_TRUE(plan.finished(0));
    EXPECT_TRUE(plan.finished(1));
    plan.begin(200, 210);
    EXPECT_EQ(plan.next(1, 300).ops, 100U);
}

TEST_F(Plans, KeysContinueFromTurnToTurn) {
    auto text = [this](AccessPlan& plan) {
        const auto size = make(plan, 0, 0);
        return std::string(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(size));
    };
    auto whole = access({}, 0, kNever);
    auto cut = access({}, 0, 10);
    for (int i = 0; i < 200; ++i) {
        if (i % 7 == 0) {
            cut.begin(Nanos{100} * i, Nanos{100} * i + 10);
        }
        EXPECT_EQ(text(whole), text(cut));
    }
}

TEST_F(Plans, LimitsAreForAllTurnsTogether) {
    options_.maxOps = 150;
    auto plan = access({}, 0, 10);
    EXPECT_EQ(plan.next(0, 1).ops, 100U);
    EXPECT_FALSE(plan.exhausted());
    plan.begin(20, 30);
    EXPECT_EQ(plan.next(0, 21).ops, 50U);
    EXPECT_TRUE(plan.exhausted());
    plan.begin(40, 50);
    EXPECT_TRUE(plan.finished(0));
}

TEST_F(Plans, PopulateRetriesRefusedStoresAfterAPause) {
    PopulatePlan plan({.items = 5, .startAt = 100, .seed = 1, .batch = 3}, {}, values_);
    auto keyOf = [&](std::uint32_t opaque) {
        const auto size = make(plan, 0, opaque);
        const auto frame = protocol::parseFrame(protocol::Bytes(buffer_).first(size)).frame;
        return std::stoull(std::string(frame.keyText().substr(2)));
    };
    EXPECT_EQ(plan.next(0, 1000).ops, 3U);
    EXPECT_EQ(keyOf(0), 100U);
    EXPECT_EQ(keyOf(1), 101U);
    EXPECT_EQ(keyOf(2), 102U);
    plan.answered(0, 0, protocol::Status::kSuccess, 2000);
    plan.answered(0, 1, protocol::Status::kEtmpfail, 2000);
    plan.answered(0, 2, protocol::Status::kE2big, 2000);  // hopeless: counted, not repeated
    EXPECT_EQ(plan.next(0, 2001).ops, 0U);
    const auto wake = plan.wakeAt(0);
    EXPECT_GT(wake, 2000);
    EXPECT_EQ(plan.next(0, wake).ops, 3U);
    EXPECT_EQ(keyOf(3), 101U);
    EXPECT_EQ(keyOf(4), 103U);
    EXPECT_EQ(keyOf(5), 104U);
    EXPECT_TRUE(plan.finished(0));
    plan.answered(0, 3, protocol::Status::kEtmpfail, wake + 1);
    EXPECT_FALSE(plan.finished(0));
    EXPECT_THROW(plan.answered(0, 4, protocol::Status::kEtmpfail, wake + 61 * kSecond), LoadError);
    EXPECT_EQ(plan.stored(), 1U);
}

TEST_F(Plans, PopulateWakesForTheRestOfABatchThatTookTheRefusedKeys) {
    PopulatePlan plan({.items = 3, .startAt = 100, .seed = 1, .batch = 3}, {}, values_);
    EXPECT_EQ(plan.next(0, 1000).ops, 3U);
    EXPECT_EQ(plan.operation(0, 0).number, 100U);
    EXPECT_EQ(plan.operation(0, 1).number, 101U);  // the socket is full
    plan.answered(0, 0, protocol::Status::kEtmpfail, 2000);
    EXPECT_EQ(plan.operation(0, 2).number, 100U);
    plan.answered(0, 1, protocol::Status::kSuccess, 2001);
    plan.answered(0, 2, protocol::Status::kSuccess, 2001);
    EXPECT_FALSE(plan.finished(0));
    EXPECT_EQ(plan.next(0, 2001).ops, 0U);
    const auto wake = plan.wakeAt(0);
    ASSERT_NE(wake, kNever);
    EXPECT_EQ(plan.next(0, wake).ops, 1U);
    EXPECT_EQ(plan.operation(0, 3).number, 102U);
    EXPECT_TRUE(plan.finished(0));
    EXPECT_EQ(plan.wakeAt(0), kNever);
}

TEST_F(Plans, PopulateInTurnsContinuesAfterThePreviousTurn) {
    PopulatePlan plan({.items = 5, .startAt = 100, .seed = 1, .batch = 2}, {}, values_);
    const auto write = [&](std::uint32_t opaque) { make(plan, 0, opaque); };
    plan.begin(1);
    EXPECT_EQ(plan.next(0, 1000).ops, 2U);
    write(0);
    write(1);
    EXPECT_TRUE(plan.finished(0));
    EXPECT_EQ(plan.next(0, 1000).ops, 0U);
    plan.answered(0, 0, protocol::Status::kSuccess, 2000);
    plan.answered(0, 1, protocol::Status::kEtmpfail, 2000);
    EXPECT_TRUE(plan.finished(0));  // refused requests wait for the next slice
    EXPECT_FALSE(plan.exhausted());
    plan.begin(2);
    EXPECT_FALSE(plan.finished(0));
    EXPECT_EQ(plan.next(0, 2001).ops, 0U);
    const auto wake = plan.wakeAt(0);
    EXPECT_EQ(plan.next(0, wake).ops, 2U);
    write(2);
    write(3);
    EXPECT_EQ(plan.next(0, wake).ops, 2U);
    write(4);
    write(5);
    EXPECT_TRUE(plan.exhausted());
    plan.begin(1);
    EXPECT_TRUE(plan.finished(0));
}

TEST(Lanes, PartsCoverEverythingOnce) {
    for (const std::uint64_t whole : {0U, 1U, 7U, 1003U}) {
        for (const std::uint64_t parts : {1U, 2U, 7U, 64U}) {
            EXPECT_EQ(partBegin(whole, 0, parts), 0U);
            EXPECT_EQ(partBegin(whole, parts, parts), whole);
            for (std::uint64_t n = 0; n < parts; ++n) {
                const auto size = partBegin(whole, n + 1, parts) - partBegin(whole, n, parts);
                EXPECT_GE(size, whole / parts);
                EXPECT_LE(size, whole / parts + 1);
            }
        }
    }
}

/// The operations of a plan whose requests all succeed, by key.
std::map<std::uint64_t, Operation> carriedOut(PopulatePlan plan) {
    std::map<std::uint64_t, Operation> operations;
    std::uint32_t opaque = 0;
    while (!plan.exhausted()) {
        const auto start = plan.next(0, 1);
        for (std::uint32_t i = 0; i < start.ops; ++i, ++opaque) {
            const auto operation = plan.operation(0, opaque);
            EXPECT_TRUE(operations.emplace(operation.number, operation).second);
            plan.answered(0, opaque, protocol::Status::kSuccess, 1);
        }
    }
    EXPECT_EQ(plan.stored(), operations.size());
    return operations;
}

TEST_F(Plans, AShareOfTheKeysIsTheSameForEverySize) {
    PopulateOptions options{.items = 3000, .startAt = 50, .seed = 9, .share = 60};
    const auto stored = carriedOut(PopulatePlan(options, {}, values_));
    EXPECT_NEAR(static_cast<double>(stored.size()), 1800, 120);
    EXPECT_GE(stored.begin()->first, 50U);
    EXPECT_LT(stored.rbegin()->first, 3050U);
    options.remove = true;
    const ValueSource other(ValueSource::Kind::kBinary, 100, 100, 1);
    const auto removed = carriedOut(PopulatePlan(options, {}, other));
    ASSERT_EQ(removed.size(), stored.size());
    for (const auto& [key, operation] : removed) {
        EXPECT_EQ(operation.kind, OpKind::kDelete);
        EXPECT_TRUE(stored.contains(key)) << key;
    }
    options.seed = 10;
    const auto others = carriedOut(PopulatePlan(options, {}, other));
    EXPECT_NE(others.begin()->first, removed.begin()->first);
    options.draw = 1;
    const auto later = carriedOut(PopulatePlan(options, {}, other));
    const auto again = std::ranges::count_if(
            later, [&](const auto& item) { return others.contains(item.first); });
    EXPECT_NEAR(static_cast<double>(again), 0.6 * 0.6 * 3000, 120);
    options.share = 0;
    EXPECT_TRUE(carriedOut(PopulatePlan(options, {}, values_)).empty());
}

TEST(DrawnKeys, HaveEveryLengthAndAnotherOneAfterADraw) {
    const KeyDraw draw{.seed = 3, .share = 60};
    const DrawnKeys first("", 20, 250, draw, 0);
    const DrawnKeys later("", 20, 250, draw, 2);
    ASSERT_EQ(first.shapes().size(), DrawnKeys::kMostLengths);
    EXPECT_EQ(first.shapes().front().size(), 20U);
    EXPECT_EQ(first.shapes().back().size(), 250U);
    std::vector<int> keys(first.shapes().size());
    int drawn = 0;
    int moved = 0;
    constexpr int kKeys = 32000;
    for (std::uint64_t number = 0; number < kKeys; ++number) {
        ++keys[first.shapeOf(number)];
        const bool taken = draw.takes(number, 0) || draw.takes(number, 1);
        drawn += taken ? 1 : 0;
        const bool same = first.shapeOf(number) == later.shapeOf(number);
        EXPECT_TRUE(taken || same) << number;
        moved += same ? 0 : 1;
    }
    EXPECT_NEAR(drawn, 0.84 * kKeys, 500);
    EXPECT_NEAR(moved, drawn * 31.0 / 32, 300);  // a new length may be the old one
    for (const auto count : keys) {
        EXPECT_NEAR(count, 1000, 200);
    }
    EXPECT_EQ(DrawnKeys("k:", 0, 0, draw, 5).shapes().front().zeroKey(), "k:00000000000000000000");
    EXPECT_EQ(DrawnKeys("", 30, 30, draw, 0).shapes().front().text(7),
              "00000000000000000007xxxxxxxxxx");
    EXPECT_THROW(DrawnKeys("", 20, 251, draw, 0), std::invalid_argument);
}

}  // namespace
}  // namespace kv::load
