// Slices and rounds without any connection: orders, accounting, ends.
#include "load/core/turns.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "load/core/round_order.h"

namespace kv::load {
namespace {

TEST(RoundOrder, IsUniformOverAllPermutations) {
    RoundOrder order(4, 77);
    std::map<std::array<std::size_t, 4>, int> seen;
    for (int i = 0; i < 24'000; ++i) {
        order.shuffle();
        ++seen[{order[0], order[1], order[2], order[3]}];
    }
    ASSERT_EQ(seen.size(), 24U);
    double chiSquare = 0;
    for (const auto& [permutation, count] : seen) {
        EXPECT_EQ(std::set<std::size_t>(permutation.begin(), permutation.end()).size(), 4U);
        chiSquare += (count - 1000.0) * (count - 1000.0) / 1000.0;
    }
    EXPECT_LT(chiSquare, 49.7);  // 23 degrees of freedom, p = .001
    EXPECT_GT(chiSquare, 7.5);   // nor more even than by chance: p = .999
}

TEST(FillInTurns, ContinuesUntilEveryVariantIsFull) {
    const std::vector<std::size_t> wanted{3, 1, 5};
    std::vector<std::size_t> order;
    const std::atomic<bool> stop{false};
    fillInTurns(3, 7, stop, [&](std::size_t variant) {
        order.push_back(variant);
        return static_cast<std::size_t>(std::count(order.begin(), order.end(), variant)) <
               wanted[variant];
    });
    EXPECT_EQ(order.size(), 9U);
    for (std::size_t variant = 0; variant < 3; ++variant) {
        EXPECT_EQ(static_cast<std::size_t>(std::count(order.begin(), order.end(), variant)),
                  wanted[variant]);
    }
    // One turn of each in every round: the first three are all different.
    EXPECT_EQ(std::set(order.begin(), order.begin() + 3), (std::set<std::size_t>{0, 1, 2}));
}

TEST(FillInTurns, EndsWhenItIsStopped) {
    std::atomic<bool> stop{false};
    int turns = 0;
    fillInTurns(2, 7, stop, [&](std::size_t) {
        stop = ++turns == 5;
        return true;
    });
    EXPECT_EQ(turns, 5);
}

TEST(RoundOrder, FollowsFromTheSeed) {
    const auto draw = [](std::uint64_t seed) {
        RoundOrder order(5, seed);
        std::vector<std::size_t> all;
        for (int i = 0; i < 20; ++i) {
            order.shuffle();
            for (std::size_t at = 0; at < order.size(); ++at) {
                all.push_back(order[at]);
            }
        }
        return all;
    };
    EXPECT_EQ(draw(1), draw(1));
    EXPECT_NE(draw(1), draw(2));
    RoundOrder alone(1, 0);
    alone.shuffle();
    EXPECT_EQ(alone[0], 0U);
}

TEST(ThreadMeter, ReadsTheRunDelay) {
    const auto parse = [](std::string_view text) {
        return parseRunDelay(text.data(), text.data() + text.size());
    };
    EXPECT_EQ(parse("123456 789 42\n"), 789);
    EXPECT_EQ(parse("0 0 0\n"), 0);
    EXPECT_EQ(parse("123456"), std::nullopt);
    EXPECT_EQ(parse(""), std::nullopt);
    EXPECT_EQ(parse("1 x 2"), std::nullopt);
}

TEST(ThreadMeter, CpuTimeGrowsWithWork) {
    const auto before = ThreadMeter::cpu();
    while (ThreadMeter::cpu() == before) {
    }
    EXPECT_GT(ThreadMeter::cpu(), before);
}

TEST(ProcessCpuClock, IsOfTheProcess) {
    ProcessCpuClock clock(::getpid());
    const auto before = clock.read();
    const auto thread = ThreadMeter::cpu();
    while (ThreadMeter::cpu() - thread < 2'000'000) {
    }
    EXPECT_GE(clock.read() - before, 2'000'000);
    for (const int none : {0, -1, 1 << 22, 0x3fffffff}) {
        EXPECT_THROW(ProcessCpuClock{none}, LoadError) << none;
    }
}

/// Advances by `step` per reading; fails from the `failAt`-th reading on.
class FakeClock final : public CpuClock {
  public:
    explicit FakeClock(int failAt, Nanos step = 10) : failAt_(failAt), step_(step) {}
    void ask() override { asked_ = true; }
    Nanos read() override {
        EXPECT_TRUE(std::exchange(asked_, false));
        if (++readings_ == failAt_) {
            throw LoadError("clock is gone");
        }
        return 1000 + step_ * readings_;
    }

