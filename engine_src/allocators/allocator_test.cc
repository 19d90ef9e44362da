#include "allocators/allocator.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace kv::allocator {

TEST(Allocator, TestsRunOnTheSystemAllocator) {
    EXPECT_EQ(name(), "system");
    EXPECT_TRUE(version().starts_with("glibc 2."));
    EXPECT_EQ(confEnv(), "");
    EXPECT_TRUE(options().empty()) << "glibc cannot read its tunables back";
}

#ifndef KV_SANITIZED  // the sanitizers' malloc counts nothing for mallinfo2
TEST(Allocator, CountsTheProgramsAllocations) {
    const auto before = stats();
    ASSERT_TRUE(before.allocated && before.mapped);
    std::vector<std::unique_ptr<char[]>> held;
    held.reserve(1000);
    for (int i = 0; i < 1000; ++i) {
        held.push_back(std::make_unique<char[]>(10'000));
    }
    const auto after = stats();
    EXPECT_GE(*after.allocated, *before.allocated + 10'000'000);
    EXPECT_GE(*after.mapped, *after.allocated);
}
#endif

TEST(Allocator, OmitsUnknownFigures) {
    EXPECT_FALSE(stats().metadataThp);
    EXPECT_FALSE(stats().retained);
}

}  // namespace kv::allocator
