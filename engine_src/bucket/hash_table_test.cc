#include "bucket/hash_table.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "bucket/hash_index.h"

namespace kv {

namespace {

/// Two caches of two CPUs each, which is more stripes than this machine may have.
const options::Topology& twoCaches() {
    static const options::Topology kTopology({0, 0, 1, 1});
    return kTopology;
}

ItemPtr makeItem(std::string_view key, std::string_view value, uint8_t datatype = 0,
                 uint32_t exptime = 0) {
    return Item::create(Vbid{0}, ItemOp::Mutation, key,
                        {.cas = Cas{1}, .exptime = exptime, .datatype = datatype},
                        Blob::create(value));
}

template <class Table>
HashTableSums recount(Table& table) {
    HashTableCounters counters;
    table.visit({}, [&](const HashIndex::Guard&, const StoredValue& value) {
        counters.apply(StoredValueFacts(), StoredValueFacts(&value));
        return true;
    });
    HashTableSums sums;
    counters.addTo(sums);
    return sums;
}

/// One random change of one of `keys` keys.
template <class Table>
void randomStep(Table& table, std::mt19937& random, int keys) {
    const std::string key = "key-" + std::to_string(random() % static_cast<unsigned>(keys));
    const auto datatype = static_cast<uint8_t>(random() % 8);
    const auto guard = table.lock(key);
    StoredValue* value = table.find(guard, key);
    const std::string body(random() % 40, 'x');
    const uint32_t exptime = random() % 3 == 0 ? 1000 : 0;
    switch (random() % 5) {
        case 0:
            if (value != nullptr) {
                table.update(guard, *value,
                             [](StoredValue& sv) { sv.setDeleted({.cas = Cas{3}}, false); });
            }
            break;
        case 1:
            if (value != nullptr) {
                const StoredValuePtr gone = table.remove(guard, *value);
            }
            break;
        case 2:
            if (value != nullptr) {
                value->setDirty(false);
                table.update(guard, *value, [](StoredValue& sv) { sv.evictValue(); });
            }
            break;
        default: {
            const ItemMeta meta{.cas = Cas{2}, .exptime = exptime, .datatype = datatype};
            if (value != nullptr) {
                table.update(guard, *value,
                             [&](StoredValue& sv) { sv.setDocument(meta, Blob::create(body)); });
            } else {
                StoredValuePtr fresh = table.make(key);
                fresh->setDocument(meta, Blob::create(body));
                table.insert(guard, std::move(fresh));
            }
        }
    }
}

template <class Policy>
class HashTablePolicies : public testing::Test {};

using AllPolicies =
        testing::Types<options::SingleHtStats<false>, options::SingleHtStats<true>,
                       options::LlcHtStats<false>, options::LlcHtStats<true>,
                       options::CoreHtStats<false>, options::CoreHtStats<true>,
                       options::FixedHtStats<3, false>, options::FixedHtStats<16, true>>;

}  // namespace

TYPED_TEST_SUITE(HashTablePolicies, AllPolicies);

TYPED_TEST(HashTablePolicies, SumsEqualARecountAfterRandomSteps) {
    for (unsigned seed = 0; seed < 20; ++seed) {
        BasicHashTable<TypeParam> table({.size = 7, .locks = 5}, twoCaches());
        std::mt19937 random(seed);
        for (int i = 0; i < 500; ++i) {
            randomStep(table, random, 60);
            if (i % 97 == 0) {
                table.resizeIfNeeded();
            }
        }
        ASSERT_EQ(table.sums(), recount(table)) << "seed " << seed;
        ASSERT_GT(table.entries(), 0u);
        table.clear();
        ASSERT_EQ(table.sums(), HashTableSums());
    }
}

TYPED_TEST(HashTablePolicies, SumsEqualARecountAfterConcurrentStepsAndResizes) {
    BasicHashTable<TypeParam> table({.size = 3, .locks = 5}, twoCaches());
    std::atomic<bool> stop{false};
    std::vector<std::thread> writers;
    for (unsigned t = 0; t < 3; ++t) {
        writers.emplace_back([&table, t] {
            std::mt19937 random(t);
            for (int i = 0; i < 3000; ++i) {
                randomStep(table, random, 300);
            }
        });
    }
    std::thread resizer([&] {
        std::mt19937 random(99);
        while (!stop) {
            table.resize(kPrimeSizes[random() % 8]);
            (void)table.sums();
            std::this_thread::yield();
        }
    });
    for (auto& writer : writers) {
        writer.join();
    }
    stop = true;
    resizer.join();
    EXPECT_EQ(table.sums(), recount(table));
}

TYPED_TEST(HashTablePolicies, AStripeMayBeNegativeTheSumIsNot) {
    BasicHashTable<TypeParam> table({}, twoCaches());
    table.set(*makeItem("k", "v"));
    std::thread([&] {
        const auto guard = table.lock("k");
        const StoredValuePtr gone = table.remove(guard, *table.find(guard, "k"));
    }).join();
    EXPECT_EQ(table.sums(), HashTableSums());
}

TEST(HashTable, SetReportsWhetherTheKeyWasDirty) {
    HashTable table({});
    EXPECT_EQ(table.set(*makeItem("k", "1")), SetStatus::WasClean);
    EXPECT_EQ(table.set(*makeItem("k", "22")), SetStatus::WasDirty);
    const auto guard = table.lock("k");
    table.find(guard, "k")->setDirty(false);
    EXPECT_EQ(table.find(guard, "k")->value().view(), "22");
    EXPECT_EQ(table.find(guard, "x"), nullptr);
}

TEST(HashTable, ChainsOfOneBucketKeepEveryKeyApart) {
    HashTable table({.size = 1, .locks = 1});
    for (int i = 0; i < 200; ++i) {
        table.set(*makeItem("key" + std::to_string(i), std::to_string(i)));
    }
    for (int i = 0; i < 200; i += 2) {
        const std::string key = "key" + std::to_string(i);
        const auto guard = table.lock(key);
        const StoredValuePtr gone = table.remove(guard, *table.find(guard, key));
        EXPECT_EQ(gone->key(), key);
    }
    for (int i = 0; i < 200; ++i) {
        const std::string key = "key" + std::to_string(i);
        const auto guard = table.lock(key);
        const StoredValue* found = table.find(guard, key);
        ASSERT_EQ(found != nullptr, i % 2 == 1) << key;
        if (found != nullptr) {
            EXPECT_EQ(found->value().view(), std::to_string(i));
        }
    }
}

TEST(HashTable, StatisticsAreThePolicysSize) {
    const BasicHashTable<options::LlcHtStats<false>> llc({}, twoCaches());
    EXPECT_EQ(llc.statsStripes(), 2u);
    EXPECT_EQ(llc.statsBytes(), 2 * sizeof(HashTableCounters));
    const BasicHashTable<options::CoreHtStats<true>> core({}, twoCaches());
    EXPECT_EQ(core.statsBytes(), 4 * 128u);
}

/// Striping cannot make a Replace faster: counters on a write-protected page prove it.
TEST(HashTable, AReplaceByAnEqualSizeWritesNoCounter) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    void* memory =
            ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto* counters = new (memory) HashTableCounters;
    const auto value = StoredValue::create("key", Ordered::No);
    value->setDocument(ItemMeta{}, Blob::create("x"));
    const StoredValueFacts before(value.get());
    counters->apply(StoredValueFacts(), before);
    ASSERT_EQ(::mprotect(memory, page, PROT_READ), 0);
    value->setDocument(ItemMeta{.cas = Cas{2}}, Blob::create("y"));
    counters->apply(before, StoredValueFacts(value.get()));
    HashTableSums sums;
    counters->addTo(sums);
    EXPECT_EQ(sums.items, 1);
    ::munmap(memory, page);
}

