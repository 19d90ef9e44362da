// Random histories with de-duplication in all places (in a snapshot of the source, in a checkpoint
// here, in a flush), and commits, restarts, purges and rollbacks at random moments. After a
// rollback, a vBucket has exactly the documents of its history at the seqno that it reports. A
// client that was here before and is not sent back to 0 gets everything it has missed.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "bucket/persistent_bucket.h"
#include "executor/fake_executor.h"
#include "persistence/temp_dir.h"

namespace kv {
namespace {

using namespace std::chrono_literals;

/// Seqno and value of each live key.
using Documents = std::map<std::string, std::pair<uint64_t, std::string>>;

/// A mutation of the history; its seqno is its position, from 1.
struct Version {
    std::string key;
    bool live{true};
};

std::string valueOf(uint64_t seqno) {
    return "value of " + std::to_string(seqno);
}

class Lab {
  public:
    explicit Lab(uint32_t seed) : random_(seed) {
        config_.vbuckets = 1;
        config_.persistentPurgeAgeS = 0;
        config_.checkpoint.maxItems = 1 + pick(8);
        persistence_.shards = 1;
        persistence_.dataDir = dir_.path();
        persistence_.rocks = {.writeBufferBytes = 1 << 20, .blockCacheBytes = 1 << 20};
        persistence_.flusher.batchItems = 1 + pick(20);
        keys_ = 3 + pick(200);
        open();
        set(VbState::Replica);
    }

    void run(int steps) {
        for (int step = 0; step < steps && !testing::Test::HasFailure(); ++step) {
            switch (pick(28)) {
                case 0:
                    sourceLosesItsEnd();
                    break;
                case 1:
                    restart();
                    break;
                case 2:
                    pending_.clear();  // the connection is lost
                    break;
                case 3:
                    changeSides();
                    break;
                case 4:
                    if (pick(2) == 0) {
                        (void)bucket_->purgeTombstones(OpTime::now());
                    }
                    break;
                case 8:
                case 9:
                    connectClient();
                    break;
                case 10:
                case 11:
                    resumeClients();
                    break;
                case 5:
                case 6:
                case 7:
                    fake_.advance(pick(2) == 0 ? 100ms : 1s);
                    break;
                default:
                    isActive() ? mutate() : follow();
            }
        }
        if (!testing::Test::HasFailure()) {
            finish();
        }
    }

    [[nodiscard]] size_t rollbacks() const { return rollbacks_; }
    /// Rollbacks that kept something.
    [[nodiscard]] size_t partial() const { return partial_; }
    /// Clients that resumed from their position; and those that had missed purged deletions.
    [[nodiscard]] size_t resumed() const { return resumed_; }
    [[nodiscard]] size_t startedOver() const { return startedOver_; }

  private:
    uint32_t pick(uint32_t below) {
        return std::uniform_int_distribution<uint32_t>(0, below - 1)(random_);
    }
    VBucket& vbucket() { return bucket_->vbucket(Vbid{0}); }
    uint64_t high() { return vbucket().highSeqno().get(); }
    bool isActive() { return vbucket().state() == VbState::Active; }
    void set(VbState state) {
        ASSERT_EQ(bucket_->setVBucketState(Vbid{0}, state, OpTime::now()), OpStatus::Ok);
    }
    void open() {
        bucket_ = std::make_unique<PersistentBucket>(config_, persistence_, fake_);
        bucket_->warmUp();
        bucket_->startFlushing();
    }

    Version newVersion() { return {"key" + std::to_string(pick(keys_)), pick(4) != 0}; }

    /// As an active copy: de-duplicated by the checkpoint.
    void mutate() {
        const Version version = newVersion();
        const OpTime now = OpTime::now();
        const BucketMemoryGuard guard(bucket_->memory());
        const OpResult result = version.live ? bucket_->store(Vbid{0}, version.key, StoreMode::Set,
                                                              valueOf(history_.size() + 1), {}, now)
                                             : bucket_->remove(Vbid{0}, version.key, {}, now);
        if (!version.live && result.status == OpStatus::KeyNotFound) {
            return;
        }
        ASSERT_TRUE(result.ok());
        history_.push_back(version);
        ASSERT_EQ(high(), history_.size());
    }

