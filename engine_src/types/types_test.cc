#include <gtest/gtest.h>

#include <thread>
#include <type_traits>
#include <vector>

#include "types/item.h"

namespace kv {

TEST(Ids, AreDistinctTypesWithOrder) {
    static_assert(!std::is_convertible_v<Seqno, Cas>);
    static_assert(!std::is_convertible_v<uint64_t, Seqno>);
    EXPECT_LT(Seqno{1}, next(Seqno{1}));
    EXPECT_EQ(Vbid{3}.get(), 3);
}

TEST(Blob, JoinsItsTwoParts) {
    const auto blob = Blob::create("abc", "def");
    EXPECT_EQ(blob.view(), "abcdef");
    EXPECT_EQ(Blob::create("").view(), "");
    EXPECT_EQ(BlobPtr{}.view(), "");
}

TEST(Blob, IsSharedAndFreedOnceFromManyThreads) {
    auto blob = Blob::create("value");
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([copy = blob] {
            for (int i = 0; i < 10000; ++i) {
                // Copied for the count's sake.
                // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
                const BlobPtr mine = copy;
                ASSERT_EQ(mine.view(), "value");
            }
        });
    }
    blob = {};
    for (auto& thread : threads) {
        thread.join();
    }
}

TEST(Item, CarriesKeyMetaAndSharedValue) {
    const auto value = Blob::create("v");
    const ItemMeta meta{.cas = Cas{9},
                        .seqno = Seqno{7},
                        .revSeqno = 5,
                        .flags = 3,
                        .exptime = 2,
                        .datatype = 1};
    const auto item = Item::create(Vbid{4}, ItemOp::Mutation, "key", meta, value);
    EXPECT_EQ(item->key(), "key");
    EXPECT_EQ(item->value(), "v");
    EXPECT_EQ(item->blob().get(), value.get());
    EXPECT_EQ(item->cas(), Cas{9});
    EXPECT_EQ(item->seqno(), Seqno{7});
    EXPECT_EQ(item->revSeqno(), 5u);
    EXPECT_EQ(item->flags(), 3u);
    EXPECT_EQ(item->exptime(), 2u);
    EXPECT_EQ(item->datatype(), 1);
    EXPECT_EQ(item->vbid(), Vbid{4});
    EXPECT_FALSE(item->isMeta());
    EXPECT_FALSE(item->isDeletion());
}

TEST(Item, ClassifiesOperations) {
    EXPECT_TRUE(isMeta(ItemOp::CheckpointStart));
    EXPECT_TRUE(isMeta(ItemOp::SetVbState));
    EXPECT_TRUE(isDeletion(ItemOp::Expiration));
    EXPECT_FALSE(isDeletion(ItemOp::Mutation));
}

}  // namespace kv
