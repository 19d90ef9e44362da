// Shared by the tests of the bucket: a bucket with active vBuckets, a persistent one without a
// flusher, short forms of operations.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bucket/bucket.h"

namespace kv::test {

/// A persistent bucket without a flusher; the test flushes.
class UnflushedBucket final : public Bucket {
  public:
    explicit UnflushedBucket(const BucketConfig& config) : Bucket(BucketType::Persistent, config) {}

    [[nodiscard]] size_t itemsToPersist() const override {
        size_t items = 0;
        for (uint16_t i = 0; i < vbucketCount(); ++i) {
            items += vbucket(Vbid{i}).checkpoints().unpersisted();
        }
        return items;
    }
    /// Takes everything that the vBucket has queued and marks it as stored.
    std::vector<ItemPtr> flush(Vbid vbid) {
        const BucketMemoryGuard guard(memory());
        VBucket& target = vbucket(vbid);
        auto taken = target.checkpoints().persistence().takeItemsToPersist(1'000'000);
        for (const ItemPtr& item : taken.items) {
            target.onPersisted(*item);
        }
        target.checkpoints().persistence().persisted();
        return std::move(taken.items);
    }
};

inline std::unique_ptr<Bucket> makeBucket(BucketType type, const BucketConfig& config) {
    std::unique_ptr<Bucket> bucket;
    if (type == BucketType::Ephemeral) {
        bucket = Bucket::createEphemeral(config);
    } else {
        bucket = std::make_unique<UnflushedBucket>(config);
    }
    for (uint16_t i = 0; i < bucket->vbucketCount(); ++i) {
        bucket->setVBucketState(Vbid{i}, VbState::Active, OpTime::now());
    }
    return bucket;
}

/// Operations on vBucket 0 at a time that the test sets.
class Client {
  public:
    explicit Client(Bucket& bucket) : bucket_(bucket), guard_(bucket.memory()) {}

    OpTime now = OpTime::fromNanos(1'700'000'000'000'000'000);
    void wait(uint32_t seconds) {
        setWallClock(seconds);
        now.steady += uint64_t{seconds} * 1'000'000'000;
    }
    /// Sets the wall clock forward or back; the monotonic clock goes on.
    void setWallClock(int64_t bySeconds) {
        const uint64_t steady = now.steady;
        now = OpTime::fromNanos(now.nanos + static_cast<uint64_t>(bySeconds * 1'000'000'000));
        now.steady = steady;
    }

    OpResult set(std::string_view key, std::string_view value, const StoreArgs& args = {}) {
        return bucket_.store(kVb, key, StoreMode::Set, value, args, now);
    }
    OpResult add(std::string_view key, std::string_view value, const StoreArgs& args = {}) {
        return bucket_.store(kVb, key, StoreMode::Add, value, args, now);
    }
    OpResult replace(std::string_view key, std::string_view value, const StoreArgs& args = {}) {
        return bucket_.store(kVb, key, StoreMode::Replace, value, args, now);
    }
    OpResult get(std::string_view key) { return bucket_.get(kVb, key, now); }
    OpResult getMeta(std::string_view key) { return bucket_.getMeta(kVb, key, now); }
    OpResult remove(std::string_view key, Cas cas = {}) {
        return bucket_.remove(kVb, key, cas, now);
    }
    OpResult concat(std::string_view key, Concat where, std::string_view value, Cas cas = {}) {
        return bucket_.concat(kVb, key, where, value, cas, now);
    }
    OpResult arithmetic(std::string_view key, const ArithmeticArgs& args) {
        return bucket_.arithmetic(kVb, key, args, now);
    }
    OpResult touch(std::string_view key, uint32_t exptime) {
        return bucket_.touch(kVb, key, exptime, now);
    }
    OpResult getAndTouch(std::string_view key, uint32_t exptime) {
        return bucket_.getAndTouch(kVb, key, exptime, now);
    }
    OpResult getAndLock(std::string_view key, uint32_t seconds) {
        return bucket_.getAndLock(kVb, key, seconds, now);
    }
    OpResult unlock(std::string_view key, Cas cas) { return bucket_.unlock(kVb, key, cas, now); }
    /// Returns the value, or the status in brackets.
    std::string valueOf(std::string_view key) {
        const OpResult result = get(key);
        return result.ok() ? std::string(result.value.view())
                           : '[' + std::string(toString(result.status)) + ']';
    }
    VBucket& vb() { return bucket_.vbucket(kVb); }
    Bucket& bucket() { return bucket_; }

    static constexpr Vbid kVb{0};

  private:
    Bucket& bucket_;
    BucketMemoryGuard guard_;
};

}  // namespace kv::test
