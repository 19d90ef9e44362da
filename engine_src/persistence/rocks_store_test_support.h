// The fixture of the tests of a RocksStore: a store in an empty directory, on a disk that can fail.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "persistence/full_disk.h"
#include "persistence/rocks_store.h"
#include "persistence/temp_dir.h"

namespace kv {

class RocksStoreTest : public testing::Test {
  protected:
    RocksStoreTest() {
        std::filesystem::create_directory(path_);
        open();
    }
    ~RocksStoreTest() override { store_.reset(); }
    void open() {
        store_.reset();
        store_ = std::make_unique<RocksStore>((path_ / "db").string(), config_);
    }
    static ItemPtr item(Vbid vbid, std::string_view key, uint64_t seqno,
                        ItemOp op = ItemOp::Mutation, std::string_view value = "value") {
        return Item::create(vbid, op, key,
                            {.cas = Cas{seqno * 10},
                             .seqno = Seqno{seqno},
                             .revSeqno = seqno + 1,
                             .flags = 0xdeadbeef,
                             .exptime = 17,
                             .datatype = 5},
                            isDeletion(op) ? BlobPtr{} : Blob::create(value));
    }
    static PersistedVbState state(uint64_t high) {
        return {.state = 1,
                .highSeqno = Seqno{high},
                .snapshot = {Seqno{1}, Seqno{high}},
                .maxCas = Cas{high * 10},
                .failoverLog = {{VbUuid{77}, Seqno{0}}}};
    }
    bool store(Vbid vbid, const std::vector<ItemPtr>& items, uint64_t high) {
        store_->begin(vbid, 0);
        for (const ItemPtr& document : items) {
            store_->put(*document);
        }
        return store_->endAndCommit(state(high));
    }
    std::vector<std::pair<uint64_t, std::string>> scan(Vbid vbid, uint64_t from = 1,
                                                       uint64_t to = ~uint64_t{0}) {
        std::vector<std::pair<uint64_t, std::string>> result;
        const auto reader = store_->openSeqnoScan(vbid, Seqno{from}, Seqno{to});
        if (reader != nullptr) {
            for (StoredDoc doc; reader->next(doc);) {
                result.emplace_back(doc.meta.seqno.get(), std::string(doc.key));
            }
        }
        return result;
    }
    using Docs = std::vector<std::pair<uint64_t, std::string>>;

    const TempDir dir_;
    const std::filesystem::path path_{dir_.path()};
    FullDisk disk_;
    RocksConfig config_{.writeBufferBytes = 1 << 20, .blockCacheBytes = 1 << 20, .env = &disk_};
    std::unique_ptr<RocksStore> store_;
};

}  // namespace kv
