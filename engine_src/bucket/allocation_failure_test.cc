// Makes each allocation of an operation fail once: the operation has then either happened
// completely or not at all, and the vBucket continues to work.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <new>
#include <set>
#include <string>

#include "bucket/test_support.h"
#include "memory/failing_heap.h"

namespace kv::test {
namespace {

/// One hash bucket, so that documents share a line and its further lines; small checkpoints.
BucketConfig smallConfig() {
    BucketConfig config;
    config.vbuckets = 1;
    config.htSize = 1;
    config.htLocks = 1;
    config.checkpoint.maxItems = 8;
    return config;
}

class AllocationFailure : public testing::TestWithParam<BucketType> {
  public:
    using Prepare = std::function<void(AllocationFailure&)>;
    using Operation = std::function<OpResult(Client&)>;

    /// Runs `operation` on a bucket that `prepare` has filled, with its first, second, ...
    /// allocation failing, until none fails any more. After each run, `done` checks the outcome and
    /// the vBucket must continue to work. Returns how many failed.
    int failEach(const Prepare& prepare, const Operation& operation,
                 const std::function<void(Client&)>& done = {}) {
        for (long nth = 0;; ++nth) {
            bucket_ = makeBucket(GetParam(), smallConfig());
            Client client(*bucket_);
            client_ = &client;
            CheckpointManager& log = client.vb().checkpoints();
            const auto cursor = log.cursors().registerCursor("reader", Seqno{0});
            prepare(*this);
            const Seqno before = log.highSeqno();
            const int64_t entries = static_cast<int64_t>(client.vb().hashTable().entries());
            const bool failed = runsOutOfMemory(nth, [&] { operation(client); });
            if (failed) {
                EXPECT_EQ(log.highSeqno(), before) << "allocation " << nth;
                EXPECT_EQ(static_cast<int64_t>(client.vb().hashTable().entries()), entries);
            }
            if (!failed && done) {
                done(client);
                return static_cast<int>(nth);
            }
            checkAndGoOn(client, cursor.cursor, "allocation " + std::to_string(nth));
            reader_.reset();
            if (!failed) {
                return static_cast<int>(nth);
            }
        }
    }

    void checkAndGoOn(Client& client, const CursorPtr& cursor, const std::string& which) {
        // The next mutations get the next seqnos, whatever failed before.
        Seqno last = client.vb().highSeqno();
        for (int i = 0; i < 20; ++i) {
            const OpResult stored = client.set("after" + std::to_string(i % 5), "v");
            ASSERT_TRUE(stored.ok()) << which;
            ASSERT_EQ(stored.seqno, next(last)) << which;
            last = stored.seqno;
        }
        EXPECT_TRUE(client.set("k", "at last", {}).ok()) << which;
        EXPECT_EQ(client.valueOf("k"), "at last") << which;
        last = client.vb().highSeqno();
        // The log has every document's latest version, each key once in a checkpoint.
        std::map<std::string, Seqno> latest;
        while (true) {
            const auto read = client.vb().checkpoints().cursors().getItemsForCursor(cursor, 1000);
            size_t at = 0;
            for (const auto& range : read.ranges) {
                std::set<std::string> keys;
                for (size_t i = 0; i < range.items; ++i, ++at) {
                    const std::string key(read.items[at]->key());
                    EXPECT_TRUE(keys.insert(key).second) << which << ": " << key << " twice";
                    latest[key] = read.items[at]->seqno();
                }
            }
            if (!read.more) {
                break;
            }
        }
        EXPECT_EQ(latest["k"], last) << which;
        const HashTableSums sums = client.vb().hashTable().sums();
        size_t found = 0;
        client.vb().hashTable().visit({}, [&](const auto&, StoredValue& value) {
            ++found;
            EXPECT_EQ(value.seqno(), latest[std::string(value.key())]) << which;
            return true;
        });
        EXPECT_EQ(static_cast<size_t>(sums.items + sums.tombstones), found) << which;
        if (client.vb().sequence() != nullptr) {
            EXPECT_EQ(client.vb().sequence()->size(), found + client.vb().sequence()->staleCount())
                    << which;
        } else {
            auto& bucket = static_cast<UnflushedBucket&>(*bucket_);
            bucket.flush(Vbid{0});
            EXPECT_EQ(bucket.itemsToPersist(), 0u) << which;
        }
    }

