// The fixture of the tests of a CheckpointManager: one manager of vBucket 0, made on first use.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint_manager.h"

namespace kv {

class CheckpointManagerTest : public testing::Test {
  protected:
    QueueResult queue(std::string_view key, Seqno previous = Seqno{}, uint64_t now = 1) {
        return manager().queueDirty(
                Item::create(Vbid{0}, ItemOp::Mutation, key, {}, Blob::create("x")), previous,
                GenerateSeqno::Yes, GenerateCas::Yes, now);
    }
    static std::vector<std::string> keys(const CursorItems& read) {
        std::vector<std::string> result;
        for (const ItemPtr& item : read.items) {
            result.emplace_back(item->key());
        }
        return result;
    }
    CheckpointManager& manager() {
        if (manager_ == nullptr) {
            manager_ = std::make_unique<CheckpointManager>(Vbid{0}, config_);
        }
        return *manager_;
    }
    CheckpointConfig config_;

  private:
    std::unique_ptr<CheckpointManager> manager_;
};

}  // namespace kv
