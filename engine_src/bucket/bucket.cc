#include "bucket/bucket.h"

#include <algorithm>
#include <random>
#include <stdexcept>

#include "checkpoint/checkpoint_remover.h"

namespace kv {

namespace {

constexpr uint64_t kFreeableCheckNs = 100'000'000;

const BucketConfig& checked(const BucketConfig& config) {
    if (config.vbuckets == 0 || config.htSize == 0 || config.htLocks == 0) {
        throw std::invalid_argument(
                "a bucket needs at least one vBucket, one hash bucket and one lock");
    }
    if (config.maxKeyBytes > StoredValue::kMaxKey) {
        throw std::invalid_argument("keys may have at most 255 bytes");
    }
    return config;
}

}  // namespace

std::string_view toString(OpStatus status) {
    switch (status) {
        case OpStatus::Ok:
            return "ok";
        case OpStatus::KeyNotFound:
            return "key not found";
        case OpStatus::KeyExists:
            return "key exists";
        case OpStatus::NotStored:
            return "not stored";
        case OpStatus::TooBig:
            return "too big";
        case OpStatus::NotMyVbucket:
            return "not my vbucket";
        case OpStatus::TmpFail:
            return "temporary failure";
        case OpStatus::NoMemory:
            return "no memory";
        case OpStatus::DeltaBadValue:
            return "not a number";
        case OpStatus::Locked:
            return "locked";
        case OpStatus::NotLocked:
            return "not locked";
        case OpStatus::WouldBlock:
            return "would block";
        case OpStatus::Invalid:
            return "invalid";
    }
    return "unknown";
}

Bucket::Bucket(BucketType type, const BucketConfig& config)
    : type_(type),
      config_(checked(config)),
      memory_(config.quotaBytes),
      mutationThresholdBytes_(share(config_.mutationThreshold)) {
    (void)options::Topology::process();  // detected before the bucket is charged for it
    const BucketMemoryGuard guard(memory_);
    MutationSink& sink = *this;
    vbuckets_.reserve(config_.vbuckets);
    for (uint16_t i = 0; i < config_.vbuckets; ++i) {
        vbuckets_.push_back(std::make_unique<VBucket>(Vbid{i}, type, config_, sink));
    }
    std::vector<CheckpointManager*> managers;
    managers.reserve(vbuckets_.size());
    for (const auto& vbucket : vbuckets_) {
        managers.push_back(&vbucket->checkpoints());
    }
    checkpointRemover_ =
            std::make_unique<CheckpointRemover>(std::move(managers), config_.checkpoint);
}

Bucket::~Bucket() {
    destroyVBuckets();
}

void Bucket::destroyVBuckets() {
    const BucketMemoryGuard guard(memory_);
    checkpointRemover_.reset();
    vbuckets_.clear();
    vbuckets_.shrink_to_fit();
}

std::unique_ptr<Bucket> Bucket::createEphemeral(const BucketConfig& config) {
    class EphemeralBucket final : public Bucket {
      public:
        explicit EphemeralBucket(const BucketConfig& bucketConfig)
            : Bucket(BucketType::Ephemeral, bucketConfig) {}
    };
    return std::make_unique<EphemeralBucket>(config);
}

void Bucket::setQuota(size_t bytes) {
    memory_.setQuota(bytes);
    mutationThresholdBytes_.store(share(config_.mutationThreshold), std::memory_order_relaxed);
}

OpStatus Bucket::setVBucketState(Vbid vbid, VbState state, const OpTime& now) {
    if (!hasVBucket(vbid)) {
        return OpStatus::NotMyVbucket;
    }
    const BucketMemoryGuard guard(memory_);
    const auto lock = vbucket(vbid).lockState();
    vbucket(vbid).setState(state);
    onStateChange(vbucket(vbid), now);
    return OpStatus::Ok;
}

Bucket::RollBack Bucket::rollBackReplica(Vbid vbid, Seqno seqno, const OpTime& now) {
    const BucketMemoryGuard guard(memory_);
    VBucket& target = vbucket(vbid);
    const auto lock = target.lockState();
    if (target.state() != VbState::Replica) {
        return RollBack::NotReplica;
    }
    target.setState(VbState::Dead);
    const bool done = discardAbove(target, seqno, now);
    target.setState(VbState::Replica);
    onStateChange(target, now);
    if (!done) {
        return RollBack::StoreFailed;
    }
    const std::shared_lock listenersLock(listenersMutex_);
    for (SeqnoListener* listener : listeners_) {
        listener->onRolledBack(vbid);
    }
    return RollBack::Done;
}

bool Bucket::adoptHistory(Vbid vbid, std::vector<FailoverEntry> log, const OpTime& now) {
    const BucketMemoryGuard guard(memory_);
    VBucket& target = vbucket(vbid);
    const auto lock = target.lockState();
    if (target.state() != VbState::Replica) {
        return false;
    }
    target.failoverLog().replace(std::move(log));
    onStateChange(target, now);
    return true;
}

bool Bucket::discardAbove(VBucket& vbucket, Seqno /*seqno*/, const OpTime& now) {
    vbucket.clear({}, now);
    return true;
}

// --- admission
// -------------------------------------------------------------------------------------------------------

bool Bucket::findFreeableMemory() const {
    if (itemsToPersist() != 0) {
        return true;
    }
    return std::any_of(vbuckets_.begin(), vbuckets_.end(),
                       [](const std::unique_ptr<VBucket>& vbucket) {
                           if (vbucket->checkpointMemory() != 0) {
                               return true;
                           }
                           const HashTableSums sums = vbucket->hashTable().sums();
                           return sums.tombstones > 0 || sums.expiring > 0;
                       });
}

bool Bucket::canFreeMemory(const OpTime& now) {
    // A refused client tries again at once: the walk over all vBuckets is made at most ten times a
    // second.
    uint64_t checked = freeableCheckedNs_.load(std::memory_order_acquire);
    if (checked == 0 || now.nanos < checked || now.nanos - checked >= kFreeableCheckNs) {
        freeable_.store(findFreeableMemory(), std::memory_order_relaxed);
        freeableCheckedNs_.store(now.nanos, std::memory_order_release);
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
    if (memory_.estimate() + growth <= mutationThresholdBytes()) [[likely]] {
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
// ------------------------------------------------------------------------------------------------------

OpResult Bucket::get(Vbid vbid, std::string_view key, const OpTime& now) {
    if (!hasVBucket(vbid)) {
        return failed(OpStatus::NotMyVbucket);
    }
    const BucketMemoryGuard guard(memory_);
    return vbucket(vbid).get(key, now);
}

OpResult Bucket::getMeta(Vbid vbid, std::string_view key, const OpTime& now) {
    if (!hasVBucket(vbid)) {
        return failed(OpStatus::NotMyVbucket);
    }
    const BucketMemoryGuard guard(memory_);
    return vbucket(vbid).getMeta(key, now);
}

OpResult Bucket::getAndTouch(Vbid vbid, std::string_view key, uint32_t exptime, const OpTime& now) {
    if (!hasVBucket(vbid)) {
        return failed(OpStatus::NotMyVbucket);
    }
    const BucketMemoryGuard guard(memory_);
    return vbucket(vbid).getAndTouch(key, exptime, now);
}

OpResult Bucket::getAndLock(Vbid vbid, std::string_view key, uint32_t seconds, const OpTime& now) {
    if (!hasVBucket(vbid)) {
        return failed(OpStatus::NotMyVbucket);
    }
    const BucketMemoryGuard guard(memory_);
    return vbucket(vbid).getAndLock(key, seconds, now);
}

OpResult Bucket::unlock(Vbid vbid, std::string_view key, Cas cas, const OpTime& now) {
    if (!hasVBucket(vbid)) {
        return failed(OpStatus::NotMyVbucket);
    }
    const BucketMemoryGuard guard(memory_);
    return vbucket(vbid).unlock(key, cas, now);
}

namespace {
constexpr uint32_t kRandomSkips = 8;  // more than documents share a hash bucket, as a rule
}  // namespace

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
    // The value is charged already.
    if (const OpStatus status = admit(vbid, key, value.view().size(), key.size(), now);
        status != OpStatus::Ok) {
        value = {};
        return failed(status);
    }
    return vbucket(vbid).store(key, mode, std::move(value), args, now);
}

OpResult Bucket::concat(Vbid vbid, std::string_view key, Concat where, std::string_view value,
                        Cas cas, const OpTime& now) {
    if (const OpStatus status = admit(vbid, key, value.size(), value.size(), now);
        status != OpStatus::Ok) {
        return failed(status);
    }
    const BucketMemoryGuard guard(memory_);
    return vbucket(vbid).concat(key, where, value, cas, now);
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
    // Never refused for want of memory: it is what gives memory back.
    if (!hasVBucket(vbid)) {
        return failed(OpStatus::NotMyVbucket);
    }
    const BucketMemoryGuard guard(memory_);
    return vbucket(vbid).remove(key, cas, now);
}

OpResult Bucket::touch(Vbid vbid, std::string_view key, uint32_t exptime, const OpTime& now) {
    if (!hasVBucket(vbid)) {
        return failed(OpStatus::NotMyVbucket);
    }
    const BucketMemoryGuard guard(memory_);
    return vbucket(vbid).touch(key, exptime, now);
}

OpResult Bucket::storeVersion(Vbid vbid, std::string_view key, std::string_view value,
                              const VersionArgs& version, const OpTime& now) {
    const size_t growth = version.deleted ? 0 : value.size() + key.size();
    if (const OpStatus status = admit(vbid, key, value.size(), growth, now);
        status != OpStatus::Ok) {
        return failed(status);
    }
    const BucketMemoryGuard guard(memory_);
    return putVersion(vbid, key, version.deleted ? BlobPtr{} : Blob::create(value), version, now);
}

OpResult Bucket::storeVersion(Vbid vbid, std::string_view key, BlobPtr value,
                              const VersionArgs& version, const OpTime& now) {
    const BucketMemoryGuard guard(memory_);
    // The value is charged already.
    if (const OpStatus status = admit(vbid, key, value.view().size(), key.size(), now);
        status != OpStatus::Ok) {
        value = {};
        return failed(status);
    }
    return putVersion(vbid, key, std::move(value), version, now);
}

OpResult Bucket::putVersion(Vbid vbid, std::string_view key, BlobPtr value,
                            const VersionArgs& version, const OpTime& now) {
    const auto onDisk = [&](std::optional<ItemMeta>& tombstone) {
        return findTombstone(vbid, key, tombstone);
    };
    return vbucket(vbid).storeVersion(key, std::move(value), version, onDisk, now);
}

OpResult Bucket::flushAll(const OpTime& now) {
    const BucketMemoryGuard guard(memory_);
    for (const auto& vbucket : vbuckets_) {
        vbucket->removeAll(now);
    }
    return {};
}

// --- background
// ------------------------------------------------------------------------------------------------------

size_t Bucket::expirePass(const OpTime& now) {
    const BucketMemoryGuard guard(memory_);
    size_t expired = 0;
    for (const auto& vbucket : vbuckets_) {
        expired += vbucket->expirePass(now);
    }
    counters_.expiredByPass.fetch_add(expired, std::memory_order_relaxed);
    return expired;
}

size_t Bucket::resizeHashTables() {
    const BucketMemoryGuard guard(memory_);
    size_t resized = 0;
    for (const auto& vbucket : vbuckets_) {
        resized += vbucket->hashTable().resizeIfNeeded() ? size_t{1} : 0;
    }
    counters_.hashResizes.fetch_add(resized, std::memory_order_relaxed);
    return resized;
}

size_t Bucket::purgeTombstones(const OpTime& now) {
    const BucketMemoryGuard guard(memory_);
    size_t purged = 0;
    for (const auto& vbucket : vbuckets_) {
        purged += vbucket->purgeTombstones(config_.ephemeralPurgeAgeS, now);
    }
    return purged;
}

size_t Bucket::removeClosedCheckpoints(const OpTime& now) {
    const BucketMemoryGuard guard(memory_);
    const std::lock_guard lock(checkpointRemoverMutex_);
    const bool full = memory_.precise() > highWatermarkBytes();
    const CheckpointRecovery done =
            checkpointRemover_->run(memory_.quota(), full, now.nanos, cursorDropper_);
    cursorsDropped_.fetch_add(done.cursorsDropped, std::memory_order_relaxed);
    checkpointBytesExpelled_.fetch_add(done.bytesExpelled, std::memory_order_relaxed);
    return done.checkpointsRemoved;
}

bool Bucket::needsCheckpointRecovery() const {
    return memory_.estimate() > highWatermarkBytes() || checkpointRemover_->isOver(memory_.quota());
}

void Bucket::setCursorDropper(CursorDropper* dropper) {
    const std::lock_guard lock(checkpointRemoverMutex_);
    cursorDropper_ = dropper;
}

// --- listeners
// -------------------------------------------------------------------------------------------------------

void Bucket::onQueued(VBucket& vbucket, Seqno seqno) noexcept {
    onMutation(vbucket, seqno);
    if (listenerCount_.load(std::memory_order_acquire) == 0) [[likely]] {
        return;
    }
    const std::shared_lock lock(listenersMutex_);
    for (SeqnoListener* listener : listeners_) {
        listener->onSeqno(vbucket.id(), seqno);
    }
}

void Bucket::addSeqnoListener(SeqnoListener* listener) {
    const std::unique_lock lock(listenersMutex_);
    listeners_.push_back(listener);
    listenerCount_.store(listeners_.size(), std::memory_order_release);
}

void Bucket::removeSeqnoListener(SeqnoListener* listener) {
    const std::unique_lock lock(listenersMutex_);
    std::erase(listeners_, listener);
    listenerCount_.store(listeners_.size(), std::memory_order_release);
}

// --- figures
// ---------------------------------------------------------------------------------------------------------

size_t Bucket::itemsToPersist() const {
    return 0;
}

void Bucket::resetStats() {
    for (auto* counter : {&counters_.tmpOomErrors, &counters_.oomErrors, &counters_.expiredOnAccess,
                          &counters_.expiredByPass, &counters_.hashResizes}) {
        counter->store(0, std::memory_order_relaxed);
    }
}

BucketStats Bucket::stats() const {
    BucketStats stats;
    HashTableSums total;
    for (const auto& vbucket : vbuckets_) {
        const HashTable& table = vbucket->hashTable();
        const HashTableSums sums = table.sums();
        total.items += sums.items;
        total.tombstones += sums.tombstones;
        total.nonResident += sums.nonResident;
        total.expiring += sums.expiring;
        total.metaBytes += sums.metaBytes;
        total.valueBytes += sums.valueBytes;
        stats.hashTableMemory += table.fixedBytes();
        stats.checkpointMemory += vbucket->checkpoints().memory();
        if (const SequenceList* sequence = vbucket->sequence()) {
            stats.staleVersions += sequence->staleCount();
        }
    }
    // A sum read while mutations run may be off, and even below zero, for a moment.
    const auto count = [](int64_t value) {
        return static_cast<size_t>(std::max<int64_t>(0, value));
    };
    stats.items = count(total.items);
    stats.tombstones = count(total.tombstones);
    stats.nonResident = count(total.nonResident);
    stats.expiring = count(total.expiring);
    stats.valueSize = count(total.valueBytes);
    stats.kvSize = count(total.metaBytes + total.valueBytes);
    stats.storedValues = count(total.items + total.tombstones);
    stats.blobs = count(total.items - total.nonResident);
    stats.overhead = stats.hashTableMemory + stats.checkpointMemory;
    if (!vbuckets_.empty()) {
        stats.htStatsBytesPerVb = vbuckets_.front()->hashTable().statsBytes();
        stats.htStatsStripes = vbuckets_.front()->hashTable().statsStripes();
    }
    return stats;
}

}  // namespace kv
