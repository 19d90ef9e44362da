// Linked with the allocator of the build (KV_EXPECTED_ALLOCATOR); see
// tests/integration/engine/test_allocator.py.
#include "allocators/allocator.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "allocators/in_effect.h"
#include "memory/memory_peak.h"

namespace kv::allocator {
namespace {

constexpr std::string_view kExpected = KV_EXPECTED_ALLOCATOR;
constexpr std::string_view kFamily = kExpected.substr(0, kExpected.find('-'));

/// 1000 blocks that are not adjacent to each other's size class.
std::vector<std::unique_ptr<char[]>> thousandBlocks() {
    std::vector<std::unique_ptr<char[]>> held;
    for (int i = 0; i < 1000; ++i) {
        held.push_back(std::make_unique<char[]>(10'000));
    }
    return held;
}

}  // namespace

TEST(Allocator, IsTheOneOfTheBuild) {
    EXPECT_EQ(name(), kExpected);
}

TEST(Allocator, ReportsItsVersion) {
    const std::string reported = version();
    if (kFamily == "system") {
        EXPECT_TRUE(reported.starts_with("glibc 2.")) << reported;
    } else if (kFamily == "tcmalloc") {
        EXPECT_TRUE(reported.starts_with("gperftools ")) << reported;
    } else if (!reported.starts_with("0.0.0")) {  // the crates of jemalloc 4.5.0 and 5.0.1
        EXPECT_TRUE(reported.starts_with(kExpected.substr(kFamily.size() + 1))) << reported;
    }
}

TEST(Allocator, ReadsItsOptionsBack) {
    if (kFamily == "system" || kFamily == "snmalloc") {
        EXPECT_EQ(confEnv(), "");
        EXPECT_TRUE(options().empty());
    } else {
        EXPECT_NE(confEnv(), "");
        EXPECT_FALSE(options().empty());
        EXPECT_EQ(options(), options()) << "reading changes nothing";
    }
}

TEST(Allocator, ReleasesTheBlocksOfItsCheck) {
    kv::MemoryPeak heap;
    const auto before = heap.current();
    EXPECT_EQ(name(), kExpected);
    EXPECT_EQ(heap.current(), before);
}

TEST(Allocator, AnAllocationOfAnotherAllocatorIsNamed) {
    const auto other = nameInEffect("this", [](const Way& way) { return way.allocate == nullptr; });
    EXPECT_TRUE(other.starts_with("malloc of ")) << other;
    EXPECT_TRUE(other.ends_with("(malloc does not allocate with this)")) << other;
}

#ifndef KV_SANITIZED  // the sanitizers' malloc counts nothing for mallinfo2
TEST(Allocator, CountsTheProgramsAllocations) {
    const auto before = stats();
    ASSERT_TRUE(before.mapped);
    const auto held = thousandBlocks();
    const auto after = stats();
    EXPECT_GE(*after.mapped, 10'000'000u);
    if (before.allocated && after.allocated) {
        EXPECT_GE(*after.allocated, *before.allocated + 10'000'000);
        EXPECT_GE(*after.mapped, *after.allocated);
    }
}
#endif

TEST(Allocator, OmitsUnknownFigures) {
    const auto figures = stats();
    if (kFamily != "jemalloc") {
        EXPECT_FALSE(figures.metadataThp);
        EXPECT_FALSE(figures.active);
    }
    if (kFamily == "mimalloc" || kFamily == "snmalloc") {
        EXPECT_FALSE(figures.allocated);
        EXPECT_FALSE(figures.resident);
    }
}

TEST(Allocator, AlignsAndReportsUsableSizes) {
    for (const std::size_t alignment : {8u, 64u, 4096u, 1u << 16}) {
        for (const std::size_t size : {1u, 100u, 5'000u, 3'000'000u}) {
            void* block = nullptr;
            ASSERT_EQ(posix_memalign(&block, alignment, size), 0);
            EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u);
            EXPECT_GE(malloc_usable_size(block), size);
            void* bigger = std::realloc(block, 2 * size);
            EXPECT_GE(malloc_usable_size(bigger), 2 * size);
            std::free(bigger != nullptr ? bigger : block);
        }
    }
    EXPECT_EQ(malloc_usable_size(nullptr), 0u);
}

TEST(Allocator, FreesBlocksOfEndedThreads) {
    std::vector<std::unique_ptr<char[]>> held;
    std::thread([&held] { held = thousandBlocks(); }).join();
    held.clear();
    purge();
    EXPECT_EQ(name(), kExpected);
}

}  // namespace kv::allocator
