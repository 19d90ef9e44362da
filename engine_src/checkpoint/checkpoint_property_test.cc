// Random histories through every combination of the checkpoint switches: all must answer alike, and
// every cursor must have received the newest version of every key in its range.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_manager.h"

namespace kv {
namespace {

using options::CompareCursorDrop;
using options::DistanceExtract;
using options::WalkCursorDrop;
using options::WalkExtract;

/// The four ways to remove behind one interface, so that a test can hold them in one list.
class AnyManager {
  public:
    explicit AnyManager(const CheckpointConfig& config) : manager_(Vbid{3}, config) {}
    AnyManager(const AnyManager&) = delete;
    AnyManager& operator=(const AnyManager&) = delete;
    virtual ~AnyManager() = default;
    CheckpointManager& get() { return manager_; }
    virtual std::set<std::string> toDrop() = 0;
    virtual size_t extract() = 0;

  private:
    CheckpointManager manager_;
};
template <class Drop, class Extract>
class Wrapped final : public AnyManager {
  public:
    using AnyManager::AnyManager;
    std::set<std::string> toDrop() override {
        std::set<std::string> names;
        for (const auto& cursor : removal().getListOfCursorsToDrop()) {
            names.insert(cursor->name());
        }
        return names;
    }
    size_t extract() override { return removal().extractClosedUnrefCheckpoints().size(); }

  private:
    BasicCheckpointRemoval<Drop, Extract> removal() {
        return BasicCheckpointRemoval<Drop, Extract>(get().removal());
    }
};

/// A reader and the items it must receive.
struct Reader {
    Seqno from{};                           ///< it must receive everything above
    std::map<std::string, Seqno> received;  ///< newest version of each key
    Seqno last{};
};

class Lab {
  public:
    Lab(uint32_t seed, bool persistent) : random_(seed), persistent_(persistent) {
        config_.maxItems = 1 + pick(30);
        config_.maxCheckpoints = 2 + pick(8);
        managers_.push_back(std::make_unique<Wrapped<WalkCursorDrop, WalkExtract>>(config_));
        managers_.push_back(std::make_unique<Wrapped<WalkCursorDrop, DistanceExtract>>(config_));
        managers_.push_back(std::make_unique<Wrapped<CompareCursorDrop, WalkExtract>>(config_));
        managers_.push_back(std::make_unique<Wrapped<CompareCursorDrop, DistanceExtract>>(config_));
        emptyMemory_ = base(0).memory();
        if (persistent_) {
            forAll([](CheckpointManager& manager) {
                manager.persistence().registerCursor();
                return 0;
            });
        }
    }

    void run(int steps) {
        for (int step = 0; step < steps && !testing::Test::HasFatalFailure(); ++step) {
            now_ += pick(20) == 0 ? 6'000'000'000ULL : 1000;
            switch (pick(16)) {
                case 0:
                    registerReader();
                    break;
                case 1:
                    removeReader();
                    break;
                case 2:
                case 3:
                    read();
                    break;
                case 4:
                    if (persistent_) {
                        flush();
                    }
                    break;
                case 5:
                    (void)forAll(
                            [](CheckpointManager& manager) { return manager.removal().expel(); });
                    break;
                case 6:
                    drop();
                    extract();
                    break;
                case 7:
                    (void)forAll([this](CheckpointManager& manager) {
                        manager.removal().closeIfDue(now_);
                        return 0;
                    });
                    break;
                default:
                    mutate();
            }
            check();
        }
        finish();
    }

  private:
    CheckpointManager& base(size_t index) { return managers_[index]->get(); }
    uint32_t pick(uint32_t below) {
        return std::uniform_int_distribution<uint32_t>(0, below - 1)(random_);
    }

    /// Does the same to every manager and expects the same answer.
    template <class Action>
    std::invoke_result_t<Action, CheckpointManager&> forAll(Action action) {
        const auto first = action(base(0));
        for (size_t index = 1; index < managers_.size(); ++index) {
            EXPECT_EQ(action(base(index)), first);
        }
        return first;
    }

