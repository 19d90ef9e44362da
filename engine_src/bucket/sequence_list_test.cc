#include "bucket/sequence_list.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bucket/test_support.h"

namespace kv::test {

class SequenceListTest : public testing::Test {
  public:
    std::unique_ptr<Bucket> bucket = makeBucket(BucketType::Ephemeral, {.vbuckets = 1});
    Client client{*bucket};
    SequenceList& list = *client.vb().sequence();

    /// Returns the rest of a reader's documents as "key=value@seqno ...".
    static std::string readAll(SequenceReader& reader, size_t limit = 2) {
        std::vector<ItemPtr> items;
        while (reader.read(items, limit)) {
        }
        std::string text;
        for (const ItemPtr& item : items) {
            text += std::string(item->key()) +
                    (item->isDeletion() ? "-" : "=" + std::string(item->value())) + '@' +
                    std::to_string(item->seqno().get()) + ' ';
        }
        return text;
    }
};

TEST_F(SequenceListTest, KeepsTheLastVersionOfEachKeyInSeqnoOrder) {
    client.set("a", "1");
    client.set("b", "2");
    client.set("a", "3");
    client.remove("b");
    client.set("c", "5");
    SequenceReader reader(list, Vbid{0}, Seqno{0});
    EXPECT_EQ(readAll(reader), "a=3@3 b-@4 c=5@5 ");
    EXPECT_EQ(reader.last(), Seqno{5});
    SequenceReader later(list, Vbid{0}, Seqno{4});
    EXPECT_EQ(readAll(later), "b-@4 c=5@5 ");
    SequenceReader beyond(list, Vbid{0}, Seqno{6});
    EXPECT_EQ(readAll(beyond), "");
}

TEST_F(SequenceListTest, AReaderSeesTheVersionsOfItsBeginning) {
    client.set("a", "1");
    client.set("b", "2");
    client.set("c", "3");
    {
        SequenceReader reader(list, Vbid{0}, Seqno{0});
        std::vector<ItemPtr> first;
        EXPECT_TRUE(reader.read(first, 1));
        ASSERT_EQ(first.size(), 1u);
        client.set("a", "new");  // behind the reader: nothing to keep
        EXPECT_EQ(list.staleCount(), 0u);
        client.set("b", "new");
        client.remove("c");
        client.set("d", "after");
        EXPECT_EQ(list.staleCount(), 2u);
        EXPECT_EQ(bucket->stats().staleVersions, 2u);
        EXPECT_EQ(client.valueOf("b"), "new");
        EXPECT_EQ(readAll(reader), "b=2@2 c=3@3 ");
    }
    EXPECT_EQ(list.staleCount(), 0u);
    EXPECT_EQ(list.staleBytes(), 0u);
    SequenceReader again(list, Vbid{0}, Seqno{0});
    EXPECT_EQ(readAll(again), "a=new@4 b=new@5 c-@6 d=after@7 ");
}

TEST_F(SequenceListTest, ReadsNoFurtherThanRequested) {
    client.set("a", "1");
    client.set("b", "2");
    client.set("c", "3");
    SequenceReader reader(list, Vbid{0}, Seqno{2}, Seqno{2});
    EXPECT_EQ(reader.last(), Seqno{2});
    client.set("c", "new");  // not covered
    EXPECT_EQ(list.staleCount(), 0u);
    EXPECT_EQ(readAll(reader), "b=2@2 ");
    SequenceReader none(list, Vbid{0}, Seqno{3}, Seqno{3});
    EXPECT_EQ(readAll(none), "");
}

TEST_F(SequenceListTest, ALongWayToTheBeginningIsMadeInPieces) {
    constexpr int kDocuments = 10'000;
    for (int i = 1; i <= kDocuments; ++i) {
        client.set("key" + std::to_string(i), "old");
    }
    SequenceReader reader(list, Vbid{0}, Seqno{kDocuments - 2});
    client.set("key1", "new");  // the reader is there
    client.set("key2", "new");
    EXPECT_EQ(list.staleCount(), 0U) << "they are before its range";
    client.set("key9999", "new");
    EXPECT_EQ(list.staleCount(), 1U);
    std::vector<ItemPtr> items;
    int calls = 0;
    for (; reader.read(items, 64); ++calls) {
        // Whatever the reader has reached is removed under it.
        for (int i = 1; i <= 4100; ++i) {
            client.set("key" + std::to_string(i), "newer");
        }
    }
    EXPECT_GT(calls, 1);
    ASSERT_EQ(items.size(), 3U);
    EXPECT_EQ(items[0]->key(), "key9998");
    EXPECT_EQ(items[1]->key(), "key9999");
    EXPECT_EQ(items[1]->value(), "old");
    EXPECT_EQ(items[2]->key(), "key10000");
    EXPECT_FALSE(reader.isAborted() || reader.isGivenUp());
}

TEST_F(SequenceListTest, OldVersionsTakeNoMoreThanTheBudget) {
    const std::string value(1000, 'v');
    for (int i = 0; i < 100; ++i) {
        client.set("k" + std::to_string(i), value);
    }
    StaleBudget& budget = bucket->staleBudget();
    EXPECT_EQ(budget.most(), bucket->memory().quota() / 20);
    budget.setMost(10'000);
    int calls = 0;
    budget.onSpent([&calls] { ++calls; });
    {
        SequenceReader reader(list, Vbid{0}, Seqno{0});
        for (int round = 0; round < 3; ++round) {
            for (int i = 0; i < 100; ++i) {
                ASSERT_TRUE(client.set("k" + std::to_string(i), value).ok());
            }
        }
        EXPECT_LT(budget.bytes(), 12'000u);
        EXPECT_EQ(budget.bytes(), list.staleBytes());
        EXPECT_EQ(calls, 1);
        EXPECT_TRUE(reader.isGivenUp());
        EXPECT_FALSE(reader.isAborted());
        EXPECT_EQ(readAll(reader), "");
    }
    EXPECT_EQ(budget.bytes(), 0u);
    EXPECT_EQ(list.staleCount(), 0u);
    SequenceReader again(list, Vbid{0}, Seqno{0});
    client.set("k0", value);
    EXPECT_EQ(list.staleCount(), 1u) << "there is room for old versions again";
    EXPECT_FALSE(again.isGivenUp());
    budget.onSpent({});
}

TEST_F(SequenceListTest, ASecondReaderDoesNotGetAKeyTwice) {
    client.set("a", "1");
    client.set("b", "2");
    SequenceReader first(list, Vbid{0}, Seqno{0});
    client.set("a", "3");
    SequenceReader second(list, Vbid{0}, Seqno{0});
    client.set("a", "4");
    EXPECT_EQ(readAll(second), "b=2@2 a=3@3 ");
    EXPECT_EQ(readAll(first), "a=1@1 b=2@2 ");
}

TEST_F(SequenceListTest, TombstonesGoAfterTheirAgeUnlessAReaderNeedsThem) {
    client.set("a", "1");
    client.set("b", "1");
    client.remove("a");
    client.wait(30);
    client.remove("b");
    client.wait(30);
    EXPECT_EQ(bucket->stats().tombstones, 2u);
    {
        SequenceReader reader(list, Vbid{0}, Seqno{0});
        EXPECT_EQ(bucket->purgeTombstones(client.now), 0u);
    }
    EXPECT_EQ(bucket->purgeTombstones(client.now), 1u);
    EXPECT_EQ(client.getMeta("a").status, OpStatus::KeyNotFound);
    EXPECT_EQ(list.size(), 1u);
    client.wait(30);
    EXPECT_EQ(bucket->purgeTombstones(client.now), 1u);
    EXPECT_EQ(bucket->stats().storedValues, 0u);
    client.set("a", "back");
    EXPECT_EQ(client.getMeta("a").number, 3u);  // above the purged tombstone's revision
}

TEST_F(SequenceListTest, ClearAbortsReaders) {
    client.set("a", "1");
    client.set("b", "1");
    SequenceReader reader(list, Vbid{0}, Seqno{0});
    client.set("a", "2");
    client.vb().clear({}, client.now);
    EXPECT_TRUE(reader.isAborted());
    EXPECT_EQ(readAll(reader), "");
    EXPECT_EQ(list.size(), 0u);
    EXPECT_EQ(client.vb().highSeqno(), Seqno{0});
    EXPECT_TRUE(client.set("a", "3").ok());
    EXPECT_EQ(client.vb().highSeqno(), Seqno{1});
}

// Whatever happens while readers are open, each one delivers exactly the table as it was when the
// reader was opened.
TEST_F(SequenceListTest, RandomChangesNeverDisturbOpenReaders) {
    struct Open {
        std::unique_ptr<SequenceReader> reader;
        std::map<std::string, std::string> expected;  // "-" for a tombstone
        std::map<std::string, std::string> got;
        Seqno last{};
    };
    std::mt19937 random(3);
    std::map<std::string, std::string> model;
    std::map<std::string, Seqno> seqnos;
    std::vector<Open> open;
    for (int step = 0; step < 20000; ++step) {
        const std::string key = "k" + std::to_string(random() % 40);
        switch (random() % 8) {
            case 0:
                if (client.remove(key).ok()) {
                    model[key] = "-";
                    seqnos[key] = client.vb().highSeqno();
                }
                break;
            case 1:
                if (open.size() < 4 && random() % 4 == 0) {
                    const Seqno from{random() % (client.vb().highSeqno().get() + 2)};
                    auto expected = model;
                    std::erase_if(expected, [&](const auto& document) {
                        return seqnos.at(document.first) < from;
                    });
                    open.push_back({std::make_unique<SequenceReader>(list, Vbid{0}, from),
                                    std::move(expected),
                                    {},
                                    {}});
                }
                break;
            case 2:
                if (!open.empty()) {
                    Open& chosen = open[random() % open.size()];
                    std::vector<ItemPtr> items;
                    const bool more = chosen.reader->read(items, 1 + random() % 5);
                    for (const ItemPtr& item : items) {
                        ASSERT_GT(item->seqno(), chosen.last);
                        chosen.last = item->seqno();
                        ASSERT_TRUE(chosen.got
                                            .emplace(std::string(item->key()),
                                                     item->isDeletion()
                                                             ? "-"
                                                             : std::string(item->value()))
                                            .second)
                                << item->key() << " twice";
                    }
                    if (!more) {
                        ASSERT_EQ(chosen.got, chosen.expected);
                        std::swap(chosen, open.back());
                        open.pop_back();
                    }
                }
                break;
            default:
                model[key] = std::to_string(step);
                client.set(key, model[key]);
                seqnos[key] = client.vb().highSeqno();
        }
    }
    open.clear();
    EXPECT_EQ(list.staleCount(), 0u);
    EXPECT_EQ(list.size(), model.size());
}

}  // namespace kv::test
