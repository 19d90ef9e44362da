// ForwardingStore: a KVStore that forwards every call to a real one. Base of the tests' stores,
// which override the functions that they test.
#pragma once

#include <memory>
#include <utility>

#include "persistence/kvstore.h"

namespace kv {

class ForwardingStore : public KVStore {
  public:
    explicit ForwardingStore(std::unique_ptr<KVStore> real) : real_(std::move(real)) {}

    void begin(Vbid vbid, size_t bytesHint) override { real_->begin(vbid, bytesHint); }
    void expect(std::span<const ItemPtr> items) override { real_->expect(items); }
    bool put(const Item& item) override { return real_->put(item); }
    void end(const PersistedVbState& state) override { real_->end(state); }
    bool commit() override { return real_->commit(); }
    void abandon() override { real_->abandon(); }
    bool sync() override { return real_->sync(); }
    bool emptyLog() override { return real_->emptyLog(); }
    void forgetGaps() override { real_->forgetGaps(); }
    bool saveVbState(Vbid vbid, const PersistedVbState& state) override {
        return real_->saveVbState(vbid, state);
    }
    std::optional<PersistedVbState> loadVbState(Vbid vbid) override {
        return real_->loadVbState(vbid);
    }
    std::vector<Vbid> listPersistedVbuckets() override { return real_->listPersistedVbuckets(); }
    bool delVBucket(Vbid vbid, const PersistedVbState& left) override {
        return real_->delVBucket(vbid, left);
    }
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
    FileBytes fileBytes() override { return real_->fileBytes(); }

  protected:
    Lookup read(Vbid vbid, std::string_view key, Reads reads, std::string& buffer,
                StoredDoc& doc) override {
        return real_->look(vbid, key, reads, [&](const StoredDoc& stored) {
            buffer.assign(stored.key);
            buffer.append(stored.value);
            doc = stored;
            doc.key = std::string_view(buffer).substr(0, stored.key.size());
            doc.value = std::string_view(buffer).substr(stored.key.size());
        });
    }

  private:
    std::unique_ptr<KVStore> real_;
};

}  // namespace kv
