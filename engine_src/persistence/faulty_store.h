// FaultyStore: a KVStore that fails when told to, around a real one. For tests of what a failure
// must not lose.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "persistence/kvstore.h"

namespace kv {

/// What is to fail; shared by the test and its stores.
struct StoreFaults {
    std::atomic<int> failCommits{0};  ///< so many commits are refused
    std::atomic<int> throwAtPut{0};   ///< the n-th put from now throws StoreError
    std::atomic<int> failStates{0};   ///< so many saveVbState are refused
    std::atomic<int> failSyncs{0};    ///< so many syncs are refused
};

class FaultyStore final : public KVStore {
  public:
    FaultyStore(std::unique_ptr<KVStore> real, std::shared_ptr<StoreFaults> faults)
        : real_(std::move(real)), faults_(std::move(faults)) {}

    void begin(Vbid vbid, size_t bytesHint) override { real_->begin(vbid, bytesHint); }
    void expect(std::span<const ItemPtr> items) override { real_->expect(items); }
    bool put(const Item& item) override {
        if (faults_->throwAtPut > 0 && --faults_->throwAtPut == 0) {
            throw StoreError("put refused by the test");
        }
        return real_->put(item);
    }
    void end(const PersistedVbState& state) override { real_->end(state); }
    bool commit() override {
        if (strike(faults_->failCommits)) {
            real_->abandon();
            return false;
        }
        return real_->commit();
    }
    void abandon() override { real_->abandon(); }
    bool sync() override { return !strike(faults_->failSyncs) && real_->sync(); }
    bool saveVbState(Vbid vbid, const PersistedVbState& state) override {
        return !strike(faults_->failStates) && real_->saveVbState(vbid, state);
    }
    std::optional<PersistedVbState> loadVbState(Vbid vbid) override {
        return real_->loadVbState(vbid);
    }
    std::vector<Vbid> listPersistedVbuckets() override { return real_->listPersistedVbuckets(); }
    bool delVBucket(Vbid vbid) override { return real_->delVBucket(vbid); }
    std::unique_ptr<SeqnoScan> openSeqnoScan(Vbid vbid, Seqno from, Seqno to) override {
        return real_->openSeqnoScan(vbid, from, to);
    }
    bool rollback(Vbid vbid, Seqno seqno) override { return real_->rollback(vbid, seqno); }
    bool removeTombstones(Vbid vbid, const std::vector<std::pair<std::string, Seqno>>& tombstones,
                          const PersistedVbState& state) override {
        return real_->removeTombstones(vbid, tombstones, state);
    }
    size_t countLive(Vbid vbid) override { return real_->countLive(vbid); }
    KVStoreStats stats() override { return real_->stats(); }

  protected:
    bool read(Vbid vbid, std::string_view key, std::string& buffer, StoredDoc& doc) override {
        bool found = false;
        real_->get(vbid, key, [&](const StoredDoc& stored) {
            found = true;
            buffer.assign(stored.key);
            buffer.append(stored.value);
            doc = stored;
            doc.key = std::string_view(buffer).substr(0, stored.key.size());
            doc.value = std::string_view(buffer).substr(stored.key.size());
        });
        return found;
    }

  private:
    static bool strike(std::atomic<int>& left) {
        if (left > 0) {
            --left;
            return true;
        }
        return false;
    }
    std::unique_ptr<KVStore> real_;
    std::shared_ptr<StoreFaults> faults_;
};

}  // namespace kv