    static void nothing(AllocationFailure&) {}
    static void stored(AllocationFailure& test) { test.client_->set("k", "v"); }
    /// A range reader has yet to read the document, so a change must leave this version.
    static void covered(AllocationFailure& test) {
        stored(test);
        if (SequenceList* list = test.client_->vb().sequence()) {
            test.reader_ = std::make_unique<SequenceReader>(*list, Vbid{0}, Seqno{1});
        }
    }
    /// Stores as many documents as make the next one need another line.
    static void fullLine(AllocationFailure& test) {
        for (unsigned i = 0; i < HashLine::kEntries; ++i) {
            test.client_->set("full" + std::to_string(i), "v");
        }
    }
    /// The next replacement squeezes the holes out of the open checkpoint.
    static void fullOfHoles(AllocationFailure& test) {
        for (int i = 0; i < 66; ++i) {
            test.client_->set("k", "v");
        }
    }

    std::unique_ptr<Bucket> bucket_;
    std::unique_ptr<SequenceReader> reader_;
    Client* client_{nullptr};
};
INSTANTIATE_TEST_SUITE_P(BothTypes, AllocationFailure,
                         testing::Values(BucketType::Persistent, BucketType::Ephemeral),
                         [](const auto& made) { return std::string(toString(made.param)); });

OpResult set(Client& client) {
    return client.set("k", "a value");
}

TEST_P(AllocationFailure, AtANewDocument) {
    EXPECT_GE(failEach(nothing, set), 3);
}

TEST_P(AllocationFailure, AtADocumentThatNeedsAFurtherLine) {
    EXPECT_GE(failEach(fullLine, set), 4);
}

TEST_P(AllocationFailure, AtANewVersion) {
    EXPECT_GE(failEach(stored, set), 2);
}

TEST_P(AllocationFailure, AtANewVersionOfADocumentThatAReaderNeeds) {
    EXPECT_GE(failEach(covered, set), GetParam() == BucketType::Ephemeral ? 4 : 2);
}

TEST_P(AllocationFailure, AtTheCompactionOfACheckpoint) {
    EXPECT_GE(failEach(fullOfHoles, set), 2);
}

TEST_P(AllocationFailure, AtADeletion) {
    const auto remove = [](Client& client) { return client.remove("k"); };
    EXPECT_GE(failEach(stored, remove), 1);
    EXPECT_GE(failEach(covered, remove), 1);
}

TEST_P(AllocationFailure, AtAnExpiration) {
    const auto expired = [](AllocationFailure& test) {
        test.client_->set("k", "v", {.exptime = test.client_->now.seconds + 1});
        test.client_->wait(2);
    };
    EXPECT_GE(failEach(expired, [](Client& client) { return client.get("k"); }), 1);
}

TEST_P(AllocationFailure, AtAppendTouchAndCounters) {
    EXPECT_GE(failEach(stored,
                       [](Client& client) {
                           return client.concat("k", Concat::Append, std::string(100, 'x'));
                       }),
              2);
    EXPECT_GE(failEach(stored, [](Client& client) { return client.touch("k", UINT32_MAX); }), 1);
    EXPECT_GE(failEach(nothing,
                       [](Client& client) {
                           return client.arithmetic("k", {.initial = 9, .createIfMissing = true});
                       }),
              3);
}

TEST_P(AllocationFailure, AtALock) {
    EXPECT_GE(failEach(stored,
                       [](Client& client) {
                           const OpResult held = client.getAndLock("k", 10);
                           return client.unlock("k", held.cas);
                       }),
              1);
}

TEST_P(AllocationFailure, AHoldersLockOutlivesItsFailedMutation) {
    bucket_ = makeBucket(GetParam(), smallConfig());
    Client client(*bucket_);
    const auto cursor = client.vb().checkpoints().cursors().registerCursor("reader", Seqno{0});
    client.set("k", "v");
    const OpResult held = client.getAndLock("k", 10);
    allocationsLeft = 1;  // the value succeeds, then the commit's allocation fails
    EXPECT_THROW(client.set("k", "mine", {.cas = held.cas}), std::bad_alloc);
    allocationsLeft = -1;
    EXPECT_EQ(client.set("k", "theirs").status, OpStatus::Locked);
    EXPECT_TRUE(client.set("k", "mine", {.cas = held.cas}).ok());
}

TEST_P(AllocationFailure, AtAReplicatedMutation) {
    for (long nth = 0;; ++nth) {
        bucket_ = makeBucket(GetParam(), smallConfig());
        Client client(*bucket_);
        bucket_->setVBucketState(Vbid{0}, VbState::Replica, client.now);
        VBucket& vbucket = client.vb();
        vbucket.checkpoints().createSnapshot({Seqno{1}, Seqno{9}}, CheckpointType::Memory, false,
                                             1);
        const auto receive = [&] {
            return vbucket.applyReplicated(vbucket.term(), "k", ItemOp::Mutation,
                                           {.cas = Cas{7}, .seqno = Seqno{3}, .revSeqno = 1},
                                           Blob::create("v"), client.now);
        };
        const bool failed = runsOutOfMemory(nth, receive);
        if (!failed) {
            EXPECT_GE(nth, 2);
            break;
        }
        EXPECT_EQ(vbucket.highSeqno(), Seqno{0});
        EXPECT_EQ(vbucket.hashTable().entries(), 0u);
        EXPECT_EQ(receive(), OpStatus::Ok);
        EXPECT_EQ(vbucket.highSeqno(), Seqno{3});
    }
}

TEST_P(AllocationFailure, AtAForeignVersion) {
    const auto version = [](bool deleted) {
        return [deleted](Client& client) {
            return client.bucket().storeVersion(Client::kVb, "k", deleted ? "" : "theirs",
                                                {.deleted = deleted, .revSeqno = 9, .cas = Cas{50}},
                                                client.now);
        };
    };
    EXPECT_GE(failEach(nothing, version(false)), 3);
    EXPECT_GE(failEach(covered, version(false)), 2);
    EXPECT_GE(failEach(covered, version(true)), 1);
}

TEST_P(AllocationFailure, AtThePurgeOfATombstone) {
    if (GetParam() == BucketType::Persistent) {
        GTEST_SKIP() << "its tombstones are in the store";
    }
    const auto buried = [](AllocationFailure& test) {
        for (const char* key : {"a", "k", "z"}) {
            test.client_->set(key, "v");
        }
        test.client_->remove("k");
        test.client_->wait(smallConfig().ephemeralPurgeAgeS + 1);
    };
    EXPECT_GE(failEach(buried,
                       [](Client& client) {
                           client.bucket().purgeTombstones(client.now);
                           return OpResult{};
                       }),
              2);
}

TEST_P(AllocationFailure, AtAClear) {
    const auto clear = [](Client& client) {
        client.vb().clear({}, client.now);
        return OpResult{};
    };
    const auto empty = [](Client& client) {
        EXPECT_EQ(client.vb().hashTable().entries(), 0u);
        EXPECT_EQ(client.set("k", "v").seqno, Seqno{1});
    };
    EXPECT_GE(failEach(fullLine, clear, empty), 2);
    EXPECT_GE(failEach(covered, clear, empty), 2);
}

TEST_P(AllocationFailure, AtARollback) {
    bool failed = true;
    for (long nth = 0; failed; ++nth) {
        bucket_ = makeBucket(GetParam(), smallConfig());
        Client client(*bucket_);
        VBucket& vbucket = client.vb();
        client.set("a", "v");
        client.set("b", "v");
        bucket_->setVBucketState(Client::kVb, VbState::Replica, client.now);
        const auto rollBack = [&] {
            return bucket_->rollBackReplica(Client::kVb, vbucket.term(), Seqno{0}, client.now);
        };
        failed = runsOutOfMemory(nth, rollBack);
        ASSERT_EQ(vbucket.state(), VbState::Replica) << "allocation " << nth;
        EXPECT_EQ(vbucket.highSeqno(), Seqno{failed ? 2U : 0U}) << "allocation " << nth;
        EXPECT_EQ(vbucket.hashTable().entries(), failed ? 2u : 0u) << "allocation " << nth;
        EXPECT_EQ(rollBack(), Bucket::RollBack::Done);
        EXPECT_EQ(vbucket.hashTable().entries(), 0u);
        ASSERT_TRUE(failed || nth >= 2) << "at least this many allocations";
    }
}

TEST_P(AllocationFailure, AtThePromotionOfAReplica) {
    bool failed = true;
    for (long nth = 0; failed; ++nth) {
        bucket_ = makeBucket(GetParam(), smallConfig());
        Client client(*bucket_);
        VBucket& vbucket = client.vb();
        bucket_->setVBucketState(Client::kVb, VbState::Replica, client.now);
        const uint64_t term = vbucket.term();
        vbucket.beginReplicated(term, {Seqno{1}, Seqno{9}}, CheckpointType::Memory, client.now);
        vbucket.applyReplicated(term, "k", ItemOp::Mutation,
                                {.cas = Cas{7}, .seqno = Seqno{3}, .revSeqno = 1},
                                Blob::create("v"), client.now);
        const auto history = vbucket.failoverLog().entries();
        const auto promote = [&] {
            bucket_->setVBucketState(Client::kVb, VbState::Active, client.now);
        };
        failed = runsOutOfMemory(nth, promote);
        if (failed) {
            ASSERT_EQ(vbucket.state(), VbState::Replica) << "allocation " << nth;
            EXPECT_EQ(vbucket.term(), term);
            EXPECT_EQ(vbucket.failoverLog().entries(), history);
            EXPECT_EQ(vbucket.checkpoints().currentSnapshot(), (SnapshotRange{Seqno{1}, Seqno{9}}))
                    << "allocation " << nth;
            promote();
        }
        EXPECT_EQ(vbucket.term(), term + 1);
        ASSERT_EQ(vbucket.failoverLog().entries().size(), history.size() + 1);
        EXPECT_EQ(vbucket.failoverLog().entries().front().seqno, Seqno{0})
                << "nothing of the snapshot is consistent; allocation " << nth;
        EXPECT_EQ(client.set("k", "v").seqno, Seqno{4});
        ASSERT_TRUE(failed || nth >= 1) << "at least this many allocations";
    }
}

TEST(KeyLocks, ALookUpAllocatesNothing) {
    const std::string key(100, 'k');
    KeyLocks locks;
    const Cas cas = locks.lock(key, 10, 20);
    allocationsLeft = 0;
    EXPECT_EQ(locks.holder(key, 11), cas);
    EXPECT_EQ(locks.holder(std::string_view(key).substr(1), 11), Cas{});
    locks.unlock(key);
    EXPECT_EQ(locks.holder(key, 11), Cas{});
    allocationsLeft = -1;
}

TEST(AllocationFailureOfTheFlusher, TakesNothingOrEverything) {
    for (long nth = 0;; ++nth) {
        UnflushedBucket bucket(smallConfig());
        bucket.setVBucketState(Vbid{0}, VbState::Active, OpTime::now());
        Client client(bucket);
        for (int i = 0; i < 30; ++i) {
            client.set("k" + std::to_string(i), "v");
        }
        CheckpointManager& log = client.vb().checkpoints();
        const bool failed =
                runsOutOfMemory(nth, [&] { log.persistence().takeItemsToPersist(1000); });
        if (!failed) {
            EXPECT_GE(nth, 2);
            break;
        }
        EXPECT_EQ(log.unpersisted(), 30u);
        EXPECT_EQ(log.persistence().takeItemsToPersist(1000).items.size(), 30u)
                << "allocation " << nth;
        log.persistence().persisted();
    }
}

}  // namespace
}  // namespace kv::test
