// Shared by the tests of the producers: a store and a node whose parts the tests control.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <set>

#include "checkpoint/checkpoint_manager.h"
#include "dcp/producer.h"

namespace kv::dcp::testing_support {

/// A store that keeps the latest version of every key, as a by-seqno index does.
class MemoryStore final : public BackfillSource {
    struct Scan final : BackfillScan {
        Step next(ItemPtr& item) override {
            if (position == items.size()) {
                return Step::End;
            }
            item = items[position++];
            return Step::Item;
        }
        [[nodiscard]] Seqno high() const override { return highSeqno; }
        [[nodiscard]] Seqno snapshotEnd() const override { return highSeqno; }
        [[nodiscard]] Seqno purged() const override { return purgedSeqno; }
        std::vector<ItemPtr> items;
        size_t position{0};
        Seqno highSeqno{};
        Seqno purgedSeqno{};
    };

  public:
    void put(const ItemPtr& item) {
        const std::scoped_lock lock(mutex_);
        Documents& documents = stored_[item->vbid()];
        auto& seqno = documents.byKey[std::string(item->key())];
        documents.bySeqno.erase(seqno);
        seqno = item->seqno().get();
        documents.bySeqno[seqno] = item;
        documents.high = item->seqno();
    }
    std::unique_ptr<BackfillScan> open(Vbid vbid, Seqno after, Seqno last) override {
        const std::scoped_lock lock(mutex_);
        if (fails) {
            return nullptr;
        }
        const Documents& documents = stored_[vbid];
        auto scan = std::make_unique<Scan>();
        scan->highSeqno = documents.high;
        scan->purgedSeqno = purgedSeqno;
        ++opened;
        for (auto it = documents.bySeqno.upper_bound(after.get());
             it != documents.bySeqno.end() && it->first <= last.get(); ++it) {
            scan->items.push_back(it->second);
        }
        return scan;
    }
    [[nodiscard]] Seqno purged(Vbid) const override { return purgedSeqno; }
    [[nodiscard]] size_t mostUnsent() const override { return budget; }
    size_t budget{SIZE_MAX};
    [[nodiscard]] size_t pinned() const override { return pinnedBytes ? pinnedBytes() : 0; }
    [[nodiscard]] size_t mostPinned() const override { return 1000; }
    bool fails{false};
    Seqno purgedSeqno{};
    size_t opened{0};
    std::function<size_t()> pinnedBytes;

  private:
    struct Documents {
        std::map<std::string, uint64_t> byKey;
        std::map<uint64_t, ItemPtr> bySeqno;
        Seqno high{};
    };
    std::mutex mutex_;
    std::map<Vbid, Documents> stored_;
};

constexpr uint16_t kVbuckets = 8;

/// Checkpoints, store and producer of one node, driven directly or by threads.
template <class P>
class Node {
  public:
    Node()
        : producer("dcp", kVbuckets,
                   ProducerHooks{[this] { wake(); }, [this] { ++snapshotWakes; },
                                 [this] { ++backfillWakes; }}) {
        for (uint16_t vb = 0; vb < kVbuckets; ++vb) {
            managers.push_back(std::make_unique<CheckpointManager>(Vbid{vb}, config));
            managers.back()->persistence().registerCursor();
        }
    }

    /// Stores a document and notifies the producer, as the bucket does. Persists at intervals, as
    /// the flusher does.
    Seqno write(Vbid vbid, const std::string& key, ItemOp op = ItemOp::Mutation) {
        const auto item = Item::create(vbid, op, key, ItemMeta{},
                                       op == ItemOp::Mutation ? Blob::create("v") : BlobPtr{});
        auto& previous = latest[{vbid.get(), key}];
        const auto queued = managers[vbid.get()]->queueDirty(item, previous, GenerateSeqno::Yes,
                                                             GenerateCas::Yes, 1);
        previous = queued.seqno;
        producer.onSeqno(vbid);
        return queued.seqno;
    }

    /// As on a replica: the seqno is the source's.
    void receive(Vbid vbid, uint64_t seqno) {
        managers[vbid.get()]->queueDirty(
                Item::create(vbid, ItemOp::Mutation, "k" + std::to_string(seqno),
                             {.cas = Cas{seqno}, .seqno = Seqno{seqno}}, {}),
                Seqno{}, GenerateSeqno::No, GenerateCas::No, 1);
        producer.onSeqno(vbid);
    }

    void persist(Vbid vbid) {
        auto& manager = *managers[vbid.get()];
        const auto taken = manager.persistence().takeItemsToPersist(1'000'000);
        for (const auto& item : taken.items) {
            store.put(item);
        }
        manager.persistence().persisted();
        const auto freed = manager.removal().extractClosedUnrefCheckpoints();
    }

