// The operations of clients on a bucket: each checks for room and then runs the vBucket's
// operation, with the bucket charged.
#include <algorithm>
#include <functional>
#include <random>
#include <utility>

#include "bucket/bucket.h"

namespace kv {

namespace {

constexpr uint64_t kFreeableCheckNs = 100'000'000;
constexpr uint32_t kRandomSkips = 8;  // usually more than the documents of a hash bucket

/// Runs an operation that takes no memory worth checking.
template <auto Operation, class... Args>
OpResult inVBucket(Bucket& bucket, Vbid vbid, Args&&... args) {
    if (!bucket.hasVBucket(vbid)) {
        return failed(OpStatus::NotMyVbucket);
    }
    const BucketMemoryGuard guard(bucket.memory());
    return (bucket.vbucket(vbid).*Operation)(std::forward<Args>(args)...);
}

}  // namespace

// --- admission

bool Bucket::findFreeableMemory() const {
    if (itemsToPersist() != 0) {
        return true;
    }
    return std::any_of(
            vbuckets_.begin(), vbuckets_.end(), [](const std::unique_ptr<VBucket>& vbucket) {
                if (vbucket->checkpointMemory() != 0 || vbucket->keyLocks().size() != 0) {
                    return true;
                }
                const HashTableSums sums = vbucket->hashTable().sums();
                return sums.tombstones > 0 || sums.expiring > 0;
            });
}

bool Bucket::canFreeMemory(const OpTime& now) {
    // A refused client tries again at once, so all vBuckets are visited at most ten times a second.
    uint64_t checked = freeableCheckedNs_.load(std::memory_order_acquire);
    if (checked == 0 || now.steady - checked >= kFreeableCheckNs) {
        freeable_.store(findFreeableMemory(), std::memory_order_relaxed);
        freeableCheckedNs_.store(now.steady, std::memory_order_release);
    }
    return freeable_.load(std::memory_order_relaxed);
}

OpStatus Bucket::admit(Vbid vbid, std::string_view key, size_t valueBytes, size_t growth,
                       const OpTime& now) {
    if (!hasVBucket(vbid)) {
        return OpStatus::NotMyVbucket;
    }
    if (key.empty()) {
        return OpStatus::Invalid;
    }
    if (key.size() > config_.maxKeyBytes || valueBytes > config_.maxValueBytes) {
        return OpStatus::TooBig;
    }
    const size_t most = mutationThresholdBytes();
    const size_t wanted = memory_.estimate() + growth;
    if (wanted <= most - most / 16) [[likely]] {
        return OpStatus::Ok;
    }
    // Before mutations are refused, slow readers release the versions that they hold.
    staleBudget_.notifySpent();
    if (wanted <= most) {
        return OpStatus::Ok;
    }
    if (canFreeMemory(now)) {
        counters_.tmpOomErrors.fetch_add(1, std::memory_order_relaxed);
        return OpStatus::TmpFail;
    }
    counters_.oomErrors.fetch_add(1, std::memory_order_relaxed);
    return OpStatus::NoMemory;
}

// --- operations

OpResult Bucket::get(Vbid vbid, std::string_view key, const OpTime& now) {
    return inVBucket<&VBucket::get>(*this, vbid, key, now);
}

Bucket::Stored Bucket::readStored(Vbid vbid, std::string_view key) {
    Stored stored;
    if (hasVBucket(vbid)) {
        stored.drops = vbucket(vbid).drops();  // before the read
        stored.status = findTombstone(vbid, key, Disk::Wait, stored.tombstone);
    }
    return stored;
}

OpStatus Bucket::findStored(Vbid vbid, std::string_view key, const Stored* stored,
                            std::optional<ItemMeta>& tombstone) {
    if (stored != nullptr && stored->drops == vbucket(vbid).drops()) {
        // The key has not been in memory since.
        tombstone = stored->tombstone;
        return stored->status;
    }
    return findTombstone(vbid, key, Disk::Never, tombstone);
}

OpResult Bucket::getMeta(Vbid vbid, std::string_view key, const OpTime& now, const Stored* stored) {
    const auto onDisk = [&](std::optional<ItemMeta>& tombstone) {
        return findStored(vbid, key, stored, tombstone);
    };
    return inVBucket<&VBucket::getMeta>(*this, vbid, key, now, std::cref(onDisk));
}

OpResult Bucket::getAndTouch(Vbid vbid, std::string_view key, uint32_t exptime, const OpTime& now) {
    if (const OpStatus status = admit(vbid, key, 0, key.size(), now); status != OpStatus::Ok) {
        return failed(status);
    }
    return inVBucket<&VBucket::getAndTouch>(*this, vbid, key, exptime, now);
}

OpResult Bucket::getAndLock(Vbid vbid, std::string_view key, uint32_t seconds, const OpTime& now) {
    if (const OpStatus status = admit(vbid, key, 0, key.size(), now); status != OpStatus::Ok) {
        return failed(status);
    }
    return inVBucket<&VBucket::getAndLock>(*this, vbid, key, seconds, now);
}

OpResult Bucket::unlock(Vbid vbid, std::string_view key, Cas cas, const OpTime& now) {
    return inVBucket<&VBucket::unlock>(*this, vbid, key, cas, now);
}

OpResult Bucket::getRandom(std::string& key, const OpTime& now) {
    static thread_local std::minstd_rand random{std::random_device{}()};
    const auto first = static_cast<size_t>(random());
    for (size_t i = 0; i < vbuckets_.size(); ++i) {
        VBucket& candidate = *vbuckets_[(first + i) % vbuckets_.size()];
        if (candidate.state() != VbState::Active || candidate.hashTable().sums().items <= 0) {
            continue;
        }
        const auto position = static_cast<uint32_t>(random()) << 1;
        OpResult result = candidate.getRandom(position, random() % kRandomSkips, key, now);
        if (result.ok()) {
            return result;
        }
    }
    return failed(OpStatus::KeyNotFound);
}

OpResult Bucket::store(Vbid vbid, std::string_view key, StoreMode mode, std::string_view value,
                       const StoreArgs& args, const OpTime& now) {
    if (const OpStatus status = admit(vbid, key, value.size(), value.size() + key.size(), now);
        status != OpStatus::Ok) {
        return failed(status);
    }
    const BucketMemoryGuard guard(memory_);
    return vbucket(vbid).store(key, mode, Blob::create(value), args, now);
}

OpResult Bucket::store(Vbid vbid, std::string_view key, StoreMode mode, BlobPtr value,
                       const StoreArgs& args, const OpTime& now) {
    const BucketMemoryGuard guard(memory_);
    // The value is already charged.
    if (const OpStatus status = admit(vbid, key, value.view().size(), key.size(), now);
        status != OpStatus::Ok) {
        value = {};
        return failed(status);
    }
    return vbucket(vbid).store(key, mode, std::move(value), args, now);
}

OpResult Bucket::concat(Vbid vbid, std::string_view key, Concat where, std::string_view value,
                        Cas cas, const OpTime& now, size_t mostBytes) {
    if (const OpStatus status = admit(vbid, key, value.size(), value.size(), now);
        status != OpStatus::Ok) {
        return failed(status);
    }
    const BucketMemoryGuard guard(memory_);
    return vbucket(vbid).concat(key, where, value, cas, now, mostBytes);
}

OpResult Bucket::arithmetic(Vbid vbid, std::string_view key, const ArithmeticArgs& args,
                            const OpTime& now) {
    if (const OpStatus status = admit(vbid, key, 0, key.size(), now); status != OpStatus::Ok) {
        return failed(status);
    }
    const BucketMemoryGuard guard(memory_);
    return vbucket(vbid).arithmetic(key, args, now);
}

OpResult Bucket::remove(Vbid vbid, std::string_view key, Cas cas, const OpTime& now) {
    // Never refused for lack of memory, because a deletion frees memory, as a flush does.
    return inVBucket<&VBucket::remove>(*this, vbid, key, cas, now);
}

OpResult Bucket::touch(Vbid vbid, std::string_view key, uint32_t exptime, const OpTime& now) {
    if (const OpStatus status = admit(vbid, key, 0, key.size(), now); status != OpStatus::Ok) {
        return failed(status);
    }
    return inVBucket<&VBucket::touch>(*this, vbid, key, exptime, now);
}

OpResult Bucket::storeVersion(Vbid vbid, std::string_view key, std::string_view value,
                              const VersionArgs& version, const OpTime& now, const Stored* stored) {
    const size_t growth = version.deleted ? 0 : value.size() + key.size();
    if (const OpStatus status = admit(vbid, key, value.size(), growth, now);
        status != OpStatus::Ok) {
        return failed(status);
    }
    const BucketMemoryGuard guard(memory_);
    const auto onDisk = [&](std::optional<ItemMeta>& tombstone) {
        return findStored(vbid, key, stored, tombstone);
    };
    return vbucket(vbid).storeVersion(key, version.deleted ? BlobPtr{} : Blob::create(value),
                                      version, std::cref(onDisk), now);
}

OpResult Bucket::flushAll(const OpTime& now) {
    const BucketMemoryGuard guard(memory_);
    for (const auto& vbucket : vbuckets_) {
        vbucket->removeAll(now);
    }
    return {};
}

}  // namespace kv