TEST(HashTable, SizesArePrimesThatAboutDouble) {
    for (size_t i = 0; i < kPrimeSizes.size(); ++i) {
        for (uint32_t divisor = 2; uint64_t{divisor} * divisor <= kPrimeSizes[i]; ++divisor) {
            ASSERT_NE(kPrimeSizes[i] % divisor, 0u) << kPrimeSizes[i];
        }
        if (i > 0) {
            const double ratio = static_cast<double>(kPrimeSizes[i]) / kPrimeSizes[i - 1];
            EXPECT_TRUE(ratio > 1.7 && ratio < 2.4) << kPrimeSizes[i];
        }
    }
}

TEST(HashTable, ResizesWithHysteresisAndNeverBelowTheInitialSize) {
    HashTable table({.size = 47, .locks = 3});
    EXPECT_EQ(table.preferredSize(0), 47u);
    EXPECT_EQ(table.preferredSize(90), 47u);  // 47 is one of the two primes around 90
    EXPECT_EQ(table.preferredSize(98), 97u);
    EXPECT_EQ(table.preferredSize(190), 193u);
    table.resize(193);
    EXPECT_EQ(table.preferredSize(100), 193u);
    EXPECT_EQ(table.preferredSize(96), 97u);
    EXPECT_EQ(table.preferredSize(20), 47u);
}

