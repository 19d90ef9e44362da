#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "types/endian.h"
#include "types/item.h"
#include "types/json_depth.h"
#include "types/key_hash.h"
#include "types/parse_number.h"
#include "types/string_hash.h"

namespace kv {

TEST(Ids, AreDistinctTypesWithOrder) {
    static_assert(!std::is_convertible_v<Seqno, Cas>);
    static_assert(!std::is_convertible_v<uint64_t, Seqno>);
    EXPECT_LT(Seqno{1}, next(Seqno{1}));
    EXPECT_EQ(Vbid{3}.get(), 3);
}

TEST(JsonDepth, CountsNestedListsAndObjectsButNotTheTextOfStrings) {
    EXPECT_TRUE(isShallowJson("[{}]", 2));
    EXPECT_FALSE(isShallowJson("[{}]", 1));
    EXPECT_TRUE(isShallowJson("[[],[],{}]", 2)) << "neighbours";
    EXPECT_TRUE(isShallowJson(R"(["[{\"[{"])", 1));
    EXPECT_FALSE(isShallowJson(R"(["\\",[]])", 1));
    EXPECT_TRUE(isShallowJson(R"(["\)", 1)) << "cut off";
}

TEST(ParseNumber, TakesWholeTextsInTheRange) {
    EXPECT_EQ(parseNumber<uint16_t>("65535"), 65535);
    EXPECT_EQ(parseNumber<int>("-3"), -3);
    EXPECT_EQ(parseNumber("2.5", 1.0, 100.0), 2.5);
    for (const std::string_view bad : {"", "65536", "-1", "+1", " 1", "1 ", "1x", "x"}) {
        EXPECT_FALSE(parseNumber<uint16_t>(bad)) << bad;
    }
    EXPECT_FALSE(parseNumber<uint16_t>("0", 1));
    EXPECT_FALSE(parseNumber<uint16_t>("9", 1, 8));
    EXPECT_FALSE(parseNumber("nan", 1.0, 100.0));
}

TEST(StringHash, LooksStringsUpByViews) {
    const std::unordered_map<std::string, int, StringHash, std::equal_to<>> map{{"key", 1}};
    EXPECT_EQ(map.find(std::string_view("a key").substr(2)), map.begin());
    EXPECT_EQ(map.find(std::string_view("a key")), map.end());
}

TEST(StringHash, HasANewSeedInEachProcess) {
    for (const char* const key : {"", "key", "a key that is longer than sixteen bytes"}) {
        EXPECT_EQ(StringHash{}(key), hashKey(key));
        EXPECT_NE(StringHash{}(key), hashKey(key, HashSeed{})) << "one in 2^64 is the same";
    }
}

TEST(Endian, IsTheSameAtCompileTimeAndAtRunTimeForBytesAndChars) {
    constexpr std::array<uint8_t, 4> kBytes{0x81, 2, 3, 4};
    static_assert(loadBig<uint32_t>(kBytes.data()) == 0x81020304);
    static_assert(loadLittle<uint32_t>(kBytes.data()) == 0x04030281);
    std::array<char, 4> chars{};
    std::memcpy(chars.data(), kBytes.data(), kBytes.size());
    EXPECT_EQ(loadBig<uint32_t>(chars.data()), 0x81020304U);
    EXPECT_EQ(loadLittle<uint16_t>(chars.data()), 0x0281);
    EXPECT_EQ(loadLittle<uint8_t>(chars.data()), 0x81);
    std::array<char, 4> stored{};
    storeLittle<uint32_t>(stored.data(), 0x04030281);
    EXPECT_EQ(stored, chars);
    storeBig<uint32_t>(stored.data(), 0x81020304);
    EXPECT_EQ(stored, chars);
}

class Counted {
  public:
    explicit Counted(int& freed) : freed_(freed) {}
    void retain() { refs_.retain(); }
    void release() {
        if (refs_.release()) {
            ++freed_;
            delete this;
        }
    }

  private:
    RefCount refs_;
    int& freed_;
};

TEST(IntrusivePtr, FreesWithTheLastReferenceAndNoEarlier) {
    int freed = 0;
    IntrusivePtr<Counted> first(new Counted(freed));
    IntrusivePtr<Counted> second = first;
    EXPECT_EQ(first.get(), second.get());
    IntrusivePtr<Counted> moved = std::move(first);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that is what is promised
    EXPECT_EQ(moved.get(), second.get());
    moved = IntrusivePtr<Counted>(new Counted(freed));
    EXPECT_EQ(freed, 0);
    const auto& self = second;
    second = self;
    EXPECT_EQ(freed, 0);
    second = moved;
    EXPECT_EQ(freed, 1);
    second = {};
    moved = {};
    EXPECT_EQ(freed, 2);
    static_assert(sizeof(IntrusivePtr<Counted>) == sizeof(void*));
    static_assert(std::is_nothrow_move_constructible_v<BlobPtr>);
    static_assert(std::is_nothrow_move_assignable_v<BlobPtr>);
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
                // Copied because the test is about the count.
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
    EXPECT_FALSE(item->isDeletion());
}

TEST(Item, ClassifiesOperations) {
    EXPECT_TRUE(isDeletion(ItemOp::Expiration));
    EXPECT_FALSE(isDeletion(ItemOp::Mutation));
}

}  // namespace kv
