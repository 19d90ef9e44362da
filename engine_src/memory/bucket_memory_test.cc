#include "memory/bucket_memory.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <latch>
#include <memory>
#include <new>
#include <thread>
#include <vector>

namespace kv {

namespace {
/// Keeps the compiler from removing a pair of new and delete.
template <class T>
T* opaque(T* pointer) {
    asm volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}
}  // namespace

TEST(BucketMemory, ChargesUsableSizesOfEveryFormOfNew) {
    BucketMemory memory(size_t{1} << 30);
    const BucketMemoryGuard guard(memory);
    size_t expected = 0;
    std::vector<void*> blocks;
    {
        const NonBucketGuard outside;
        blocks.reserve(8);
    }
    blocks.push_back(opaque(::operator new(1000)));
    blocks.push_back(opaque(::operator new[](1000)));
    blocks.push_back(opaque(::operator new(1000, std::nothrow)));
    blocks.push_back(opaque(::operator new[](1000, std::nothrow)));
    for (void* block : blocks) {
        expected += malloc_usable_size(block);
    }
    void* aligned = opaque(::operator new (300, std::align_val_t{128}));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned) % 128, 0u);
    void* alignedArray = opaque(::operator new[](300, std::align_val_t{256}, std::nothrow));
    expected += malloc_usable_size(aligned) + malloc_usable_size(alignedArray);
    EXPECT_EQ(memory.precise(), expected);
    ::operator delete(blocks[0]);
    ::operator delete[](blocks[1]);
    ::operator delete (blocks[2], size_t{1000});
    ::operator delete[](blocks[3], std::nothrow);
    ::operator delete (aligned, std::align_val_t{128});
    ::operator delete[](alignedArray, std::align_val_t{256}, std::nothrow);
    EXPECT_EQ(memory.precise(), 0u);
}

TEST(BucketMemory, ChargesNoBucketWithoutGuardAndRestoresTheOuterBinding) {
    BucketMemory first(1 << 20);
    BucketMemory second(1 << 20);
    EXPECT_EQ(BucketMemoryGuard::current(), nullptr);
    const std::unique_ptr<char[]> unbound(opaque(new char[500]));
    {
        const BucketMemoryGuard outer(first);
        {
            const BucketMemoryGuard inner(second);
            EXPECT_EQ(BucketMemoryGuard::current(), &second);
            const NonBucketGuard nobody;
            EXPECT_EQ(BucketMemoryGuard::current(), nullptr);
            const std::unique_ptr<char[]> free(opaque(new char[500]));
        }
        EXPECT_EQ(BucketMemoryGuard::current(), &first);
    }
    EXPECT_EQ(BucketMemoryGuard::current(), nullptr);
    EXPECT_EQ(first.precise(), 0u);
    EXPECT_EQ(second.precise(), 0u);
}

TEST(BucketMemory, EstimateStaysWithinTheMergeShareOfTheTruth) {
    constexpr size_t kQuota = size_t{64} << 20;
    BucketMemory memory(kQuota);
    for (int i = 0; i < 100000; ++i) {
        memory.charge(100);
        const auto apart = static_cast<double>(memory.precise() - memory.estimate());
        ASSERT_LE(apart, kQuota * BucketMemory::kDefaultMergeShare);
    }
    EXPECT_EQ(memory.precise(), 10'000'000u);
    EXPECT_GT(memory.estimate(), 0u);
    EXPECT_EQ(memory.merges(),
              memory.estimate() / (static_cast<size_t>(memory.mergeThreshold()) / 100 * 100 + 100));
}

TEST(BucketMemory, ANegativeSlotDoesNotSpoilTheSum) {
    BucketMemory memory(size_t{1} << 40);  // a threshold that is never reached: nothing is merged
    memory.charge(1000);
    std::thread([&] { memory.charge(-600); }).join();
    EXPECT_EQ(memory.precise(), 400u);
    EXPECT_EQ(memory.estimate(), 0u);
}

TEST(BucketMemory, SumsExactlyWhenMoreThreadsThanSlotsAllocateAndFreeAcross) {
    BucketMemory memory(1 << 20);
    constexpr int kThreads = 80;
    std::vector<std::vector<std::unique_ptr<char[]>>> blocks(kThreads);
    std::latch allocated(kThreads);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < kThreads; ++t) {
        blocks[t].reserve(100);
        threads.emplace_back([&, t] {
            {
                const BucketMemoryGuard guard(memory);
                for (size_t i = 0; i < 100; ++i) {
                    blocks[t].emplace_back(new char[i + 1]);
                }
            }
            allocated.arrive_and_wait();
            // Free what the neighbour allocated.
            const BucketMemoryGuard guard(memory);
            for (auto& block : blocks[(t + 1) % kThreads]) {
                block.reset();
            }
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(memory.precise(), 0u);
}

TEST(BucketMemory, SlotsOfEndedThreadsAreReused) {
    BucketMemory memory(size_t{1} << 40);
    for (int i = 0; i < 200; ++i) {
        std::thread([&] { memory.charge(10); }).join();
    }
    EXPECT_EQ(memory.precise(), 2000u);
}

}  // namespace kv
