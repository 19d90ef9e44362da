// Flusher: writes the mutations of one shard's vBuckets to its store, one transaction per vBucket.
//
// Dirty vBuckets wait in a queue in which each is at most once. Front-end threads call notify()
// after every mutation; a flush clears the mark first and then takes the items, so no mutation is
// forgotten. A failed transaction leaves everything dirty and is tried again after retryDelay.
//
// Ownership: refers to store, targets and executor, which must outlive it. Thread rules: notify(),
// stats() from any thread; run() and flushVBucket() from one thread at a time (the executor's task,
// or a test).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "executor/task.h"
#include "persistence/dirty_queue.h"
#include "persistence/flush_options.h"
#include "persistence/flush_target.h"
#include "persistence/flush_transaction.h"
#include "persistence/kvstore.h"

namespace kv {

struct FlusherConfig {
    size_t batchItems{
            1'000'000};  ///< flusher_batch_split_trigger: items of a transaction, whole checkpoints
    std::chrono::nanoseconds retryDelay{std::chrono::seconds(1)};  ///< after a failed transaction
    /// flusher_interval_ms: shortest time from the start of one pass over the dirty vBuckets to the
    /// next. Longer: more mutations of a key become one write, and fewer transactions.
    std::chrono::nanoseconds interval{std::chrono::milliseconds(100)};
    size_t vbucketsPerRun{64};  ///< then other tasks of the pool get their turn
};

/// Counters of a flusher; relaxed.
struct FlusherStats {
    std::atomic<uint64_t> persisted{0};  ///< requests stored: ep_total_persisted
    std::atomic<uint64_t> inserts{0};
    std::atomic<uint64_t> updates{0};
    std::atomic<uint64_t> deletes{0};       ///< tombstones that replaced a live document
    std::atomic<uint64_t> deleteMisses{0};  ///< tombstones stored where there was no live document
    std::atomic<uint64_t> failedItems{0};
    std::atomic<uint64_t> flushes{0};  ///< transactions stored
    std::atomic<uint64_t> failedFlushes{0};
    std::atomic<uint64_t> duplicates{0};  ///< older versions dropped before storing
};

enum class FlushResult : uint8_t {
    Nothing,   ///< the vBucket was clean
    Flushed,   ///< everything taken is stored
    MoreLeft,  ///< stored; the batch was full, so there may be more
    Failed,    ///< nothing stored, everything is dirty again
};

/// The context of a flush: what becomes of each request, for the vBucket and the counters.
class PersistenceContext final : public TransactionContext {
  public:
    PersistenceContext(FlushTarget& target, FlusherStats& stats)
        : TransactionContext(target.vbid()), target_(target), stats_(stats) {}
    void setCallback(const Item& item, PersistSetStatus status) override;
    void deleteCallback(const Item& item, PersistDeleteStatus status) override;

  private:
    FlushTarget& target_;
    FlusherStats& stats_;
};

/// Sorts by key, newest first, and drops all but the newest of each key. Returns how many were
/// dropped.
size_t dropOlderVersions(std::vector<ItemPtr>& items);
/// Bytes that a transaction of these items takes in the store's batch, roughly and not less.
size_t transactionBytes(const std::vector<ItemPtr>& items);
/// Reports a failed flush in the log.
void logFlushFailure(Vbid vbid, size_t items, const std::string& why);

template <class FlushSwitches>
class BasicFlusher {
  public:
    using Options = FlushSwitches;

    BasicFlusher(KVStore& store, size_t vbuckets, const FlusherConfig& config)
        : store_(store), config_(config), dirty_(vbuckets) {}
    BasicFlusher(const BasicFlusher&) = delete;
    BasicFlusher& operator=(const BasicFlusher&) = delete;

    /// Marks the vBucket dirty. True when the task must be woken: nothing was queued.
    bool notify(Vbid vbid) { return dirty_.push(vbid); }

    /// Stores what the vBucket has.
    FlushResult flushVBucket(FlushTarget& target) {
        const auto lock = target.lockForFlush();
        FlushBatch batch;
        bool stateChanged = false;
        PersistedVbState state;
        try {
            batch = target.takeItemsToPersist(config_.batchItems);
            stateChanged = target.takeStateChange();
            state = target.stateToPersist();
            if (batch.items.empty()) {
                return stateChanged ? flushState(target, state) : FlushResult::Nothing;
            }
        } catch (const std::bad_alloc&) {
            return failed(target, batch.items.size(), stateChanged, "no memory");
        }
        const size_t taken = batch.items.size();
        for (const ItemPtr& item : batch.items) {
            state.highSeqno = std::max(state.highSeqno, item->seqno());
            state.maxCas = std::max(state.maxCas, item->cas());
        }
        state.snapshot = batch.snapshot;
        std::string why = "the store refused the transaction";
        bool stored = false;
        try {
            stored = store(target, batch, state);
        } catch (const StoreError& error) {
            why = error.what();
        } catch (const std::bad_alloc&) {
            why = "no memory";  // it may even be stored: storing it again changes nothing
            stored = false;
        }
        if (!stored) {
            return failed(target, taken, stateChanged, why);
        }
        stats_.flushes.fetch_add(1, std::memory_order_relaxed);
        target.persisted(state);
        return taken >= config_.batchItems ? FlushResult::MoreLeft : FlushResult::Flushed;
    }