    /// As a replica: the source continues, a snapshot begins, or its next documents arrive.
    void follow() {
        if (pending_.empty()) {
            for (uint32_t count = pick(12); count > 0; --count) {
                history_.push_back(newVersion());
            }
            if (high() < history_.size()) {
                beginSnapshot();
            }
            return;
        }
        for (uint32_t count = 1 + pick(6); count > 0 && !pending_.empty(); --count) {
            receive();
        }
    }
    /// The newest version of each key that the source has above the replica.
    void beginSnapshot() {
        std::map<std::string, uint64_t> newest;
        for (uint64_t seqno = high() + 1; seqno <= history_.size(); ++seqno) {
            newest[history_[seqno - 1].key] = seqno;
        }
        for (const auto& [key, seqno] : newest) {
            pending_.push_back(seqno);
        }
        std::sort(pending_.begin(), pending_.end());
        // A reader that starts from 0 gets no deletions that the source has purged; the last one is
        // never purged.
        const auto size = static_cast<uint32_t>(history_.size());
        const uint64_t purged =
                high() == 0 && pick(2) == 0 ? size - 1 - pick(std::min(size, uint32_t{30})) : 0;
        std::erase_if(pending_,
                      [&](uint64_t seqno) { return seqno <= purged && !history_[seqno - 1].live; });
        const BucketMemoryGuard guard(bucket_->memory());
        ASSERT_EQ(vbucket().beginReplicated(vbucket().term(),
                                            {Seqno{high() + 1}, Seqno{history_.size()}},
                                            CheckpointType::Memory, OpTime::now(), Seqno{purged}),
                  OpStatus::Ok);
    }
    void receive() {
        const uint64_t seqno = pending_.front();
        pending_.pop_front();
        const Version& version = history_[seqno - 1];
        const OpTime now = OpTime::now();
        const BucketMemoryGuard guard(bucket_->memory());
        ASSERT_EQ(vbucket().applyReplicated(vbucket().term(), version.key,
                                            version.live ? ItemOp::Mutation : ItemOp::Deletion,
                                            {.cas = Cas{seqno},
                                             .seqno = Seqno{seqno},
                                             .revSeqno = seqno,
                                             .exptime = version.live ? 0 : now.seconds},
                                            version.live ? Blob::create(valueOf(seqno)) : BlobPtr{},
                                            now),
                  OpStatus::Ok);
    }

    /// As after a crash of the source: its history continues elsewhere from some seqno on.
    void sourceLosesItsEnd() {
        if (isActive() || history_.empty()) {
            return;
        }
        pending_.clear();
        const auto size = static_cast<uint32_t>(history_.size());
        history_.resize(size - pick(std::min(size, uint32_t{20})));
        const SnapshotRange received = vbucket().checkpoints().currentSnapshot();
        const bool whole = received.end.get() <= high();
        const uint64_t last = whole ? high() : received.end.get();
        if (last <= history_.size()) {
            return;
        }
        const uint64_t back =
                std::min<uint64_t>(whole ? high() : received.start.get() - 1, history_.size());
        rollBack(back);
    }
    void rollBack(uint64_t back) {
        ASSERT_EQ(bucket_->rollBackReplica(Vbid{0}, vbucket().term(), Seqno{back}, OpTime::now()),
                  Bucket::RollBack::Done);
        ++rollbacks_;
        partial_ += high() != 0 ? 1U : 0U;
        ASSERT_LE(high(), back);
        forgetClientsAbove(history_.size());
        EXPECT_LE(vbucket().checkpoints().currentSnapshot().end.get(), high()) << "it is whole";
        EXPECT_EQ(stored(), truth(high())) << "at " << high() << " of " << back;
    }

    /// A crash: data that was not flushed is lost.
    void restart() {
        pending_.clear();
        const bool active = isActive();
        bucket_.reset();
        open();
        if (vbucket().state() == VbState::Dead) {
            set(active ? VbState::Active : VbState::Replica);
        }
        if (!isActive()) {
            return;
        }
        const uint64_t shared = vbucket().failoverLog().entries().front().seqno.get();
        if (shared == high()) {
            history_.resize(high());
            forgetClientsAbove(high());
            EXPECT_EQ(stored(), truth(high())) << "what an active copy stored is whole";
        } else {
            // Promoted when a part of a snapshot was stored: it follows the node that has all of
            // it.
            set(VbState::Replica);
            rollBack(shared);
        }
    }

    /// The last stored seqno if the stored data is consistent there; otherwise 0.
    Seqno wholeUpTo() {
        const auto state = bucket_->storeOf(Vbid{0}).loadVbState(Vbid{0});
        return state && state->highSeqno == state->snapshot.end ? state->highSeqno : Seqno{};
    }
    /// Connects a client that has everything that is stored.
    void connectClient() {
        if (const Seqno high = wholeUpTo(); high != Seqno{}) {
            clients_.push_back({high, stored()});
        }
    }
    /// Each client that was here before, or at the source, reads the stored data above its
    /// position.
    void resumeClients() {
        const Seqno high = wholeUpTo();
        for (auto& [seqno, documents] : clients_) {
            if (seqno > high) {
                continue;
            }
            if (seqno < vbucket().purgedSeqno()) {
                ++startedOver_;
                continue;
            }
            apply(next(seqno), documents);
            ++resumed_;
            EXPECT_EQ(documents, stored()) << "from " << seqno.get();
        }
        std::erase_if(clients_, [&](const Client& client) { return client.seqno <= high; });
    }
    /// Their history is not this one any more, so they roll back.
    void forgetClientsAbove(uint64_t seqno) {
        std::erase_if(clients_, [&](const Client& client) { return client.seqno.get() > seqno; });
    }