  private:
    int failAt_;
    Nanos step_;
    bool asked_ = false;
    int readings_ = 0;
};

std::unique_ptr<CpuClock> noClock(std::size_t) {
    return nullptr;
}

/// The turns that one thread received.
using Seen = std::vector<Turns::Turn>;

struct Run {
    RunResult result;
    std::vector<Seen> seen;  // by thread
};

/// Runs all turns; `slice` is the load of a thread.
Run runTurns(ThreadTeam& team, Turns& turns,
             const std::function<Turns::Done(std::size_t thread, const Turns::Turn&)>& slice) {
    Run run;
    run.seen.resize(team.threads());
    run.result = team.run(
            [&](std::size_t thread) {
                Turns::Done done;
                while (const auto turn = turns.next(thread, done)) {
                    run.seen[thread].push_back(*turn);
                    done = slice(thread, *turn);
                }
            },
            [] {});
    return run;
}

TEST(Turns, EveryRoundHasEveryVariantOnceAndTheAccountsAddUp) {
    for (const std::size_t threads : {1U, 3U}) {
        ThreadTeam team(threads);
        Turns turns(team, {.variants = 4, .seed = 3},
                    [](std::size_t variant) -> std::unique_ptr<CpuClock> {
                        return variant == 2 ? nullptr : std::make_unique<FakeClock>(0);
                    });
        const auto run = runTurns(team, turns, [](std::size_t thread, const Turns::Turn& turn) {
            return Turns::Done{100 * turn.variant + thread, turn.round == 49};
        });
        EXPECT_EQ(run.result.failure, "");
        ASSERT_EQ(run.seen[0].size(), 4 * 50U);
        RoundOrder order(4, 3);
        for (std::size_t i = 0; i < run.seen[0].size(); ++i) {
            if (i % 4 == 0) {
                order.shuffle();
            }
            EXPECT_EQ(run.seen[0][i].variant, order[i % 4]);
            EXPECT_EQ(run.seen[0][i].round, i / 4);
            EXPECT_TRUE(run.seen[0][i].measured);
            for (const auto& thread : run.seen) {
                EXPECT_EQ(thread[i].variant, run.seen[0][i].variant);
                EXPECT_EQ(thread[i].begin, run.seen[0][i].begin);
            }
        }
        const std::uint64_t threadSum = threads * (threads - 1) / 2;
        Nanos inTurn = 0;
        for (std::size_t variant = 0; variant < 4; ++variant) {
            const auto& log = turns.log(variant);
            ASSERT_EQ(log.rounds(), 50U);
            EXPECT_EQ(log.ops, std::vector<std::uint64_t>(50, 100 * variant * threads + threadSum));
            EXPECT_EQ(log.ownCpu, std::vector<Nanos>(variant == 2 ? 0 : 50, 10));
            EXPECT_EQ(log.foreignCpu, std::vector<Nanos>(variant == 2 ? 50 : 0, 30))
                    << "of the others, one of which has no clock";
            // One reading at each switch since its slice before.
            ASSERT_EQ(log.cpu.size(), variant == 2 ? 0U : 50U);
            for (std::size_t round = 0; round < log.cpu.size(); ++round) {
                const auto since = round == 0 ? log.position[0] + 1
                                              : 4 + log.position[round] - log.position[round - 1];
                EXPECT_EQ(log.cpu[round], static_cast<Nanos>(10 * since));
            }
            EXPECT_EQ(log.clientCpu.size(), 50U);
            inTurn += log.inTurn();
            for (std::size_t round = 0; round < 50; ++round) {
                const auto& turn = run.seen[0][4 * round + log.position[round]];
                EXPECT_EQ(turn.variant, variant);
                EXPECT_EQ(turn.begin - run.seen[0][0].begin, log.start[round]);
            }
        }
        EXPECT_EQ(turns.warmupRounds(), 0U);
        EXPECT_GE(turns.measuredTime(), inTurn);  // and the switches between slices
    }
}

TEST(Turns, EverySliceRecordsWhoseCpuWasUsed) {
    for (const std::size_t threads : {1U, 3U}) {
        ThreadTeam team(threads);
        // In each slice variant n uses 10^n, whichever variant the slice belongs to.
        Turns turns(team, {.variants = 3, .seed = 9}, [](std::size_t variant) {
            return std::make_unique<FakeClock>(0, variant == 0 ? 1 : variant == 1 ? 10 : 100);
        });
        runTurns(team, turns, [](std::size_t, const Turns::Turn& turn) {
            return Turns::Done{1, turn.round == 19};
        });
        EXPECT_EQ(turns.log(0).ownCpu, std::vector<Nanos>(20, 1));
        EXPECT_EQ(turns.log(0).foreignCpu, std::vector<Nanos>(20, 110));
        EXPECT_EQ(turns.log(1).foreignCpu, std::vector<Nanos>(20, 101));
        EXPECT_EQ(turns.log(2).ownCpu, std::vector<Nanos>(20, 100));
        EXPECT_EQ(turns.log(2).foreignCpu, std::vector<Nanos>(20, 11));
        EXPECT_EQ(turns.idleTime(), 0);
        EXPECT_EQ(turns.idleCpu(0), std::nullopt);
    }
}

TEST(Turns, NothingIsLoadedInTheIdleTime) {
    ThreadTeam team(2);
    Turns turns(team, {.variants = 2, .seed = 9, .idle = 3 * kMilli},
                [](std::size_t variant) -> std::unique_ptr<CpuClock> {
                    return variant == 0 ? nullptr : std::make_unique<FakeClock>(0);
                });
    const auto begin = nowNanos();
    const auto run = runTurns(team, turns, [](std::size_t, const Turns::Turn& turn) {
        return Turns::Done{1, turn.round == 1};
    });
    EXPECT_GE(run.seen[0].front().begin - begin, 3 * kMilli);
    EXPECT_GE(2 * turns.idleTime(), 3 * kMilli);
    EXPECT_EQ(turns.idleCpu(0), std::nullopt);
    EXPECT_EQ(turns.idleCpu(1), 10);
    EXPECT_EQ(turns.log(1).ownCpu, std::vector<Nanos>(2, 10)) << "the idle time is in no slice";
}

TEST(Turns, ThreadsAreOnOneVariantAtATime) {
    ThreadTeam team(3);
    Turns turns(team, {.variants = 2, .seed = 1}, noClock);
    std::array<std::atomic<int>, 2> inside{};
    std::atomic<int> mixed{0};
    runTurns(team, turns, [&](std::size_t thread, const Turns::Turn& turn) {
        ++inside[turn.variant];
        if (thread == turn.round % 3) {
            std::this_thread::yield();
        }
        mixed += inside[1 - turn.variant];
        --inside[turn.variant];
        return Turns::Done{1, turn.round == 300};
    });
    EXPECT_EQ(mixed, 0);
    EXPECT_EQ(turns.log(0).ops, std::vector<std::uint64_t>(301, 3));
}

TEST(Turns, WarmUpAndEndAreByTimeAndWholeRounds) {
    ThreadTeam team(1);
    Turns turns(team, {.variants = 2, .seed = 0, .warmup = 3 * kMilli, .end = 9 * kMilli}, noClock);
    const auto run = runTurns(team, turns, [](std::size_t, const Turns::Turn& turn) {
        while (nowNanos() < turn.begin + kMilli) {
        }
        return Turns::Done{1, false};
    });
    const auto& seen = run.seen[0];
    ASSERT_EQ(seen.size() % 2, 0U);
    const auto first = seen.front().begin;
    for (std::size_t i = 0; i < seen.size(); i += 2) {
        EXPECT_EQ(seen[i].measured, seen[i + 1].measured);  // a round is one or the other
        EXPECT_EQ(seen[i].measured, i >= 2 * turns.warmupRounds());
        EXPECT_TRUE(!seen[i].measured || seen[i].begin - first >= 3 * kMilli);
    }
    EXPECT_GE(turns.warmupRounds(), 1U);
    EXPECT_LE(turns.warmupRounds(), 2U);  // of 2 ms or more
    EXPECT_GE(turns.log(0).rounds(), 1U);
    EXPECT_EQ(turns.warmupRounds() + turns.log(0).rounds(), seen.size() / 2);
    EXPECT_EQ(turns.log(0).start.front() + turns.log(1).start.front(),
              seen[2 * turns.warmupRounds() + 1].begin - seen[2 * turns.warmupRounds()].begin);
}

TEST(Turns, ALateEndStillMeasuresOneRound) {
    ThreadTeam team(2);
    Turns turns(team, {.variants = 2, .seed = 0, .warmup = 1, .end = 2}, noClock);
    runTurns(team, turns, [](std::size_t, const Turns::Turn&) { return Turns::Done{7, false}; });
    EXPECT_EQ(turns.warmupRounds(), 1U);
    EXPECT_EQ(turns.log(1).ops, std::vector<std::uint64_t>{14});
}

TEST(Turns, ContinueUntilTheSlowestVariantIsExhausted) {
    ThreadTeam team(2);
    Turns turns(team, {.variants = 2, .seed = 5}, noClock);
    runTurns(team, turns, [](std::size_t, const Turns::Turn& turn) {
        const std::uint64_t last = turn.variant == 0 ? 3 : 6;
        return Turns::Done{turn.round <= last ? 5U : 0U, turn.round >= last};
    });
    EXPECT_EQ(turns.log(0).ops, (std::vector<std::uint64_t>{10, 10, 10, 10, 0, 0, 0}));
    EXPECT_EQ(turns.log(1).ops, std::vector<std::uint64_t>(7, 10));
}

TEST(Turns, AClockThatFailsEndsAllThreadsAndNamesTheVariant) {
    for (const std::size_t threads : {1U, 3U}) {
        for (const int failAt : {1, 6}) {
            ThreadTeam team(threads);
            Turns turns(team, {.variants = 3, .seed = 1},
                        [&](std::size_t variant) -> std::unique_ptr<CpuClock> {
                            return std::make_unique<FakeClock>(variant == 1 ? failAt : 0);
                        });
            const auto run = runTurns(team, turns, [](std::size_t, const Turns::Turn&) {
                return Turns::Done{1, false};
            });
            EXPECT_EQ(run.result.failure, "clock is gone");
            try {
                std::rethrow_exception(run.result.cause);
            } catch (const VariantFailure& failure) {
                EXPECT_EQ(failure.variant, 1U);
            }
            // Reading 1 is before the first slice; reading 6 ends the second slice of round 2.
            for (std::size_t variant = 0; variant < 3; ++variant) {
                EXPECT_EQ(turns.log(variant).rounds(), failAt == 1 ? 0U : 1U);
            }
        }
    }
}

TEST(Turns, AFailureInASliceBreaksItsRoundOff) {
    for (const std::size_t threads : {1U, 3U}) {
        ThreadTeam team(threads);
        Turns turns(team, {.variants = 2, .seed = 1}, noClock);
        const auto run = runTurns(team, turns, [&](std::size_t thread, const Turns::Turn& turn) {
            if (turn.round == 10 && turn.variant == 0 && thread == threads - 1) {
                throw LoadError("lost");
            }
            return Turns::Done{1, false};
        });
        EXPECT_EQ(run.result.failure, "lost");
        EXPECT_EQ(turns.log(0).rounds(), 10U);
        EXPECT_EQ(turns.log(1).rounds(), 10U);
    }
}

}  // namespace
}  // namespace kv::load
