#include "bucket/read_mostly_mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "types/contention.h"

namespace kv {
namespace {

TEST(ReadMostlyMutexTest, ReadersSeeAllOfAChangeOrNothing) {
    ReadMostlyMutex mutex;
    std::vector<int> values(8, 0);
    std::atomic<bool> torn{false};
    std::atomic<int> reads{0};
    std::vector<std::thread> readers;
    readers.reserve(4);
    for (int i = 0; i < 4; ++i) {
        readers.emplace_back([&] {
            for (bool last = false; !last;) {
                const std::shared_lock lock(mutex);
                last = values.front() == 50;
                for (const int value : values) {
                    torn = torn || value != values.front();
                }
                ++reads;
            }
        });
    }
    for (int value = 1; value <= 50; ++value) {
        const std::unique_lock lock(mutex);
        for (int& one : values) {
            one = value;
        }
    }
    for (std::thread& reader : readers) {
        reader.join();
    }
    EXPECT_FALSE(torn);
    EXPECT_GE(reads, 4);
}

TEST(ReadMostlyMutexTest, AWriterKeepsReadersOut) {
    ReadMostlyMutex mutex;
    std::unique_lock writer(mutex);
    bool got = true;
    std::thread([&] { got = std::shared_lock(mutex, std::try_to_lock).owns_lock(); }).join();
    EXPECT_FALSE(got);
    writer.unlock();
    const std::shared_lock one(mutex);
    std::thread([&] { got = std::shared_lock(mutex, std::try_to_lock).owns_lock(); }).join();
    EXPECT_TRUE(got) << "readers do not exclude each other";
}

/// Another thread holds it whenever it is tried.
struct BusyMutex {
    static bool try_lock() { return false; }
    void lock() { ++locks; }
    void unlock() { ++unlocks; }
    int locks{0};
    int unlocks{0};
};

TEST(ContentionTest, CountsOnlyThreadsThatWait) {
    WaitCounter counter;
    std::mutex idle;
    { EXPECT_TRUE(lockCounted<std::unique_lock<std::mutex>>(idle, counter).owns_lock()); }
    EXPECT_EQ(counter.count, 0U);
    BusyMutex busy;
    for (uint64_t waits = 1; waits <= 2; ++waits) {
        { EXPECT_TRUE(lockCounted<std::unique_lock<BusyMutex>>(busy, counter).owns_lock()); }
        EXPECT_EQ(busy.locks, busy.unlocks);
        EXPECT_EQ(counter.count, waits);
    }
    EXPECT_GT(counter.nanos, 0U);
    counter.reset();
    EXPECT_EQ(counter.count + counter.nanos, 0U);
}

}  // namespace
}  // namespace kv
