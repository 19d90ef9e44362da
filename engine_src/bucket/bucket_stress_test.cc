// Many threads on the same keys, verified by TSan and by the sums.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "bucket/test_support.h"

namespace kv::test {

class BucketStress : public testing::TestWithParam<BucketType> {
  public:
    std::unique_ptr<Bucket> bucket =
            makeBucket(GetParam(), {.vbuckets = 2, .htSize = 3, .htLocks = 3});
};

INSTANTIATE_TEST_SUITE_P(BothTypes, BucketStress,
                         testing::Values(BucketType::Persistent, BucketType::Ephemeral),
                         [](const auto& type) { return std::string(toString(type.param)); });

TEST_P(BucketStress, CasLoopsLoseNoIncrement) {
    constexpr int kThreads = 4;
    constexpr int kRounds = 500;
    bucket->store(Vbid{0}, "counter", StoreMode::Set, "0", {}, OpTime::now());
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&] {
            const BucketMemoryGuard guard(bucket->memory());
            for (int i = 0; i < kRounds; ++i) {
                while (true) {
                    const OpTime now = OpTime::now();
                    const OpResult read = bucket->get(Vbid{0}, "counter", now);
                    const std::string changed =
                            std::to_string(std::stoi(std::string(read.value.view())) + 1);
                    if (bucket->store(Vbid{0}, "counter", StoreMode::Set, changed,
                                      {.cas = read.cas}, now)
                                .ok()) {
                        break;
                    }
                }
            }
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
    const BucketMemoryGuard guard(bucket->memory());
    EXPECT_EQ(bucket->get(Vbid{0}, "counter", OpTime::now()).value.view(),
              std::to_string(kThreads * kRounds));
}

TEST_P(BucketStress, OnlyOneAddOfEachKeyWins) {
    constexpr int kKeys = 300;
    std::atomic<int> won{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < kKeys; ++i) {
                won += bucket->store(Vbid{1}, std::to_string(i), StoreMode::Add, "v", {},
                                     OpTime::now())
                                       .ok()
                               ? 1
                               : 0;
            }
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(won, kKeys);
    EXPECT_EQ(bucket->stats().items, static_cast<size_t>(kKeys));
}

TEST_P(BucketStress, EverythingAtOnceLeavesExactSums) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 3; ++t) {
        threads.emplace_back([&, t] {
            const BucketMemoryGuard guard(bucket->memory());
            std::mt19937 random(t);
            for (int i = 0; i < 4000; ++i) {
                const OpTime now = OpTime::now();
                const Vbid vbid{static_cast<uint16_t>(random() % 2)};
                const std::string key = "k" + std::to_string(random() % 200);
                switch (random() % 9) {
                    case 0:
                        (void)bucket->remove(vbid, key, {}, now);
                        break;
                    case 1:
                        (void)bucket->get(vbid, key, now);
                        break;
                    case 2:
                        (void)bucket->concat(vbid, key, Concat::Append, "xx", {}, now);
                        break;
                    case 3:
                        (void)bucket->touch(vbid, key,
                                            now.seconds + static_cast<uint32_t>(random() % 2), now);
                        break;
                    case 4:
                        (void)bucket->arithmetic(vbid, "n", {.createIfMissing = true}, now);
                        break;
                    case 5: {
                        const OpResult held = bucket->getAndLock(vbid, key, 1, now);
                        if (held.ok()) {
                            (void)bucket->unlock(vbid, key, held.cas, now);
                        }
                        break;
                    }
                    default:
                        (void)bucket->store(vbid, key, StoreMode::Set,
                                            std::string(random() % 300, 'x'), {}, now);
                }
            }
        });
    }
    std::thread background([&] {
        const BucketMemoryGuard guard(bucket->memory());
        while (!stop) {
            const OpTime now = OpTime::now();
            bucket->resizeHashTables();
            bucket->expirePass(now);
            bucket->purgeTombstones(OpTime::fromNanos(now.nanos + 3'600'000'000'000));
            bucket->removeClosedCheckpoints(now);
            (void)bucket->stats();
            for (uint16_t i = 0; i < 2; ++i) {
                if (auto* unflushed = dynamic_cast<UnflushedBucket*>(bucket.get())) {
                    unflushed->flush(Vbid{i});
                } else {
                    SequenceReader reader(*bucket->vbucket(Vbid{i}).sequence(), Vbid{i}, Seqno{0});
                    std::vector<ItemPtr> items;
                    Seqno last;
                    while (reader.read(items, 16)) {
                    }
                    std::set<std::string_view> keys;
                    for (const ItemPtr& item : items) {
                        ASSERT_GT(item->seqno(), last);
                        last = item->seqno();
                        ASSERT_TRUE(keys.insert(item->key()).second);
                    }
                }
            }
            std::this_thread::yield();
        }
    });
    for (auto& thread : threads) {
        thread.join();
    }
    stop = true;
    background.join();
    HashTableSums expected;
    HashTableSums sums;
    for (uint16_t i = 0; i < 2; ++i) {
        HashTable& table = bucket->vbucket(Vbid{i}).hashTable();
        HashTableCounters counters;
        table.visit({}, [&](const HashIndex::Guard&, const StoredValue& value) {
            counters.apply(StoredValueFacts(), StoredValueFacts(&value));
            return true;
        });
        counters.addTo(expected);
        const HashTableSums now = table.sums();
        EXPECT_EQ(now.items + now.tombstones, static_cast<int64_t>(table.entries()));
        sums.items += now.items;
        sums.valueBytes += now.valueBytes;
    }
    EXPECT_EQ(sums.items, expected.items);
    EXPECT_EQ(sums.valueBytes, expected.valueBytes);
}