    void mutate() {
        const std::string key = "key" + std::to_string(pick(25));
        const ItemOp op = pick(4) == 0 ? ItemOp::Deletion : ItemOp::Mutation;
        const auto known = table_.find(key);
        const Seqno previous = known != table_.end() ? known->second.seqno : Seqno{};
        const auto queued = forAll([&](CheckpointManager& manager) {
            const auto result =
                    manager.queueDirty(Item::create(Vbid{3}, op, key, {}, Blob::create("value")),
                                       previous, GenerateSeqno::Yes, GenerateCas::Yes, now_);
            return std::tuple(result.seqno, result.cas, result.status);
        });
        EXPECT_EQ(std::get<0>(queued), next(high_));
        high_ = std::get<0>(queued);
        newest_[key] = high_;
        table_[key] = {high_, op == ItemOp::Deletion};
    }

    void registerReader() {
        const std::string name = "reader" + std::to_string(pick(6));
        const Seqno lastSeen{pick(static_cast<uint32_t>(high_.get()) + 1)};
        const auto [nextSeqno, backfill] = forAll([&](CheckpointManager& manager) {
            const auto registration = manager.cursors().registerCursor(name, lastSeen);
            return std::pair(registration.nextSeqno, registration.needsBackfill);
        });
        EXPECT_EQ(backfill, nextSeqno > next(lastSeen));
        readers_[name] = Reader{Seqno{nextSeqno.get() - 1}, {}, {}};
    }

    void removeReader() {
        if (readers_.empty()) {
            return;
        }
        const auto victim =
                std::next(readers_.begin(), pick(static_cast<uint32_t>(readers_.size())));
        EXPECT_TRUE(forAll([&](CheckpointManager& manager) {
            return manager.cursors().removeCursor(manager.cursors().findCursor(victim->first));
        }));
        readers_.erase(victim);
    }

    void take(Reader& reader, const CursorItems& items) {
        size_t at = 0;
        for (const CursorRange& range : items.ranges) {
            std::set<std::string> inRange;
            for (size_t end = at + range.items; at < end; ++at) {
                const Item& item = *items.items[at];
                ASSERT_GT(item.seqno(), reader.last);
                ASSERT_GT(item.seqno(), reader.from);
                ASSERT_GE(item.seqno(), range.snapshot.start);
                ASSERT_LE(item.seqno(), range.snapshot.end);
                ASSERT_TRUE(inRange.insert(std::string(item.key())).second)
                        << "a key twice in one snapshot";
                reader.last = item.seqno();
                reader.received[std::string(item.key())] = item.seqno();
            }
        }
        ASSERT_EQ(at, items.items.size());
    }

    static std::vector<Seqno> seqnos(const CursorItems& items) {
        std::vector<Seqno> result;
        for (const ItemPtr& item : items.items) {
            result.push_back(item->seqno());
        }
        return result;
    }

    void expectComplete(const Reader& reader, const char* who) {
        for (const auto& [key, seqno] : newest_) {
            if (seqno > reader.from) {
                const auto found = reader.received.find(key);
                ASSERT_TRUE(found != reader.received.end()) << who << " never got " << key;
                ASSERT_EQ(found->second, seqno) << who << " has an old version of " << key;
            }
        }
    }

    void read() {
        if (readers_.empty()) {
            return;
        }
        auto& chosen = *std::next(readers_.begin(), pick(static_cast<uint32_t>(readers_.size())));
        const auto& name = chosen.first;
        auto& reader = chosen.second;
        const size_t limit = 1 + pick(60);
        std::optional<CursorItems> first;
        const bool more = forAll([&](CheckpointManager& manager) {
            auto items =
                    manager.cursors().getItemsForCursor(manager.cursors().findCursor(name), limit);
            if (!first) {
                first = std::move(items);
                return first->more;
            }
            EXPECT_EQ(seqnos(items), seqnos(*first));
            return items.more;
        });
        take(reader, *first);
        if (!more) {
            expectComplete(reader, name.c_str());
        }
    }

