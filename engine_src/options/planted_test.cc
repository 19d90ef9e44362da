#include "options/planted.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "options/selected/planted.h"
#include "options/selected/planted_item.h"

namespace kv::options {

using namespace std::chrono_literals;

template <class Fault>
class PlantedFaults : public testing::Test {};
using AllFaults = testing::Types<NoFault, Burn1, Burn2, Stall, BytesPerItem, Leak>;
TYPED_TEST_SUITE(PlantedFaults, AllFaults);

TYPED_TEST(PlantedFaults, DoNotChangeWhatIsExecuted) {
    std::string request = "request";
    for (uint64_t seed = 0; seed < 1000; ++seed) {
        TypeParam::turn();
        EXPECT_EQ(&TypeParam::operation(request, seed), &request);
        TypeParam::stored();
    }
}

TEST(Planted, NamesAreDistinct) {
    const std::vector<std::string_view> names{NoFault::kName, Burn1::kName,        Burn2::kName,
                                              Stall::kName,   BytesPerItem::kName, Leak::kName};
    EXPECT_EQ(names, (std::vector<std::string_view>{"none", "burn1", "burn2", "stall", "bytes16",
                                                    "leak"}));
}

TEST(Planted, BurnTakesEveryStep) {
    uint64_t by_hand = 7;
    for (int i = 0; i < 5; ++i) {
        by_hand = by_hand * 0x9e3779b97f4a7c15u + 1;
    }
    EXPECT_EQ(burn(7, 5), by_hand);
    EXPECT_EQ(burn(7, 0), 7u);
    EXPECT_EQ(Burn2::kSteps, 2 * Burn1::kSteps);
}

template <class Fault>
std::chrono::nanoseconds timeOf(unsigned operations) {
    uint64_t object = 0;
    const auto start = std::chrono::steady_clock::now();
    for (unsigned i = 0; i < operations; ++i) {
        auto& same = Fault::operation(object, object);
        asm volatile("" : "+m"(same));
    }
    return std::chrono::steady_clock::now() - start;
}

TEST(Planted, BurningTakesTimeInProportion) {
    // The least of runs that take turns and are equally long: a busy machine makes runs longer,
    // never shorter, and sooner or later it leaves one of each alone.
    auto none = std::chrono::nanoseconds::max();
    auto little = none;
    auto more = none;
    const auto holds = [&] {
        return little > 2 * none && more * 3 > little * 2 && more * 2 < little * 3;
    };
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    for (int run = 0; run < 100 || (!holds() && std::chrono::steady_clock::now() < deadline);
         ++run) {
        none = std::min(none, timeOf<NoFault>(1'000));
        little = std::min(little, timeOf<Burn<100>>(1'000));
        more = std::min(more, timeOf<Burn<200>>(500));
    }
    EXPECT_TRUE(holds()) << "1000 times nothing " << none.count() << " ns, 100 steps "
                         << little.count() << " ns; 500 times 200 steps " << more.count() << " ns";
}

TEST(Planted, APeriodIsDueOnce) {
    Periodic periodic(2s);
    EXPECT_TRUE(periodic.due(0s));
    EXPECT_FALSE(periodic.due(1'999ms));
    EXPECT_TRUE(periodic.due(2s));
    EXPECT_FALSE(periodic.due(2s));
    EXPECT_TRUE(periodic.due(100s)) << "what was missed is not made up for";
    EXPECT_FALSE(periodic.due(101s));
}

TEST(Planted, APeriodIsDueForOneThread) {
    Periodic periodic(2s);
    for (int round = 1; round <= 200; ++round) {
        std::atomic<int> stalled{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; ++i) {
            threads.emplace_back([&] { stalled += periodic.due(round * 2s) ? 1 : 0; });
        }
        for (auto& thread : threads) {
            thread.join();
        }
        ASSERT_EQ(stalled, 1);
    }
}

TEST(Planted, TheStallSleepsWhenItIsDue) {
    Periodic periodic(Stall::kPeriod);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_TRUE(Stall::stallIfDue(periodic, 5s));
    EXPECT_GE(std::chrono::steady_clock::now() - start, Stall::kLength);
    EXPECT_FALSE(Stall::stallIfDue(periodic, 6s));
}

TEST(Planted, ALeakLosesABlockEveryThousandSetsOfAThread) {
    const size_t before = Leak::lost();
    std::thread([] {
        for (unsigned i = 0; i < 3 * Leak::kEvery - 1; ++i) {
            Leak::stored();
        }
    }).join();
    EXPECT_EQ(Leak::lost() - before, 2u);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([] {
            for (unsigned n = 0; n < 10 * Leak::kEvery; ++n) {
                Leak::stored();
            }
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(Leak::lost() - before, 42u);
}

TEST(Planted, OnlyOneFaultTouchesItems) {
    EXPECT_EQ(NoItemFault::kBytes, 0u);
    EXPECT_EQ(SixteenBytesMore::kBytes, 16u);
    EXPECT_EQ(SelectedPlantedItem::kBytes, SelectedPlanted::kName == "bytes16" ? 16u : 0u);
}

}  // namespace kv::options