    std::shared_ptr<ActiveStream> stream(Vbid vbid, Seqno start = {}, Seqno end = Seqno{UINT64_MAX},
                                         bool diskOnly = false,
                                         std::optional<SnapshotRange> snapshot = {},
                                         MessageFormat format = {}) {
        auto made = std::make_shared<ActiveStream>(
                StreamRequest{vbid, 100u + vbid.get(), start, end, diskOnly, format, snapshot},
                "dcp:" + std::to_string(vbid.get()), managers[vbid.get()]->cursors(), store);
        EXPECT_TRUE(producer.addStream(made));
        return made;
    }

    /// Runs tasks and steps until nothing changes.
    std::vector<Message> drain() {
        std::vector<Message> got;
        bool moved = true;
        while (moved) {
            moved = false;
            while (auto message = producer.step()) {
                got.push_back(std::move(*message));
                moved = true;
            }
            while (snapshotWakes.exchange(0) != 0) {
                while (producer.runSnapshots()) {
                }
                moved = true;
            }
            while (backfillWakes.exchange(0) != 0) {
                while (producer.runBackfills() == P::Backfills::More) {
                }
                moved = true;
            }
        }
        return got;
    }

    /// As memory recovery does with the cursor of a slow stream, the only one in the way.
    CursorPtr dropCursor(Vbid vbid) {
        const auto victims = managers[vbid.get()]->removal().getListOfCursorsToDrop();
        EXPECT_EQ(victims.size(), 1U);
        EXPECT_TRUE(!victims.empty() && producer.dropCursor(vbid, victims[0]));
        return victims.empty() ? CursorPtr{} : victims[0];
    }

    void wake() {
        const std::scoped_lock lock(wakeMutex);
        woken = true;
        wakeCondition.notify_one();
    }
    /// Returns false if no wake-up came in time: it was lost.
    bool waitForWake(std::chrono::seconds limit) {
        std::unique_lock lock(wakeMutex);
        const bool came = wakeCondition.wait_for(lock, limit, [this] { return woken; });
        woken = false;
        return came;
    }

    CheckpointConfig config{};
    std::vector<std::unique_ptr<CheckpointManager>> managers;
    MemoryStore store;
    std::map<std::pair<uint16_t, std::string>, Seqno> latest;
    std::atomic<int> snapshotWakes{0};
    std::atomic<int> backfillWakes{0};
    std::mutex wakeMutex;
    std::condition_variable wakeCondition;
    bool woken{false};
    P producer;
};

/// The markers among messages: where the client is consistent, and where it is consistent again.
using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;
inline Ranges markers(const std::vector<Message>& messages) {
    Ranges found;
    for (const auto& message : messages) {
        if (message.kind == MessageKind::SnapshotMarker) {
            found.emplace_back(message.start.get(), message.end.get());
        }
    }
    return found;
}

/// Returns the documents among messages, and checks that each one is inside the preceding marker,
/// with unique keys in it.
inline std::vector<std::pair<uint64_t, std::string>> documents(const std::vector<Message>& messages,
                                                               Vbid vbid) {
    std::vector<std::pair<uint64_t, std::string>> found;
    Seqno start{};
    Seqno end{};
    Seqno last{};
    bool marked = false;
    std::set<std::string> keys;
    for (const auto& message : messages) {
        if (message.vbid != vbid) {
            continue;
        }
        if (message.kind == MessageKind::SnapshotMarker) {
            if (std::exchange(marked, true)) {
                EXPECT_EQ(message.start, last == end ? end : start)
                        << "a client with all of the last snapshot is consistent";
            }
            start = message.start;
            end = message.end;
            keys.clear();
        } else if (message.item) {
            const std::string key(message.item->key());
            last = message.item->seqno();
            EXPECT_LT(start, last);
            EXPECT_LE(last, end);
            EXPECT_TRUE(keys.insert(key).second) << key << " twice in one snapshot";
            if (!found.empty()) {
                EXPECT_GT(message.item->seqno().get(), found.back().first);
            }
            found.emplace_back(message.item->seqno().get(), key);
        }
    }
    return found;
}

template <class Ready, class Queue, size_t Yield>
using Make = BasicProducer<Ready, Queue, options::SnapshotYield<Yield>>;
using AllProducers =
        testing::Types<Make<options::OneLockReady, options::DuplicatesSnapshotQueue, 10>,
                       Make<options::RoundRobinReady, options::DuplicatesSnapshotQueue, 10>,
                       Make<options::RoundRobinReady, options::UniqueSnapshotQueue, 256>,
                       Make<options::QueueReady, options::UniqueSnapshotQueue, 256>,
                       Make<options::QueueReady, options::DuplicatesSnapshotQueue, 10>,
                       Make<options::SetQueueReady, options::UniqueSnapshotQueue, 256>,
                       Make<options::HashQueueReady, options::UniqueSnapshotQueue, 256>,
                       Make<options::ListQueueReady, options::UniqueSnapshotQueue, 256>,
                       Make<options::LockFreeReady, options::UniqueSnapshotQueue, 256>>;

}  // namespace kv::dcp::testing_support
