#include "memory/memory_peak.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <thread>

namespace kv {

namespace {
/// Allocates and frees; the compiler may not remove it.
void touchHeap(size_t bytes) {
    auto block = std::make_unique<char[]>(bytes);
    auto* raw = block.get();
    asm volatile("" : "+r"(raw) : : "memory");
}
}  // namespace

TEST(MemoryPeak, FollowsCurrentAndKeepsTheHighest) {
    const MemoryPeak peak;
    const auto before = peak.current();
    auto block = std::make_unique<char[]>(1 << 20);
    EXPECT_GE(peak.current() - before, 1 << 20);
    block.reset();
    EXPECT_LT(peak.current() - before, 1 << 16);
    EXPECT_GE(peak.max() - before, 1 << 20);
}

TEST(MemoryPeak, ResetMaxForgetsTheLoadPhase) {
    MemoryPeak peak;
    touchHeap(1 << 20);
    EXPECT_GE(peak.max(), 1 << 20);
    peak.resetMax();
    EXPECT_EQ(peak.max(), peak.current());
    const auto small = std::make_unique<char[]>(1 << 10);
    EXPECT_LT(peak.max(), 1 << 20);
}

TEST(MemoryPeak, SeesOtherThreads) {
    MemoryPeak peak;
    std::thread([] { touchHeap(1 << 22); }).join();
    EXPECT_GE(peak.max(), 1 << 22);
}

TEST(MemoryPeak, OnlyOneAtATime) {
    const MemoryPeak peak;
    EXPECT_THROW(MemoryPeak(), std::logic_error);
}

}  // namespace kv