    /// One run of the shard's task: flushes dirty vBuckets, found through `targetOf(Vbid) ->
    /// FlushTarget&`.
    template <class TargetOf>
    TaskResult run(TaskTime now, TargetOf&& targetOf) {
        if (left_ == 0) {
            // A new pass: those dirty now; later ones wait for the next pass, which is not before
            // the interval is over.
            if (now < nextPass_) {
                return dirty_.size() == 0 ? TaskResult::untilWoken()
                                          : TaskResult::after(nextPass_ - now);
            }
            left_ = dirty_.size();
            nextPass_ = now + config_.interval;
        }
        Vbid vbid;
        for (size_t count = 0; count < config_.vbucketsPerRun && left_ > 0; ++count) {
            --left_;
            if (!dirty_.pop(vbid)) {
                break;
            }
            switch (flushVBucket(targetOf(vbid))) {
                case FlushResult::Failed:
                    dirty_.push(vbid);
                    left_ = 0;
                    nextPass_ = now + config_.retryDelay;
                    return TaskResult::after(config_.retryDelay);
                case FlushResult::MoreLeft:
                    dirty_.push(vbid);
                    break;
                case FlushResult::Nothing:
                case FlushResult::Flushed:
                    break;
            }
        }
        if (left_ > 0) {
            return TaskResult::again();
        }
        return dirty_.size() == 0 ? TaskResult::untilWoken() : TaskResult::after(config_.interval);
    }

    /// Flushes everything now, without pauses. False when a transaction failed.
    template <class TargetOf>
    bool flushAll(TargetOf&& targetOf) {
        for (Vbid vbid; dirty_.pop(vbid);) {
            const FlushResult result = flushVBucket(targetOf(vbid));
            if (result == FlushResult::Failed) {
                dirty_.push(vbid);
                return false;
            }
            if (result == FlushResult::MoreLeft) {
                dirty_.push(vbid);
            }
        }
        return true;
    }

    [[nodiscard]] const FlusherStats& stats() const { return stats_; }
    [[nodiscard]] size_t dirtyVBuckets() const { return dirty_.size(); }
    KVStore& store() { return store_; }

  private:
    bool store(FlushTarget& target, FlushBatch& batch, const PersistedVbState& state) {
        const size_t duplicates = dropOlderVersions(batch.items);
        stats_.duplicates.fetch_add(duplicates, std::memory_order_relaxed);
        BasicFlushTransaction<Options> transaction(
                store_, std::make_unique<PersistenceContext>(target, stats_),
                transactionBytes(batch.items));
        transaction.expect(batch.items);
        for (const ItemPtr& item : batch.items) {
            if (item->isDeletion()) {
                transaction.del(Options::Callback::makeDelete(item));
            } else {
                transaction.set(Options::Callback::makeSet(item));
            }
        }
        if constexpr (Options::Free::kBefore) {
            std::vector<ItemPtr>().swap(batch.items);
        }
        return transaction.commit(state);
    }

    FlushResult failed(FlushTarget& target, size_t items, bool stateChanged,
                       const std::string& why) {
        stats_.failedFlushes.fetch_add(1, std::memory_order_relaxed);
        logFlushFailure(target.vbid(), items, why);
        if (stateChanged) {
            target.stateChangeFailed();
        }
        target.persistFailed();
        return FlushResult::Failed;
    }

    FlushResult flushState(FlushTarget& target, const PersistedVbState& state) {
        if (!store_.saveVbState(target.vbid(), state)) {
            stats_.failedFlushes.fetch_add(1, std::memory_order_relaxed);
            logFlushFailure(target.vbid(), 0, "state not stored");
            target.stateChangeFailed();
            return FlushResult::Failed;
        }
        stats_.flushes.fetch_add(1, std::memory_order_relaxed);
        return FlushResult::Flushed;
    }

    KVStore& store_;
    const FlusherConfig config_;
    DirtyQueue dirty_;
    FlusherStats stats_;
    size_t left_{0};  ///< vBuckets left of this pass
    TaskTime nextPass_{0};
};

using Flusher = BasicFlusher<SelectedFlushOptions>;

}  // namespace kv