TEST(HashTable, APausedVisitMissesNothingAcrossResizes) {
    std::mt19937 random(5);
    for (int round = 0; round < 30; ++round) {
        HashTable table({.size = 13, .locks = 5});
        for (int i = 0; i < 400; ++i) {
            table.set(*makeItem("k" + std::to_string(i), "v"));
        }
        std::set<std::string> seen;
        HashIndex::Position at;
        while (!at.atEnd()) {
            auto left = 1 + random() % 50;
            at = table.visit(at, [&](const HashIndex::Guard&, const StoredValue& value) {
                seen.emplace(value.key());
                return left > 0 && --left > 0;
            });
            table.resize(kPrimeSizes[1 + random() % 8]);
        }
        ASSERT_EQ(seen.size(), 400u);
    }
}

TEST(HashTable, AVisitorMayUnlinkItsDocument) {
    HashTable table({.size = 3, .locks = 2});
    for (int i = 0; i < 100; ++i) {
        table.set(*makeItem("k" + std::to_string(i), "v"));
    }
    table.visit({}, [&](const HashIndex::Guard& guard, StoredValue& value) {
        const StoredValuePtr gone = table.remove(guard, value);
        return true;
    });
    EXPECT_EQ(table.sums(), HashTableSums());
}

TEST(HashTable, CompressedValuesCountTheirSavings) {
    EXPECT_EQ(snappySavedBytes(std::string_view("\x80\x01xyz", 5)), 128 - 5);
    EXPECT_EQ(snappySavedBytes(std::string_view("\xff\xff\xff\xff\xff", 5)), 0);
    HashTable table({});
    table.set(*makeItem("k", std::string_view("\x80\x01xyz", 5), 2));
    EXPECT_EQ(table.sums().savedBytes, 123);
    EXPECT_EQ(table.sums().datatypes[2], 1);
}

TEST(KeyHash, SpreadsSimilarKeysOverBucketsAndTags) {
    std::map<uint64_t, int> buckets;
    std::set<uint16_t> tags;
    constexpr int kKeys = 20000;
    for (int i = 0; i < kKeys; ++i) {
        const uint64_t hash = hashKey("AB_" + std::to_string(100000000000 + i) + "_0", HashSeed{});
        ++buckets[((hash >> 32) * 97) >> 32];
        tags.insert(static_cast<uint16_t>(hash));
    }
    ASSERT_EQ(buckets.size(), 97u);
    double chiSquare = 0;
    for (const auto& [bucket, count] : buckets) {
        const double expected = kKeys / 97.0;
        chiSquare += (count - expected) * (count - expected) / expected;
    }
    EXPECT_LT(chiSquare, 150);       // 96 degrees of freedom: beyond 150 once in 2000 cases
    EXPECT_GT(tags.size(), 16000u);  // 65536 * (1 - e^(-20000/65536)) = 17 235 expected
}