    void flush() {
        const size_t limit = 1 + pick(60);
        std::optional<CursorItems> first;
        const bool more = forAll([&](CheckpointManager& manager) {
            auto items = manager.persistence().takeItemsToPersist(limit);
            if (!first) {
                first = std::move(items);
                return first->more;
            }
            EXPECT_EQ(seqnos(items), seqnos(*first));
            return items.more;
        });
        for (uint32_t mutations = pick(8); mutations > 0; --mutations) {
            mutate();  // while the flush is running
        }
        if (pick(4) == 0) {
            (void)forAll([](CheckpointManager& manager) { return manager.removal().expel(); });
            extract();
        }
        if (pick(4) == 0) {
            (void)forAll([](CheckpointManager& manager) {
                manager.persistence().persistFailed();
                return 0;
            });
            return;
        }
        (void)forAll([](CheckpointManager& manager) {
            manager.persistence().persisted();
            return 0;
        });
        take(disk_, *first);
        for (const ItemPtr& item : first->items) {
            // The tombstone leaves the table once it is stored.
            const std::string key(item->key());
            const auto found = table_.find(key);
            if (found != table_.end() && found->second.seqno == item->seqno() &&
                found->second.deleted) {
                table_.erase(found);
                (void)forAll([&](CheckpointManager& manager) {
                    manager.noteTombstoneRemoved(key, item->seqno());
                    return 0;
                });
            }
        }
        if (!more && base(0).unpersisted() == 0) {
            expectComplete(disk_, "the disk");
        }
    }

    void drop() {
        const auto names = managers_[0]->toDrop();
        for (auto& manager : managers_) {
            EXPECT_EQ(manager->toDrop(), names);
        }
        EXPECT_FALSE(names.contains("persistence"));
        if (pick(3) == 0) {
            for (const std::string& name : names) {
                (void)forAll([&](CheckpointManager& manager) {
                    return manager.cursors().removeCursor(manager.cursors().findCursor(name));
                });
                readers_.erase(name);
            }
        }
    }

    void extract() {
        const size_t count = managers_[0]->extract();
        for (size_t index = 1; index < managers_.size(); ++index) {
            EXPECT_EQ(managers_[index]->extract(), count);
        }
    }

    void check() {
        (void)forAll([](CheckpointManager& manager) {
            const CheckpointStats stats = manager.stats();
            return std::tuple(stats.openId, stats.highSeqno, stats.checkpoints, stats.openItems,
                              stats.cursors, stats.memory, stats.unpersisted);
        });
        if (persistent_) {
            // Between flushes, the unpersisted items are those that the persistence cursor has not
            // read.
            EXPECT_EQ(base(0).unpersisted(),
                      base(0).cursors().itemsLeft(base(0).cursors().findCursor("persistence")));
        } else if (readers_.empty()) {
            EXPECT_EQ(base(0).memory(), emptyMemory_);
        }
    }

    /// All readers read to the end; then nothing must be left in memory.
    void finish() {
        while (persistent_ && base(0).unpersisted() > 0) {
            flush();
        }
        for (auto& [name, reader] : readers_) {
            (void)forAll([&, &who = name](CheckpointManager& manager) {
                return manager.cursors()
                        .getItemsForCursor(manager.cursors().findCursor(who), ~size_t{0})
                        .items.size();
            });
        }
        extract();
        (void)forAll([](CheckpointManager& manager) {
            manager.removal().expel();
            return 0;
        });
        EXPECT_EQ(base(0).stats().checkpoints, 1U);
        EXPECT_EQ(base(0).memory(), emptyMemory_);
    }

    struct Known {
        Seqno seqno;
        bool deleted;
    };
    std::mt19937 random_;
    const bool persistent_;
    CheckpointConfig config_;
    std::vector<std::unique_ptr<AnyManager>> managers_;
    size_t emptyMemory_{0};
    uint64_t now_{1};
    Seqno high_{};
    std::map<std::string, Known> table_;   ///< the hash table
    std::map<std::string, Seqno> newest_;  ///< newest version of every key ever
    std::map<std::string, Reader> readers_;
    Reader disk_;
};

TEST(CheckpointPropertyTest, EveryPolicyGivesEveryReaderTheSame) {
#ifdef KV_SANITIZED
    constexpr uint32_t kSeeds = 120;  // the build for releases tries all
#else
    constexpr uint32_t kSeeds = 600;
#endif
    for (uint32_t seed = 0; seed < kSeeds && !testing::Test::HasFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Lab(seed, /*persistent=*/seed % 3 != 0).run(300);
    }
}

}  // namespace
}  // namespace kv