    /// A takeover, and the way back.
    void changeSides() {
        if (isActive()) {
            set(VbState::Replica);
        } else if (pending_.empty() &&
                   vbucket().checkpoints().currentSnapshot().end.get() <= high()) {
            history_.resize(high());
            forgetClientsAbove(high());
            set(VbState::Active);
        }
    }

    void finish() {
        while (!isActive() && high() < history_.size() && !testing::Test::HasFailure()) {
            pending_.empty() ? beginSnapshot() : receive();
        }
        fake_.advance(10s);
        EXPECT_EQ(stored(), truth(history_.size()));
        set(VbState::Active);
        EXPECT_EQ(inMemory(), truth(history_.size()));
    }

    Documents truth(uint64_t at) {
        Documents result;
        for (uint64_t seqno = 1; seqno <= at; ++seqno) {
            const Version& version = history_[seqno - 1];
            if (version.live) {
                result[version.key] = {seqno, valueOf(seqno)};
            } else {
                result.erase(version.key);
            }
        }
        return result;
    }
    Documents stored() {
        Documents result;
        apply(Seqno{1}, result);
        return result;
    }
    /// Applies the stored data from that seqno on.
    void apply(Seqno from, Documents& to) {
        const auto scan =
                bucket_->storeOf(Vbid{0}).openSeqnoScan(Vbid{0}, from, Seqno{~uint64_t{0}});
        for (StoredDoc doc; scan != nullptr && scan->next(doc);) {
            if (isDeletion(doc.op)) {
                to.erase(std::string(doc.key));
            } else {
                to[std::string(doc.key)] = {doc.meta.seqno.get(), std::string(doc.value)};
            }
        }
    }
    Documents inMemory() {
        Documents result;
        const BucketMemoryGuard guard(bucket_->memory());
        for (uint32_t number = 0; number < keys_; ++number) {
            const std::string key = "key" + std::to_string(number);
            const OpTime now = OpTime::now();
            if (const OpResult found = bucket_->get(Vbid{0}, key, now); found.ok()) {
                result[key] = {bucket_->getMeta(Vbid{0}, key, now).seqno.get(),
                               std::string(found.value.view())};
            }
        }
        return result;
    }

    std::mt19937 random_;
    TempDir dir_;
    BucketConfig config_;
    PersistenceConfig persistence_;
    FakeExecutor fake_;
    std::unique_ptr<PersistentBucket> bucket_;
    uint32_t keys_{0};
    std::vector<Version> history_;  ///< the history of the active copy, wherever it is
    struct Client {
        Seqno seqno;
        Documents documents;
    };
    std::vector<Client> clients_;
    size_t resumed_{0};
    size_t startedOver_{0};
    std::deque<uint64_t> pending_;  ///< of the snapshot that the replica receives
    size_t rollbacks_{0};
    size_t partial_{0};
};

TEST(RollbackPropertyTest, TheRestMatchesTheHistory) {
    size_t rollbacks = 0;
    size_t partial = 0;
    size_t resumed = 0;
    size_t startedOver = 0;
#ifdef KV_SANITIZED
    constexpr uint32_t kSeeds = 3;  // the build for releases tries all
#else
    constexpr uint32_t kSeeds = 15;
#endif
    for (uint32_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Lab lab(seed);
        lab.run(600);
        rollbacks += lab.rollbacks();
        partial += lab.partial();
        resumed += lab.resumed();
        startedOver += lab.startedOver();
    }
    EXPECT_GT(rollbacks, 6 * kSeeds);
    EXPECT_GT(partial, kSeeds) << "starting over each time would prove nothing";
    EXPECT_GT(resumed, 6 * kSeeds);
    EXPECT_GT(startedOver, kSeeds / 2);
    RecordProperty("resumed", static_cast<int>(resumed));
    RecordProperty("startedOver", static_cast<int>(startedOver));
    RecordProperty("rollbacks", static_cast<int>(rollbacks));
    RecordProperty("partial", static_cast<int>(partial));
}

}  // namespace
}  // namespace kv
