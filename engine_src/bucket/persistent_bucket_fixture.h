#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "bucket/persistent_bucket.h"
#include "executor/fake_executor.h"
#include "persistence/faulty_store.h"
#include "persistence/rocks_store.h"
#include "persistence/temp_dir.h"

namespace kv {

/// A bucket of eight vBuckets in a directory of the test, opened and closed as a process does it.
class PersistentBucketTest : public testing::Test {
  protected:
    PersistentBucketTest() {
        config_.vbuckets = 8;
        persistence_.dataDir = dir_.path();
        persistence_.stopPatience = {};
        persistence_.rocks.writeBufferBytes = 1 << 20;
        persistence_.rocks.blockCacheBytes = 1 << 20;
    }
    ~PersistentBucketTest() override { bucket_.reset(); }

    std::shared_ptr<StoreFaults> useFaultyStores() {
        auto faults = std::make_shared<StoreFaults>();
        factory_ = [this, faults](const std::string& path) {
            return std::make_unique<FaultyStore>(
                    std::make_unique<RocksStore>(path, persistence_.rocks), faults);
        };
        return faults;
    }
    PersistentBucket& open(Executor& executor) {
        bucket_ = std::make_unique<PersistentBucket>(config_, persistence_, executor, factory_);
        warmup_ = bucket_->warmUp();
        for (uint16_t id = 0; id < config_.vbuckets; ++id) {
            if (!bucket_->isStored(Vbid{id})) {
                bucket_->setVBucketState(Vbid{id}, VbState::Active, OpTime::now());
            }
        }
        bucket_->startFlushing();
        return *bucket_;
    }
    void close() { bucket_.reset(); }
    OpResult set(std::string_view key, std::string_view value, Vbid vbid = Vbid{0}) {
        const BucketMemoryGuard guard(bucket_->memory());
        return bucket_->store(vbid, key, StoreMode::Set, value, {.flags = 7, .datatype = 1},
                              OpTime::now());
    }
    std::string get(std::string_view key, Vbid vbid = Vbid{0}) {
        const BucketMemoryGuard guard(bucket_->memory());
        const OpResult result = bucket_->get(vbid, key, OpTime::now());
        return result.ok() ? std::string(result.value.view())
                           : "[" + std::string(toString(result.status)) + "]";
    }

    TempDir dir_;
    BucketConfig config_;
    PersistenceConfig persistence_;
    PersistentBucket::StoreFactory factory_;
    FakeExecutor fake_;
    std::unique_ptr<PersistentBucket> bucket_;
    WarmupResult warmup_;
};

}  // namespace kv
