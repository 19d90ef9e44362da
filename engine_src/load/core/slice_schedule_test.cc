// Slices and rounds without any connection: orders, accounting, ends.
#include "load/core/slice_schedule.h"

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

TEST(FillInRotation, ContinuesUntilEveryVariantIsFull) {
    const std::vector<std::size_t> wanted{3, 1, 5};
    std::vector<std::size_t> order;
    const std::atomic<bool> stop{false};
    fillInRotation(3, 7, stop, [&](std::size_t variant) {
        order.push_back(variant);
        return static_cast<std::size_t>(std::count(order.begin(), order.end(), variant)) <
               wanted[variant];
    });
    EXPECT_EQ(order.size(), 9U);
    for (std::size_t variant = 0; variant < 3; ++variant) {
        EXPECT_EQ(static_cast<std::size_t>(std::count(order.begin(), order.end(), variant)),
                  wanted[variant]);
    }
    // One part of each in every round: the first three are all different.
    EXPECT_EQ(std::set(order.begin(), order.begin() + 3), (std::set<std::size_t>{0, 1, 2}));
}

TEST(FillInRotation, EndsWhenItIsStopped) {
    std::atomic<bool> stop{false};
    int calls = 0;
    fillInRotation(2, 7, stop, [&](std::size_t) {
        stop = ++calls == 5;
        return true;
    });
    EXPECT_EQ(calls, 5);
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

/// The slices that one thread received.
using Seen = std::vector<SliceSchedule::Slice>;

struct Run {
    RunResult result;
    std::vector<Seen> seen;  // by thread
};

/// Runs all slices; `load` is that of a thread.
Run runSlices(ThreadTeam& team, SliceSchedule& schedule,
              const std::function<SliceSchedule::Done(std::size_t thread,
                                                      const SliceSchedule::Slice&)>& load) {
    Run run;
    run.seen.resize(team.threads());
    run.result = team.run(
            [&](std::size_t thread) {
                SliceSchedule::Done done;
                while (const auto slice = schedule.next(thread, done)) {
                    run.seen[thread].push_back(*slice);
                    done = load(thread, *slice);
                }
            },
            [] {});
    return run;
}

TEST(SliceSchedule, EveryRoundHasEveryVariantOnceAndTheAccountsAddUp) {
    for (const std::size_t threads : {1U, 3U}) {
        ThreadTeam team(threads);
        SliceSchedule schedule(team, {.variants = 4, .seed = 3},
                               [](std::size_t variant) -> std::unique_ptr<CpuClock> {
                                   return variant == 2 ? nullptr : std::make_unique<FakeClock>(0);
                               });
        const auto run = runSlices(
                team, schedule, [](std::size_t thread, const SliceSchedule::Slice& slice) {
                    return SliceSchedule::Done{100 * slice.variant + thread, slice.round == 49};
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
        Nanos sliceTime = 0;
        for (std::size_t variant = 0; variant < 4; ++variant) {
            const auto& log = schedule.log(variant);
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
            sliceTime += log.sliceTime();
            for (std::size_t round = 0; round < 50; ++round) {
                const auto& slice = run.seen[0][4 * round + log.position[round]];
                EXPECT_EQ(slice.variant, variant);
                EXPECT_EQ(slice.begin - run.seen[0][0].begin, log.start[round]);
            }
        }
        EXPECT_EQ(schedule.warmupRounds(), 0U);
        EXPECT_GE(schedule.measuredTime(), sliceTime);  // and the switches between slices
    }
}

TEST(SliceSchedule, EverySliceRecordsWhoseCpuWasUsed) {
    for (const std::size_t threads : {1U, 3U}) {
        ThreadTeam team(threads);
        // In each slice variant n uses 10^n, whichever variant the slice belongs to.
        SliceSchedule schedule(team, {.variants = 3, .seed = 9}, [](std::size_t variant) {
            return std::make_unique<FakeClock>(0, variant == 0 ? 1 : variant == 1 ? 10 : 100);
        });
        runSlices(team, schedule, [](std::size_t, const SliceSchedule::Slice& slice) {
            return SliceSchedule::Done{1, slice.round == 19};
        });
        EXPECT_EQ(schedule.log(0).ownCpu, std::vector<Nanos>(20, 1));
        EXPECT_EQ(schedule.log(0).foreignCpu, std::vector<Nanos>(20, 110));
        EXPECT_EQ(schedule.log(1).foreignCpu, std::vector<Nanos>(20, 101));
        EXPECT_EQ(schedule.log(2).ownCpu, std::vector<Nanos>(20, 100));
        EXPECT_EQ(schedule.log(2).foreignCpu, std::vector<Nanos>(20, 11));
        EXPECT_EQ(schedule.idleTime(), 0);
        EXPECT_EQ(schedule.idleCpu(0), std::nullopt);
    }
}

TEST(SliceSchedule, NothingIsLoadedInTheIdleTime) {
    ThreadTeam team(2);
    SliceSchedule schedule(team, {.variants = 2, .seed = 9, .idle = 3 * kMilli},
                           [](std::size_t variant) -> std::unique_ptr<CpuClock> {
                               return variant == 0 ? nullptr : std::make_unique<FakeClock>(0);
                           });
    const auto begin = nowNanos();
    const auto run = runSlices(team, schedule, [](std::size_t, const SliceSchedule::Slice& slice) {
        return SliceSchedule::Done{1, slice.round == 1};
    });
    EXPECT_GE(run.seen[0].front().begin - begin, 3 * kMilli);
    EXPECT_GE(2 * schedule.idleTime(), 3 * kMilli);
    EXPECT_EQ(schedule.idleCpu(0), std::nullopt);
    EXPECT_EQ(schedule.idleCpu(1), 10);
    EXPECT_EQ(schedule.log(1).ownCpu, std::vector<Nanos>(2, 10)) << "the idle time is in no slice";
}

TEST(SliceSchedule, ThreadsAreOnOneVariantAtATime) {
    ThreadTeam team(3);
    SliceSchedule schedule(team, {.variants = 2, .seed = 1}, noClock);
    std::array<std::atomic<int>, 2> inside{};
    std::atomic<int> mixed{0};
    runSlices(team, schedule, [&](std::size_t thread, const SliceSchedule::Slice& slice) {
        ++inside[slice.variant];
        if (thread == slice.round % 3) {
            std::this_thread::yield();
        }
        mixed += inside[1 - slice.variant];
        --inside[slice.variant];
        return SliceSchedule::Done{1, slice.round == 300};
    });
    EXPECT_EQ(mixed, 0);
    EXPECT_EQ(schedule.log(0).ops, std::vector<std::uint64_t>(301, 3));
}

TEST(SliceSchedule, WarmUpAndEndAreByTimeAndWholeRounds) {
    ThreadTeam team(1);
    SliceSchedule schedule(
            team, {.variants = 2, .seed = 0, .warmup = 3 * kMilli, .end = 9 * kMilli}, noClock);
    const auto run = runSlices(team, schedule, [](std::size_t, const SliceSchedule::Slice& slice) {
        while (nowNanos() < slice.begin + kMilli) {
        }
        return SliceSchedule::Done{1, false};
    });
    const auto& seen = run.seen[0];
    ASSERT_EQ(seen.size() % 2, 0U);
    const auto first = seen.front().begin;
    for (std::size_t i = 0; i < seen.size(); i += 2) {
        EXPECT_EQ(seen[i].measured, seen[i + 1].measured);  // a round is one or the other
        EXPECT_EQ(seen[i].measured, i >= 2 * schedule.warmupRounds());
        EXPECT_TRUE(!seen[i].measured || seen[i].begin - first >= 3 * kMilli);
    }
    EXPECT_GE(schedule.warmupRounds(), 1U);
    EXPECT_LE(schedule.warmupRounds(), 2U);  // of 2 ms or more
    EXPECT_GE(schedule.log(0).rounds(), 1U);
    EXPECT_EQ(schedule.warmupRounds() + schedule.log(0).rounds(), seen.size() / 2);
    EXPECT_EQ(
            schedule.log(0).start.front() + schedule.log(1).start.front(),
            seen[2 * schedule.warmupRounds() + 1].begin - seen[2 * schedule.warmupRounds()].begin);
}

TEST(SliceSchedule, ALateEndStillMeasuresOneRound) {
    ThreadTeam team(2);
    SliceSchedule schedule(team, {.variants = 2, .seed = 0, .warmup = 1, .end = 2}, noClock);
    runSlices(team, schedule, [](std::size_t, const SliceSchedule::Slice&) {
        return SliceSchedule::Done{7, false};
    });
    EXPECT_EQ(schedule.warmupRounds(), 1U);
    EXPECT_EQ(schedule.log(1).ops, std::vector<std::uint64_t>{14});
}

TEST(SliceSchedule, ContinueUntilTheSlowestVariantIsExhausted) {
    ThreadTeam team(2);
    SliceSchedule schedule(team, {.variants = 2, .seed = 5}, noClock);
    runSlices(team, schedule, [](std::size_t, const SliceSchedule::Slice& slice) {
        const std::uint64_t last = slice.variant == 0 ? 3 : 6;
        return SliceSchedule::Done{slice.round <= last ? 5U : 0U, slice.round >= last};
    });
    EXPECT_EQ(schedule.log(0).ops, (std::vector<std::uint64_t>{10, 10, 10, 10, 0, 0, 0}));
    EXPECT_EQ(schedule.log(1).ops, std::vector<std::uint64_t>(7, 10));
}

TEST(SliceSchedule, AClockThatFailsEndsAllThreadsAndNamesTheVariant) {
    for (const std::size_t threads : {1U, 3U}) {
        for (const int failAt : {1, 6}) {
            ThreadTeam team(threads);
            SliceSchedule schedule(
                    team, {.variants = 3, .seed = 1},
                    [&](std::size_t variant) -> std::unique_ptr<CpuClock> {
                        return std::make_unique<FakeClock>(variant == 1 ? failAt : 0);
                    });
            const auto run =
                    runSlices(team, schedule, [](std::size_t, const SliceSchedule::Slice&) {
                        return SliceSchedule::Done{1, false};
                    });
            EXPECT_EQ(run.result.failure, "clock is gone");
            try {
                std::rethrow_exception(run.result.cause);
            } catch (const VariantFailure& failure) {
                EXPECT_EQ(failure.variant, 1U);
            }
            // Reading 1 is before the first slice; reading 6 ends the second slice of round 2.
            for (std::size_t variant = 0; variant < 3; ++variant) {
                EXPECT_EQ(schedule.log(variant).rounds(), failAt == 1 ? 0U : 1U);
            }
        }
    }
}

TEST(SliceSchedule, AFailureInASliceBreaksItsRoundOff) {
    for (const std::size_t threads : {1U, 3U}) {
        ThreadTeam team(threads);
        SliceSchedule schedule(team, {.variants = 2, .seed = 1}, noClock);
        const auto run = runSlices(
                team, schedule, [&](std::size_t thread, const SliceSchedule::Slice& slice) {
                    if (slice.round == 10 && slice.variant == 0 && thread == threads - 1) {
                        throw LoadError("lost");
                    }
                    return SliceSchedule::Done{1, false};
                });
        EXPECT_EQ(run.result.failure, "lost");
        EXPECT_EQ(schedule.log(0).rounds(), 10U);
        EXPECT_EQ(schedule.log(1).rounds(), 10U);
    }
}

}  // namespace
}  // namespace kv::load
