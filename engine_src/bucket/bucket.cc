#include "bucket/bucket.h"

#include <stdexcept>

#include "checkpoint/checkpoint_remover.h"

namespace kv {

namespace {

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

Bucket::Bucket(BucketType type, const BucketConfig& config)
    : type_(type),
      config_(checked(config)),
      memory_(config.quotaBytes),
      mutationThresholdBytes_(share(config_.mutationThreshold)) {
    staleBudget_.setMost(share(kStaleShare));
    (void)options::Topology::process();  // detected before the bucket is charged for it
    const BucketMemoryGuard guard(memory_);
    MutationSink& sink = *this;
    vbuckets_.reserve(config_.vbuckets);
    for (uint16_t i = 0; i < config_.vbuckets; ++i) {
        vbuckets_.push_back(std::make_unique<VBucket>(Vbid{i}, type, config_, sink));
        if (SequenceList* list = vbuckets_.back()->sequence()) {
            list->setBudget(staleBudget_);
        }
    }
    std::vector<CheckpointRemoval> logs;
    logs.reserve(vbuckets_.size());
    for (const auto& vbucket : vbuckets_) {
        logs.push_back(vbucket->checkpoints().removal());
    }
    checkpointRemover_ = std::make_unique<CheckpointRemover>(std::move(logs), config_.checkpoint);
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
    staleBudget_.setMost(share(kStaleShare));
}

OpStatus Bucket::setVBucketState(Vbid vbid, VbState state, const OpTime& now, IfBusy ifBusy) {
    if (!hasVBucket(vbid)) {
        return OpStatus::NotMyVbucket;
    }
    const BucketMemoryGuard guard(memory_);
    const auto lock =
            ifBusy == IfBusy::Wait ? vbucket(vbid).lockState() : vbucket(vbid).tryLockState();
    if (!lock.owns_lock()) {
        return OpStatus::WouldBlock;
    }
    vbucket(vbid).setState(state, [this, vbid] { listeners_.notifyStateChanged(vbid); });
    onStateChange(vbucket(vbid), now);
    return OpStatus::Ok;
}

OpStatus Bucket::deleteVBucket(Vbid vbid, const OpTime& now) {
    if (!hasVBucket(vbid)) {
        return OpStatus::NotMyVbucket;
    }
    const BucketMemoryGuard guard(memory_);
    VBucket& target = vbucket(vbid);
    const auto lock = target.tryLockState();
    if (!lock.owns_lock()) {
        return OpStatus::WouldBlock;
    }
    if (target.state() != VbState::Dead) {
        return OpStatus::Invalid;
    }
    if (!discardAbove(target, Seqno{0}, {.state = static_cast<uint8_t>(VbState::Dead)}, now,
                      lockForFlush(vbid))) {
        return OpStatus::TmpFail;
    }
    target.failoverLog().replace({});
    onStateChange(target, now);
    listeners_.notifyRolledBack(vbid);
    return OpStatus::Ok;
}

Bucket::RollBack Bucket::rollBackReplica(Vbid vbid, uint64_t term, Seqno seqno, const OpTime& now) {
    const BucketMemoryGuard guard(memory_);
    VBucket& target = vbucket(vbid);
    const auto lock = target.lockState();
    if (target.state() != VbState::Replica || target.term() != term) {
        return RollBack::NotReplica;
    }
    const PersistedVbState left{.state = static_cast<uint8_t>(VbState::Replica),
                                .failoverLog = target.failoverLog().entries()};
    bool done = false;
    {
        // Held from before the vBucket is dead until it is a replica again: a flush in between
        // would store that it is dead, and a crash then would make that permanent.
        const FlushLock flushLock = lockForFlush(vbid);
        target.setState(VbState::Dead);
        try {
            done = discardAbove(target, seqno, left, now, flushLock);
        } catch (...) {
            target.setState(VbState::Replica);
            throw;
        }
        target.setState(VbState::Replica);
    }
    onStateChange(target, now);
    if (!done) {
        return RollBack::StoreFailed;
    }
    listeners_.notifyRolledBack(vbid);
    return RollBack::Done;
}

bool Bucket::adoptHistory(Vbid vbid, uint64_t term, std::vector<FailoverEntry> log,
                          const OpTime& now) {
    const BucketMemoryGuard guard(memory_);
    VBucket& target = vbucket(vbid);
    const auto lock = target.lockState();
    if (target.state() != VbState::Replica || target.term() != term) {
        return false;
    }
    const bool isNew = target.failoverLog().entries() != log;
    if (!isNew && target.refusedHistory() == VbUuid{}) {
        return true;
    }
    target.failoverLog().replace(std::move(log));
    target.setRefusedHistory({});
    onStateChange(target, now);
    if (isNew) {
        listeners_.notifyStateChanged(vbid);
    }
    return true;
}

void Bucket::refuseHistory(Vbid vbid, uint64_t term, VbUuid uuid, const OpTime& now) {
    const BucketMemoryGuard guard(memory_);
    VBucket& target = vbucket(vbid);
    const auto lock = target.lockState();
    if (target.state() == VbState::Replica && target.term() == term &&
        target.refusedHistory() != uuid) {
        target.setRefusedHistory(uuid);
        onStateChange(target, now);
    }
}

bool Bucket::discardAbove(VBucket& vbucket, Seqno /*seqno*/, const PersistedVbState& /*left*/,
                          const OpTime& now, const FlushLock& /*lock*/) {
    vbucket.clear({}, now);
    return true;
}

// --- background

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

size_t Bucket::purgeTombstonesOf(Vbid vbid, const OpTime& now) {
    const BucketMemoryGuard guard(memory_);
    return vbucket(vbid).purgeTombstones(config_.ephemeralPurgeAgeS, now);
}

size_t Bucket::purgeTombstones(const OpTime& now) {
    size_t purged = 0;
    for (uint16_t vb = 0; vb < vbucketCount(); ++vb) {
        purged += purgeTombstonesOf(Vbid{vb}, now);
    }
    return purged;
}

size_t Bucket::removeClosedCheckpoints(const OpTime& now) {
    const BucketMemoryGuard guard(memory_);
    const std::lock_guard lock(checkpointRemoverMutex_);
    const size_t used = memory_.precise();
    const size_t most = highWatermarkBytes();
    return checkpointRemover_
            ->run(memory_.quota(), used > most ? used - most : 0, now.nanos, cursorDropper_)
            .checkpointsRemoved;
}

bool Bucket::needsCheckpointRecovery() const {
    return memory_.estimate() > highWatermarkBytes() || checkpointRemover_->isOver(memory_.quota());
}

void Bucket::setCursorDropper(CursorDropper* dropper) {
    const std::lock_guard lock(checkpointRemoverMutex_);
    cursorDropper_ = dropper;
}

// --- figures

size_t Bucket::itemsToPersist() const {
    return 0;
}

void Bucket::resetStats() {
    for (auto* counter : {&counters_.tmpOomErrors, &counters_.oomErrors, &counters_.expiredOnAccess,
                          &counters_.expiredByPass, &counters_.hashResizes}) {
        counter->store(0, std::memory_order_relaxed);
    }
}

}  // namespace kv
