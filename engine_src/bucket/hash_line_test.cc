#include "bucket/hash_line.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bucket/stored_value.h"

namespace kv {

namespace {

/// Returns documents of one line, in the order of their keys "0", "1", ...
std::vector<StoredValuePtr> makeValues(size_t count) {
    std::vector<StoredValuePtr> values;
    for (size_t i = 0; i < count; ++i) {
        values.push_back(StoredValue::create(std::to_string(i), Ordered::No));
    }
    return values;
}

StoredValue* findKey(const HashLine& line, uint16_t tag, const std::string& key) {
    return line.find(tag, [&](const StoredValue& value) { return value.key() == key; });
}

std::vector<std::string> keysOf(const HashLine& line) {
    std::vector<std::string> keys;
    line.forEach([&](TaggedPointer entry) { keys.emplace_back(entry.get()->key()); });
    return keys;
}

}  // namespace

TEST(HashLine, FindsByTagAndThenByKey) {
    const auto values = makeValues(3);
    HashLine line;
    EXPECT_EQ(findKey(line, 0, "0"), nullptr);  // an empty entry has tag 0 as well
    line.add({values[0].get(), 0});
    line.add({values[1].get(), 7});
    line.add({values[2].get(), 7});
    EXPECT_EQ(findKey(line, 0, "0"), values[0].get());
    EXPECT_EQ(findKey(line, 7, "1"), values[1].get());
    EXPECT_EQ(findKey(line, 7, "2"), values[2].get());
    EXPECT_EQ(findKey(line, 7, "0"), nullptr);
    EXPECT_EQ(findKey(line, 8, "1"), nullptr);
}

TEST(HashLine, TouchesNoDocumentOfAnotherTag) {
    const auto values = makeValues(20);
    HashLine line;
    for (uint16_t i = 0; i < 20; ++i) {
        line.add({values[i].get(), i});
    }
    unsigned touched = 0;
    const StoredValue* found = line.find(17, [&](const StoredValue&) {
        ++touched;
        return true;
    });
    EXPECT_EQ(found, values[17].get());
    EXPECT_EQ(touched, 1u);
}

TEST(HashLine, KeepsTagsAndAddressesApartAtTheirLimits) {
    const auto values = makeValues(1);
    const TaggedPointer entry(values[0].get(), UINT16_MAX);
    EXPECT_EQ(entry.get(), values[0].get());
    EXPECT_EQ(entry.tag(), UINT16_MAX);
    EXPECT_TRUE(entry);
    EXPECT_FALSE(TaggedPointer());
}

TEST(HashLine, MatchesASetAfterRandomSteps) {
    constexpr size_t kValues = 40;
    const auto values = makeValues(kValues);
    for (unsigned seed = 0; seed < 50; ++seed) {
        std::mt19937 random(seed);
        HashLine line;
        std::vector<bool> inLine(kValues);
        for (int step = 0; step < 2000; ++step) {
            const size_t i = random() % kValues;
            const auto tag = static_cast<uint16_t>(i % 3);
            // Runs of additions and of removals, so that further lines are added and removed.
            if (inLine[i] && random() % 100 < (step / 200 % 2 == 0 ? 20u : 80u)) {
                line.remove(values[i].get());
                inLine[i] = false;
            } else if (!inLine[i]) {
                line.add({values[i].get(), tag});
                inLine[i] = true;
            }
            ASSERT_EQ(findKey(line, tag, std::to_string(i)), inLine[i] ? values[i].get() : nullptr);
        }
        std::vector<std::string> expected;
        for (size_t i = 0; i < kValues; ++i) {
            if (inLine[i]) {
                expected.push_back(std::to_string(i));
            }
        }
        std::vector<std::string> keys = keysOf(line);
        std::sort(keys.begin(), keys.end());
        std::sort(expected.begin(), expected.end());
        ASSERT_EQ(keys, expected) << "seed " << seed;
    }
}

TEST(HashLine, StaysPacked) {
    constexpr size_t kLine = HashLine::kEntries;
    const auto values = makeValues(3 * kLine);
    HashLine line;
    for (const auto& value : values) {
        line.add({value.get(), 1});
    }
    // The first ones leave; the last ones take their places, and the further lines are freed.
    for (size_t i = 0; i < 2 * kLine; ++i) {
        line.remove(values[i].get());
    }
    unsigned here = 0;
    for (size_t i = 2 * kLine; i < values.size(); ++i) {
        here += static_cast<unsigned>(findKey(line, 1, std::to_string(i)) == values[i].get());
    }
    EXPECT_EQ(here, HashLine::kEntries);
    EXPECT_FALSE(line.hasMore());
}

TEST(HashLine, ALongChainEndsOnASmallStack) {
    const auto values = makeValues(1);
    auto line = std::make_unique<HashLine>();
    for (int i = 0; i < 5'000; ++i) {
        line->add({values[0].get(), 1});
    }
    pthread_attr_t small;
    ASSERT_EQ(pthread_attr_init(&small), 0);
    ASSERT_EQ(pthread_attr_setstacksize(&small, size_t{128} << 10), 0);
    pthread_t thread{};
    const auto destroy = [](void* owned) -> void* {
        delete static_cast<HashLine*>(owned);
        return nullptr;
    };
    ASSERT_EQ(pthread_create(&thread, &small, destroy, line.release()), 0);
    EXPECT_EQ(pthread_join(thread, nullptr), 0);
    pthread_attr_destroy(&small);
}

}  // namespace kv
