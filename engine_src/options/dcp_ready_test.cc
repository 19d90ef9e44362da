#include "options/dcp_ready.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "memory/failing_heap.h"
#include "options/dcp_snapshot_queue.h"

namespace kv::options {

constexpr auto kNeverFull = [] { return false; };
constexpr auto kAlwaysFull = [] { return true; };

template <class Ready>
std::unique_lock<std::mutex> lockIfOne(Ready& ready) {
    if constexpr (Ready::kOneLock) {
        return std::unique_lock(ready.mutex());
    } else {
        return {};
    }
}

template <class Ready>
class DcpReadyTest : public testing::Test {};
using AllReady = testing::Types<OneLockReady, RoundRobinReady, QueueReady, SetQueueReady,
                                HashQueueReady, ListQueueReady, LockFreeReady>;
TYPED_TEST_SUITE(DcpReadyTest, AllReady);

TYPED_TEST(DcpReadyTest, ListsAVbucketOnce) {
    TypeParam ready(8);
    EXPECT_TRUE(ready.empty());
    EXPECT_TRUE(ready.pushUnique(Vbid{3}));
    EXPECT_FALSE(ready.pushUnique(Vbid{3}));
    EXPECT_FALSE(ready.empty());
    const auto popped = ready.pop(kNeverFull);
    EXPECT_EQ(popped.outcome, Pop::Ready);
    EXPECT_EQ(popped.vbid, Vbid{3});
    EXPECT_EQ(ready.pop(kNeverFull).outcome, Pop::Empty);
    EXPECT_TRUE(ready.pushUnique(Vbid{3})) << "a popped vBucket can be listed again";
}

TYPED_TEST(DcpReadyTest, KeepsEverythingWhenFull) {
    TypeParam ready(8);
    ready.pushUnique(Vbid{1});
    EXPECT_EQ(ready.pop(kAlwaysFull).outcome, Pop::Full);
    EXPECT_FALSE(ready.empty());
    EXPECT_EQ(ready.pop(kNeverFull).vbid, Vbid{1});
}

/// The pushing thread has just stored a mutation, which cannot be undone.
TYPED_TEST(DcpReadyTest, NeedsNoMemoryForAPush) {
    constexpr uint16_t kVbuckets = 64;
    TypeParam ready(kVbuckets);
    for (int pass = 0; pass < 2; ++pass) {
        for (uint16_t vb = 0; vb < kVbuckets; ++vb) {
            allocationsLeft = vb % 2 == 0 ? 0 : -1;
            const bool added = ready.pushUnique(Vbid{vb});
            const bool again = ready.pushUnique(Vbid{vb});
            allocationsLeft = -1;
            ASSERT_TRUE(added);
            ASSERT_FALSE(again);
        }
        std::set<Vbid> popped;
        for (auto next = ready.pop(kNeverFull); next.outcome == Pop::Ready;
             next = ready.pop(kNeverFull)) {
            ASSERT_TRUE(popped.insert(next.vbid).second);
        }
        EXPECT_EQ(popped.size(), kVbuckets);
    }
}

/// The same random pushes and pops give the same sets as a model, and no vBucket starves.
TYPED_TEST(DcpReadyTest, MatchesAModelOnRandomOperations) {
    std::mt19937 random(41);
    constexpr uint16_t kVbuckets = 37;
    TypeParam ready(kVbuckets);
    std::set<Vbid> model;
    for (int step = 0; step < 100'000; ++step) {
        if (random() % 2 == 0) {
            const Vbid vbid{static_cast<uint16_t>(random() % kVbuckets)};
            ASSERT_EQ(ready.pushUnique(vbid), model.insert(vbid).second);
        } else {
            const auto popped = ready.pop(kNeverFull);
            ASSERT_EQ(popped.outcome == Pop::Ready, !model.empty());
            if (popped.outcome == Pop::Ready) {
                ASSERT_EQ(model.erase(popped.vbid), 1u);
            }
        }
    }
}

/// Notifiers write, then push; the popper must see every write: the lost wake-up of the historic
/// hand-off bugs.
TYPED_TEST(DcpReadyTest, LosesNoWakeUp) {
    constexpr uint16_t kVbuckets = 16;
    constexpr uint64_t kPerThread = 30'000;
    TypeParam ready(kVbuckets);
    std::vector<std::atomic<uint64_t>> written(kVbuckets);
    std::vector<uint64_t> seen(kVbuckets);
    std::vector<std::thread> notifiers;
    for (uint32_t t = 0; t < 3; ++t) {
        notifiers.emplace_back([&, t] {
            std::mt19937 random(t);
            for (uint64_t i = 0; i < kPerThread; ++i) {
                const Vbid vbid{static_cast<uint16_t>(random() % kVbuckets)};
                written[vbid.get()].fetch_add(1, std::memory_order_relaxed);
                const auto lock = lockIfOne(ready);
                ready.pushUnique(vbid);
            }
        });
    }
    uint64_t total = 0;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    while (total < 3 * kPerThread && std::chrono::steady_clock::now() < deadline) {
        const auto lock = lockIfOne(ready);
        const auto popped = ready.pop(kNeverFull);
        if (popped.outcome == Pop::Ready) {
            const uint64_t now = written[popped.vbid.get()].load(std::memory_order_relaxed);
            total += now - std::exchange(seen[popped.vbid.get()], now);
        }
    }
    for (auto& notifier : notifiers) {
        notifier.join();
    }
    EXPECT_EQ(total, 3 * kPerThread) << "a push was lost";
}

template <class Ready>
class DcpReadyQueueTest : public testing::Test {};
using Queues = testing::Types<OneLockReady, QueueReady, SetQueueReady, HashQueueReady,
                              ListQueueReady, LockFreeReady>;
TYPED_TEST_SUITE(DcpReadyQueueTest, Queues);

TYPED_TEST(DcpReadyQueueTest, ServesInOrderOfArrival) {
    TypeParam queue(8);
    for (const Vbid vbid : {Vbid{5}, Vbid{2}, Vbid{7}, Vbid{2}}) {
        queue.pushUnique(vbid);
    }
    for (const Vbid vbid : {Vbid{5}, Vbid{2}, Vbid{7}}) {
        EXPECT_EQ(queue.pop(kNeverFull).vbid, vbid);
    }
    EXPECT_TRUE(queue.empty());
}

/// All of many vBuckets, past the end of the ring and again.
TYPED_TEST(DcpReadyQueueTest, HoldsEveryVbucketOnceAndInOrder) {
    constexpr uint16_t kVbuckets = 1024;
    TypeParam queue(kVbuckets);
    for (int pass = 0; pass < 3; ++pass) {
        queue.pushUnique(Vbid{0});
        EXPECT_EQ(queue.pop(kNeverFull).vbid, Vbid{0});
        for (uint16_t vb = 0; vb < kVbuckets; ++vb) {
            ASSERT_TRUE(queue.pushUnique(Vbid{vb}));
            ASSERT_FALSE(queue.pushUnique(Vbid{vb}));
            ASSERT_FALSE(queue.pushUnique(Vbid{0}));
        }
        for (uint16_t vb = 0; vb < kVbuckets; ++vb) {
            ASSERT_EQ(queue.pop(kNeverFull).vbid, Vbid{vb});
        }
        EXPECT_EQ(queue.pop(kNeverFull).outcome, Pop::Empty);
    }
}

TEST(DcpSnapshotQueue, UniqueHoldsAVbucketOnceAndDuplicatesEveryRequest) {
    UniqueSnapshotQueue unique;
    DuplicatesSnapshotQueue duplicates;
    EXPECT_TRUE(unique.push(Vbid{1}));
    EXPECT_FALSE(unique.push(Vbid{1}));
    EXPECT_TRUE(duplicates.push(Vbid{1}));
    EXPECT_TRUE(duplicates.push(Vbid{1}));
    EXPECT_EQ(unique.size(), 1u);
    EXPECT_EQ(duplicates.size(), 2u);
    EXPECT_EQ(unique.pop(), Vbid{1});
    EXPECT_EQ(unique.pop(), std::nullopt);
}

}  // namespace kv::options