TEST_P(BucketStress, NoSeqnoIsAssignedAfterTheVBucketStoppedBeingActive) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> writers;
    for (unsigned t = 0; t < 2; ++t) {
        writers.emplace_back([&, t] {
            const BucketMemoryGuard guard(bucket->memory());
            std::mt19937 random(t);
            while (!stop) {
                (void)bucket->store(Vbid{0}, "k" + std::to_string(random() % 50), StoreMode::Set,
                                    "v", {}, OpTime::now());
            }
        });
    }
    for (int i = 0; i < 200; ++i) {
        bucket->setVBucketState(Vbid{0}, VbState::Dead, OpTime::now());
        const Seqno at = bucket->vbucket(Vbid{0}).highSeqno();
        std::this_thread::yield();
        EXPECT_EQ(bucket->vbucket(Vbid{0}).highSeqno(), at);
        bucket->setVBucketState(Vbid{0}, VbState::Active, OpTime::now());
    }
    stop = true;
    for (auto& writer : writers) {
        writer.join();
    }
}

TEST_P(BucketStress, ListenersHearOfAPromotionBeforeTheFirstSeqnoOfItsHistory) {
    struct Recorder final : SeqnoListener {
        explicit Recorder(const VBucket& promoted) : vbucket(promoted) {}
        void onSeqno(Vbid, Seqno) noexcept override {}
        void onStateChanged(Vbid) noexcept override {
            if (vbucket.state() == VbState::Active) {
                for (int i = 0; i < 20; ++i) {
                    std::this_thread::yield();
                }
                atPromotion.push_back(vbucket.highSeqno());
            }
        }
        const VBucket& vbucket;
        std::vector<Seqno> atPromotion;
    };
    Recorder recorder(bucket->vbucket(Vbid{0}));
    bucket->listeners().add(&recorder);
    std::atomic<bool> stop{false};
    std::thread writer([&] {
        const BucketMemoryGuard guard(bucket->memory());
        while (!stop) {
            (void)bucket->store(Vbid{0}, "k", StoreMode::Set, "v", {}, OpTime::now());
        }
    });
    std::vector<Seqno> high;
    for (int i = 0; i < 200; ++i) {
        bucket->setVBucketState(Vbid{0}, VbState::Replica, OpTime::now());
        high.push_back(bucket->vbucket(Vbid{0}).highSeqno());
        bucket->setVBucketState(Vbid{0}, VbState::Active, OpTime::now());
        while (bucket->vbucket(Vbid{0}).highSeqno() == high.back()) {
            std::this_thread::yield();
        }
    }
    stop = true;
    writer.join();
    bucket->listeners().remove(&recorder);
    EXPECT_EQ(recorder.atPromotion, high);
}

TEST_P(BucketStress, ListenersMayComeAndGoUnderLoad) {
    struct Counter final : SeqnoListener {
        std::atomic<uint64_t> calls{0};
        void onSeqno(Vbid, Seqno) noexcept override { ++calls; }
    };
    std::atomic<bool> stop{false};
    std::thread writer([&] {
        while (!stop) {
            (void)bucket->store(Vbid{0}, "k", StoreMode::Set, "v", {}, OpTime::now());
        }
    });
    for (int i = 0; i < 50; ++i) {
        Counter counter;
        bucket->listeners().add(&counter);
        while (counter.calls == 0) {
            std::this_thread::yield();
        }
        bucket->listeners().remove(&counter);
    }
    stop = true;
    writer.join();
}

}  // namespace kv::test
