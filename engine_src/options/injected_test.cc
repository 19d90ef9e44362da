#include "options/injected.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "options/selected/injected.h"
#include "options/selected/injected_item.h"

namespace kv::options {

using namespace std::chrono_literals;

template <class Fault>
class InjectedFaults : public testing::Test {};
using AllFaults = testing::Types<NoFault, Burn16, Share1, Share2, Stall, BytesPerItem, Leak,
                                 SizedShare, Background, Burst100ms, Burst5s, Footprint, Lock>;
TYPED_TEST_SUITE(InjectedFaults, AllFaults);

TYPED_TEST(InjectedFaults, ServeARunOfRequests) {
    for (int run = 0; run < 1000; ++run) {
        typename TypeParam::Turn turn;
        turn.operation();
        TypeParam::stored();
    }
}

TEST(Injected, NamesAreDistinct) {
    const std::vector<std::string_view> names{
            NoFault::kName,    Burn16::kName,       Share1::kName,  Share2::kName,
            Stall::kName,      BytesPerItem::kName, Leak::kName,    SizedShare::kName,
            Background::kName, Burst100ms::kName,   Burst5s::kName, Footprint::kName,
            Lock::kName};
    EXPECT_EQ(names, (std::vector<std::string_view>{"none", "burn", "share1", "share2", "stall",
                                                    "bytes16", "leak", "share", "background",
                                                    "burst", "burst5s", "footprint", "lock"}));
}

TEST(Injected, BurnTakesEveryStep) {
    uint64_t byHand = 7;
    for (int i = 0; i < 5; ++i) {
        byHand = byHand * 0x9e3779b97f4a7c15u + 1;
    }
    EXPECT_EQ(burn(7, 5), byHand);
    EXPECT_EQ(burn(7, 0), 7u);
}

template <class Fault>
std::chrono::nanoseconds timeOf(unsigned operations) {
    const auto start = std::chrono::steady_clock::now();
    {
        typename Fault::Turn turn;
        for (unsigned i = 0; i < operations; ++i) {
            turn.operation();
            asm volatile("" : "+m"(turn));
        }
    }
    return std::chrono::steady_clock::now() - start;
}

TEST(Injected, BurningTakesTimeInProportion) {
    // The minimum over runs that alternate and are equally long: a busy machine makes runs longer,
    // never shorter, and eventually leaves one of each undisturbed.
    auto none = std::chrono::nanoseconds::max();
    auto little = none;
    auto more = none;
    const auto holds = [&] {
        return little > 2 * none && more * 3 > little * 2 && more * 2 < little * 3;
    };
    const auto deadline = std::chrono::steady_clock::now() + 10min;
    for (int run = 0; run < 100 || (!holds() && std::chrono::steady_clock::now() < deadline);
         ++run) {
        none = std::min(none, timeOf<NoFault>(1'000));
        little = std::min(little, timeOf<Burn<100>>(1'000));
        more = std::min(more, timeOf<Burn<200>>(500));
    }
    EXPECT_TRUE(holds()) << "1000 times nothing " << none.count() << " ns, 100 steps "
                         << little.count() << " ns; 500 times 200 steps " << more.count() << " ns";
}

TEST(Injected, ACycleIsFromEndToEnd) {
    Cycle cycle;
    EXPECT_EQ(cycle.end(5s), 0ns) << "nothing is known of the first";
    cycle.begin(5s);
    EXPECT_EQ(cycle.end(5s + 300us), 300us);
    cycle.begin(5s + 303us);
    EXPECT_EQ(cycle.end(5s + 803us), 500us);
    cycle.begin(6s);
    EXPECT_EQ(cycle.end(6s + 7ms), 500us) << "out of turn: as long as the one before";
}

TEST(Injected, ASharePassesBeforeTheNextRunBegins) {
    // Nothing is known of the first run, nor of one after the thread was descheduled for long;
    // eventually five in a row have the expected length.
    const auto deadline = std::chrono::steady_clock::now() + 10min;
    int held = 0;
    while (held < 5 && std::chrono::steady_clock::now() < deadline) {
        const auto begin = std::chrono::steady_clock::now();
        {
            const Share<1000>::Turn turn;
            while (std::chrono::steady_clock::now() - begin < 200us) {
            }
        }
        held = std::chrono::steady_clock::now() - begin >= 400us ? held + 1 : 0;
    }
    EXPECT_EQ(held, 5);
}

TEST(Injected, TheSizeIsANumberOfThousandths) {
    EXPECT_EQ(parsePerMille(nullptr), 20u);
    EXPECT_EQ(parsePerMille("0"), 0u);
    EXPECT_EQ(parsePerMille("1000"), 1000u);
    for (const char* bad : {"", " 5", "5 ", "1001", "-1", "0.5", "99999999999"}) {
        EXPECT_THROW(parsePerMille(bad), std::invalid_argument) << bad;
    }
}

TEST(Injected, BurntWorkIsCountedInCpuTime) {
    const auto counted = Burnt::total();
    const auto begin = threadTime();
    burnFor(3ms, burnSome);
    const auto used = threadTime() - begin;
    EXPECT_GE(Burnt::total() - counted, 3ms);
    EXPECT_LE(Burnt::total() - counted, 2 * used)
            << "by the clock of the thread, give or take its resolution";
}

TEST(Injected, ADebtIsSettledOnce) {
    Debt debt;
    debt.add(5ms);
    debt.add(2ms);
    EXPECT_EQ(debt.take(), 7ms);
    EXPECT_EQ(debt.take(), 0ms);
}

TEST(Injected, ATickerAccountsForAllTheTime) {
    std::atomic<int> calls{0};
    std::atomic<int64_t> all{0};
    const auto begin = steadyTime();
    {
        const Ticker ticker(1ms, [&](std::chrono::nanoseconds elapsed) {
            all += elapsed.count();
            ++calls;
        });
        while (calls < 3) {
            std::this_thread::yield();
        }
    }
    EXPECT_GE(all.load(), std::chrono::nanoseconds(3ms).count());
    EXPECT_LE(all.load(), (steadyTime() - begin).count());
}

/// Serves runs of requests, of half a millisecond each, until the fault has burnt something.
template <class Fault>
bool burnsSooner() {
    const auto before = Fault::burnt();
    const auto deadline = std::chrono::steady_clock::now() + 10min;
    while (Fault::burnt() == before && std::chrono::steady_clock::now() < deadline) {
        const typename Fault::Turn turn;
        const auto end = steadyTime() + 500us;
        while (steadyTime() < end) {
        }
    }
    return Fault::burnt() > before;
}

TEST(Injected, FaultsOfAChosenSizeCountTheirCpuTime) {
    EXPECT_TRUE(burnsSooner<SizedShare>());
    EXPECT_TRUE(burnsSooner<Background>());
    EXPECT_TRUE(burnsSooner<Burst100ms>());
    EXPECT_TRUE(burnsSooner<Footprint>());
    EXPECT_TRUE(burnsSooner<Lock>());
}

TEST(Injected, APeriodIsDueOnce) {
    Periodic periodic(2s);
    EXPECT_TRUE(periodic.due(0s));
    EXPECT_FALSE(periodic.due(1'999ms));
    EXPECT_TRUE(periodic.due(2s));
    EXPECT_FALSE(periodic.due(2s));
    EXPECT_TRUE(periodic.due(100s)) << "what was missed is not made up for";
    EXPECT_FALSE(periodic.due(101s));
}

TEST(Injected, APeriodIsDueForOneThread) {
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

TEST(Injected, TheStallSleepsWhenItIsDue) {
    Periodic periodic(Stall::kPeriod);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_TRUE(Stall::stallIfDue(periodic, 5s));
    EXPECT_GE(std::chrono::steady_clock::now() - start, Stall::kLength);
    EXPECT_FALSE(Stall::stallIfDue(periodic, 6s));
}

TEST(Injected, ALeakLosesABlockEveryThousandSetsOfAThread) {
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

TEST(Injected, OnlyOneFaultTouchesItems) {
    EXPECT_EQ(NoItemFault::kBytes, 0u);
    EXPECT_EQ(SixteenBytesMore::kBytes, 16u);
    EXPECT_EQ(SelectedInjectedItem::kBytes, SelectedInjected::kName == "bytes16" ? 16u : 0u);
}

}  // namespace kv::options