TEST(KeyHash, NobodyOutsideCanCrowdABucket) {
    // The first word of XXH3's own secret: the product of key and secret is 0, so the second word
    // does not count.
    const HashSeed known;
    std::string key("\xb8\xfe\x6c\x39\x23\xa4\x4b\xbe", 8);
    key += "........rest of the key";
    std::set<uint64_t> guessed;
    std::set<uint64_t> real;
    for (int i = 0; i < 1000; ++i) {
        key.replace(8, 4, std::to_string(1000 + i));
        guessed.insert(hashKey(key, known));
        real.insert(hashKey(key));
    }
    EXPECT_EQ(guessed.size(), 1U) << "that is how it is done";
    EXPECT_EQ(real.size(), 1000U) << "this process's seed is not known";
}

TEST(KeyHash, EveryByteAndTheLengthMatter) {
    for (size_t length = 1; length <= 40; ++length) {
        const std::string key(length, 'a');
        std::set<uint64_t> hashes{hashKey(key), hashKey(key + 'a')};
        for (size_t i = 0; i < length; ++i) {
            std::string changed = key;
            changed[i] = 'b';
            hashes.insert(hashKey(changed));
        }
        EXPECT_EQ(hashes.size(), length + 2) << length;
    }
}

TEST(StoredValue, OrderedOnesCarryTheirLinksInFront) {
    const StoredValuePtr plain = StoredValue::create("key", Ordered::No);
    const StoredValuePtr ordered = StoredValue::create("key", Ordered::Yes);
    EXPECT_EQ(plain->metaBytes(), 43u);
    EXPECT_EQ(ordered->metaBytes(), 59u);
    EXPECT_EQ(ordered->key(), "key");
    EXPECT_EQ(ordered->links().previous, nullptr);
    ordered->links().next = plain.get();
    EXPECT_EQ(ordered->key(), "key");
}

TEST(StoredValue, AnInjectedFaultMakesBlocksLonger) {
    using Fault = options::SixteenBytesMore;
    for (const auto ordered : {Ordered::No, Ordered::Yes}) {
        const auto plain = StoredValue::create<options::NoItemFault>("key", ordered);
        const auto longer = StoredValue::create<Fault>("key", ordered);
        EXPECT_EQ(longer->key(), "key");
        EXPECT_EQ(longer->metaBytes<Fault>(), plain->metaBytes<options::NoItemFault>() + 16);
        void* block = ordered == Ordered::Yes ? static_cast<void*>(&longer->links()) : longer.get();
        EXPECT_GE(::malloc_usable_size(block), longer->metaBytes<Fault>());
    }
}

TEST(StoredValue, KeepsAllFieldsAtTheirLimits) {
    const StoredValuePtr value = StoredValue::create(std::string(255, 'k'), Ordered::No);
    constexpr uint64_t kMax48 = (uint64_t{1} << 48) - 1;
    const ItemMeta meta{.cas = Cas{UINT64_MAX},
                        .seqno = Seqno{kMax48},
                        .revSeqno = kMax48,
                        .flags = UINT32_MAX,
                        .exptime = UINT32_MAX,
                        .datatype = 7};
    value->setDocument(meta, Blob::create("v"));
    EXPECT_EQ(value->key().size(), 255u);
    EXPECT_EQ(value->cas(), meta.cas);
    EXPECT_EQ(value->seqno(), meta.seqno);
    EXPECT_EQ(value->revSeqno(), kMax48);
    EXPECT_EQ(value->flags(), UINT32_MAX);
    EXPECT_EQ(value->exptime(), UINT32_MAX);
    EXPECT_EQ(value->datatype(), 7);
    EXPECT_EQ(value->op(), ItemOp::Mutation);
    value->setDirty(true);
    EXPECT_FALSE(value->evictValue());
    value->setDirty(false);
    EXPECT_TRUE(value->evictValue());
    EXPECT_FALSE(value->isResident());
    value->setDeleted(meta, true);
    EXPECT_EQ(value->op(), ItemOp::Expiration);
    EXPECT_FALSE(value->evictValue());
}

}  // namespace kv
