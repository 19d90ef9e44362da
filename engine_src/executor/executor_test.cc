#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <stdexcept>
#include <thread>

#include "executor/fake_executor.h"
#include "executor/thread_executor.h"

namespace kv {
namespace {

using namespace std::chrono_literals;

TEST(FakeExecutorTest, RunsDueTasksInTheOrderOfTheirTimes) {
    FakeExecutor executor;
    std::string order;
    executor.schedule("late", TaskPool::NonIO, 20ns, [&] {
        order += 'l';
        return TaskResult::done();
    });
    executor.schedule("early", TaskPool::Writer, 10ns, [&] {
        order += 'e';
        return TaskResult::done();
    });
    EXPECT_EQ(executor.runNext(), "");
    executor.advance(30ns);
    EXPECT_EQ(order, "el");
    EXPECT_TRUE(executor.stats().empty());
}

TEST(FakeExecutorTest, RepeatsAtTheDelayTheTaskAsksFor) {
    FakeExecutor executor;
    int runs = 0;
    executor.schedule("tick", TaskPool::NonIO, 5s, [&] {
        ++runs;
        return TaskResult::after(5s);
    });
    executor.advance(4s);
    EXPECT_EQ(runs, 0);
    executor.advance(11s);
    EXPECT_EQ(runs, 3);
}

TEST(FakeExecutorTest, ATaskSurvivesAnAllocationFailure) {
    FakeExecutor executor;
    int runs = 0;
    executor.schedule("hungry", TaskPool::NonIO, 0ns, [&] {
        if (++runs < 3) {
            throw std::bad_alloc();
        }
        return TaskResult::done();
    });
    EXPECT_EQ(executor.runDue(), 1U) << "later, not at once";
    executor.advance(10s);
    EXPECT_EQ(runs, 3);
    EXPECT_TRUE(executor.stats().empty());
}

TEST(FakeExecutorTest, AFunctionThatThrowsIsRunAgain) {
    FakeExecutor executor;
    int runs = 0;
    executor.schedule("unlucky", TaskPool::NonIO, 0ns, [&] {
        if (++runs == 1) {
            throw std::runtime_error("the store cannot be read");
        }
        return TaskResult::done();
    });
    executor.advance(10s);
    EXPECT_EQ(runs, 2);
}

TEST(FakeExecutorTest, WakeDuringARunRunsOnceMore) {
    FakeExecutor executor;
    int runs = 0;
    TaskPtr task;
    task = executor.schedule("self", TaskPool::NonIO, kNever, [&] {
        if (++runs == 1) {
            executor.wake(task);
        }
        return TaskResult::untilWoken();
    });
    EXPECT_EQ(executor.runDue(), 0U);
    executor.wake(task);
    EXPECT_EQ(executor.runDue(), 2U);
}

TEST(FakeExecutorTest, SnoozePutsOffAndCancelEnds) {
    FakeExecutor executor;
    int runs = 0;
    const TaskPtr task = executor.schedule("t", TaskPool::NonIO, 1s, [&] {
        ++runs;
        return TaskResult::after(1s);
    });
    executor.snooze(task, 10s);
    executor.advance(9s);
    EXPECT_EQ(runs, 0);
    executor.advance(1s);
    EXPECT_EQ(runs, 1);
    executor.cancel(task);
    executor.wake(task);
    executor.advance(100s);
    EXPECT_EQ(runs, 1);
}

TEST(FakeExecutorTest, RunTaskPicksByName) {
    FakeExecutor executor;
    int a = 0;
    int b = 0;
    executor.schedule("a", TaskPool::NonIO, 0s, [&] {
        ++a;
        return TaskResult::untilWoken();
    });
    executor.schedule("b", TaskPool::NonIO, kNever, [&] {
        ++b;
        return TaskResult::untilWoken();
    });
    executor.runTask("b");
    EXPECT_EQ(a, 0);
    EXPECT_EQ(b, 1);
    EXPECT_THROW(executor.runTask("c"), std::logic_error);
}

TEST(FakeExecutorTest, ATaskThatNeverRestsIsAnError) {
    FakeExecutor executor;
    executor.schedule("spin", TaskPool::NonIO, 0s, [] { return TaskResult::again(); });
    EXPECT_THROW(executor.runDue(10), std::logic_error);
}

TEST(ThreadExecutorTest, NeverLosesAWake) {
    ThreadExecutor executor({.writers = 2, .auxIo = 1, .nonIo = 1});
    // Each side waits for the other: a lost wake-up would hang the test.
    std::atomic<int> requested{0};
    std::atomic<int> served{0};
    const TaskPtr task = executor.schedule("server", TaskPool::Writer, kNever, [&] {
        served.store(requested.load());
        served.notify_all();
        return TaskResult::untilWoken();
    });
    for (int round = 1; round <= 5000; ++round) {
        requested.store(round);
        executor.wake(task);
        for (int seen = served.load(); seen < round; seen = served.load()) {
            served.wait(seen);
        }
    }
    executor.cancel(task);
    EXPECT_GE(task->runs(), 1U);
}

TEST(ThreadExecutorTest, ATaskNeverRunsTwiceAtTheSameTime) {
    ThreadExecutor executor({.writers = 4, .auxIo = 1, .nonIo = 1});
    std::atomic<int> inside{0};
    std::atomic<bool> overlapped{false};
    const TaskPtr task = executor.schedule("solo", TaskPool::Writer, kNever, [&] {
        if (inside.fetch_add(1) != 0) {
            overlapped = true;
        }
        std::this_thread::yield();
        inside.fetch_sub(1);
        return TaskResult::untilWoken();
    });
    std::vector<std::thread> wakers;
    wakers.reserve(3);
    for (int i = 0; i < 3; ++i) {
        wakers.emplace_back([&] {
            for (int n = 0; n < 2000; ++n) {
                executor.wake(task);
            }
        });
    }
    for (auto& waker : wakers) {
        waker.join();
    }
    executor.cancel(task);
    EXPECT_FALSE(overlapped);
}

TEST(ThreadExecutorTest, CancelWaitsForTheRunInProgress) {
    ThreadExecutor executor({.writers = 1, .auxIo = 1, .nonIo = 1});
    std::atomic<bool> started{false};
    std::atomic<bool> finished{false};
    const TaskPtr task = executor.schedule("slow", TaskPool::AuxIO, 0s, [&] {
        started = true;
        started.notify_all();
        std::this_thread::sleep_for(20ms);
        finished = true;
        return TaskResult::again();
    });
    started.wait(false);
    executor.cancel(task);
    EXPECT_TRUE(finished);
    const auto runs = task->runs();
    std::this_thread::sleep_for(5ms);
    EXPECT_EQ(task->runs(), runs);
}

TEST(ThreadExecutorTest, ATaskMayCancelItself) {
    ThreadExecutor executor({.writers = 1, .auxIo = 1, .nonIo = 1});
    std::atomic<bool> ready{false};
    std::atomic<int> runs{0};
    TaskPtr task;
    task = executor.schedule("self", TaskPool::NonIO, kNever, [&] {
        ready.wait(false);
        ++runs;
        executor.cancel(task);
        runs.notify_all();
        return TaskResult::again();
    });
    ready = true;
    executor.wake(task);
    runs.wait(0);
    while (!executor.stats().empty()) {
        std::this_thread::yield();
    }
    EXPECT_EQ(runs, 1);
}

TEST(ThreadExecutorTest, StatsNameTheTasks) {
    ThreadExecutor executor({.writers = 1, .auxIo = 1, .nonIo = 1});
    executor.schedule("flusher_0", TaskPool::Writer, kNever,
                      [] { return TaskResult::untilWoken(); });
    const auto stats = executor.stats();
    ASSERT_EQ(stats.size(), 1U);
    EXPECT_EQ(stats[0].name, "flusher_0");
    EXPECT_EQ(stats[0].state, "waiting");
}

}  // namespace
}  // namespace kv
