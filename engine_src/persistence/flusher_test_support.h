// Shared by the flusher's tests: a store in memory, and a vBucket whose queue is a vector.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "persistence/flusher.h"

namespace kv::testing_support {

/// The functions of a store that the flusher needs, with a visible transaction.
class MemoryStore final : public KVStore {
  public:
    void begin(Vbid, size_t) override {}
    bool put(const Item& item) override {
        puts.push_back(std::string(item.key()) + "@" + std::to_string(item.seqno().get()));
        if ((throwAtPut > 0 && --throwAtPut == 0) || unreadable.contains(item.vbid().get())) {
            throw StoreError("read error");
        }
        const auto found = docs.find(std::string(item.key()));
        batch_[std::string(item.key())] = {item.seqno(), !item.isDeletion()};
        return found != docs.end() && found->second.second;
    }
    void end(const PersistedVbState& state) override { ended_.push_back(state); }
    bool commit() override {
        const auto batch = std::exchange(batch_, {});
        const auto ended = std::exchange(ended_, {});
        if (failCommits > 0) {
            --failCommits;
            return false;
        }
        ++commits;
        for (const auto& [key, doc] : batch) {
            docs[key] = doc;
        }
        states.insert(states.end(), ended.begin(), ended.end());
        if (onCommit) {
            onCommit();
        }
        return true;
    }
    void abandon() override {
        batch_.clear();
        ended_.clear();
        ++abandoned;
    }
    bool sync() override { return true; }
    bool saveVbState(Vbid, const PersistedVbState& state) override {
        if (throwAtState > 0 && --throwAtState == 0) {
            throw StoreError("write error");
        }
        if (failCommits > 0) {
            --failCommits;
            return false;
        }
        states.push_back(state);
        return true;
    }
    std::optional<PersistedVbState> loadVbState(Vbid) override { return std::nullopt; }
    std::vector<Vbid> listPersistedVbuckets() override { return {}; }
    bool delVBucket(Vbid, const PersistedVbState&) override { return true; }
    std::unique_ptr<SeqnoScan> openSeqnoScan(Vbid, Seqno, Seqno) override { return nullptr; }
    bool rollback(Vbid, Seqno) override { return false; }
    bool removeTombstones(Vbid, const std::vector<std::pair<std::string, Seqno>>&,
                          const PersistedVbState&) override {
        return false;
    }
    size_t countLive(Vbid) override { return 0; }
    KVStoreStats stats() override { return {}; }

    std::map<std::string, std::pair<Seqno, bool>> docs;
    std::vector<std::string> puts;
    std::vector<PersistedVbState> states;
    std::function<void()> onCommit;
    int failCommits{0};
    int throwAtPut{0};
    int throwAtState{0};
    std::set<uint16_t> unreadable;  ///< vBuckets whose keys cannot be looked up
    int abandoned{0};
    int commits{0};

  protected:
    Lookup read(Vbid, std::string_view, Reads, std::string&, StoredDoc&) override {
        return Lookup::Missing;
    }

  private:
    std::map<std::string, std::pair<Seqno, bool>> batch_;
    std::vector<PersistedVbState> ended_;
};

/// A vBucket whose queue is a vector.
class ScriptedTarget final : public FlushTarget {
  public:
    explicit ScriptedTarget(Vbid vbid = Vbid{0}) : vbid_(vbid) {}
    Vbid vbid() const override { return vbid_; }
    std::unique_lock<std::mutex> lockForFlush() override {
        if (onWait) {
            std::exchange(onWait, nullptr)();
        }
        return std::unique_lock(mutex_);
    }
    std::unique_lock<std::mutex> tryLockForFlush() override {
        return onWait ? std::unique_lock<std::mutex>() : lockForFlush();
    }
    bool prepare(KVStore&) override {
        if (throwAtPrepare > 0 && --throwAtPrepare == 0) {
            throw StoreError("read error");
        }
        return true;
    }
    FlushBatch takeItemsToPersist(size_t limit, size_t limitBytes) override {
        FlushBatch batch;
        taken_ = 0;
        for (size_t bytes = 0; taken_ < std::min(limit, queue.size()); ++taken_) {
            bytes += queue[taken_]->value().size();
            if (taken_ != 0 && bytes > limitBytes) {
                break;
            }
        }
        batch.more = taken_ < queue.size();
        batch.items.assign(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(taken_));
        if (taken_ > 0) {
            batch.snapshot = {batch.items.front()->seqno(),
                              snapshotEnd.value_or(batch.items.back()->seqno())};
        }
        return batch;
    }
    PersistedVbState stateToPersist() override {
        PersistedVbState state = stored;
        state.state = 1;
        return state;
    }
    bool takeStateChange() override { return stateChange; }
    void stateChangeStored() override { stateChange = false; }
    void persistedSet(const Item& item) override {
        log.push_back("set " + std::string(item.key()));
    }
    void persistedDelete(const Item& item) override {
        log.push_back("del " + std::string(item.key()));
    }
    void persisted(const PersistedVbState& state) override {
        stored = state;
        queue.erase(queue.begin(),
                    queue.begin() + static_cast<std::ptrdiff_t>(std::min(taken_, queue.size())));
        log.emplace_back("persisted");
    }
    void persistFailed() override { log.emplace_back("failed"); }
    void add(std::string_view key, ItemOp op = ItemOp::Mutation, std::string_view value = "v") {
        ++high;
        queue.push_back(Item::create(vbid_, op, key, {.cas = Cas{high * 10}, .seqno = Seqno{high}},
                                     Blob::create(value)));
    }

    std::function<void()> onWait;  ///< another thread has the lock and releases it after this call
    std::vector<ItemPtr> queue;
    std::vector<std::string> log;
    PersistedVbState stored;
    bool stateChange{false};
    int throwAtPrepare{0};
    std::optional<Seqno> snapshotEnd;  ///< the end of the snapshot, if it is not that of the queue
    uint64_t high{0};

  private:
    const Vbid vbid_;
    std::mutex mutex_;
    size_t taken_{0};
};

}  // namespace kv::testing_support
