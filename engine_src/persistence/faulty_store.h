// FaultyStore: a KVStore that fails on request, around a real one. For tests of data that a failure
// must not lose.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "persistence/forwarding_store.h"

namespace kv {

/// The failures to inject; shared by the test and its stores.
struct StoreFaults {
    std::atomic<int> failCommits{0};  ///< number of commits to refuse
    std::atomic<int> throwAtPut{0};   ///< the n-th put from now throws StoreError
    std::atomic<int> failStates{0};   ///< number of saveVbState to refuse
    std::atomic<int> failSyncs{0};    ///< number of syncs to refuse
    std::atomic<int> failScans{0};    ///< number of scans that throw StoreError at once
    std::atomic<int> failDeletes{0};  ///< number of delVBucket to refuse
};

class FaultyStore final : public ForwardingStore {
  public:
    FaultyStore(std::unique_ptr<KVStore> real, std::shared_ptr<StoreFaults> faults)
        : ForwardingStore(std::move(real)), faults_(std::move(faults)) {}

    bool put(const Item& item) override {
        if (faults_->throwAtPut > 0 && --faults_->throwAtPut == 0) {
            throw StoreError("put refused by the test");
        }
        return ForwardingStore::put(item);
    }
    bool commit() override {
        if (strike(faults_->failCommits)) {
            abandon();
            return false;
        }
        return ForwardingStore::commit();
    }
    bool sync() override { return !strike(faults_->failSyncs) && ForwardingStore::sync(); }
    std::unique_ptr<SeqnoScan> openSeqnoScan(Vbid vbid, Seqno from, Seqno to) override {
        if (strike(faults_->failScans)) {
            throw StoreError("scan refused by the test");
        }
        return ForwardingStore::openSeqnoScan(vbid, from, to);
    }
    bool delVBucket(Vbid vbid, const PersistedVbState& left) override {
        return !strike(faults_->failDeletes) && ForwardingStore::delVBucket(vbid, left);
    }
    bool saveVbState(Vbid vbid, const PersistedVbState& state) override {
        return !strike(faults_->failStates) && ForwardingStore::saveVbState(vbid, state);
    }

  private:
    static bool strike(std::atomic<int>& left) {
        if (left > 0) {
            --left;
            return true;
        }
        return false;
    }
    std::shared_ptr<StoreFaults> faults_;
};

}  // namespace kv
