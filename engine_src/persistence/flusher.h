// Flusher: writes the mutations of one shard's vBuckets to its store: one transaction per vBucket,
// and one write of the store for the transactions of several.
//
// Dirty vBuckets wait in a queue that contains each at most once. Front-end threads call notify()
// after every mutation; a flush clears the mark first and then takes the items, so no mutation is
// forgotten. A failed write leaves all of its items dirty and is tried again after retryDelay. A
// vBucket that cannot be part of a write, because its keys cannot be looked up, keeps no other one
// from the disk.
//
// Ownership: refers to store, targets and executor, which outlive it. Threads: notify() and stats()
// from any thread; run() and flushVBucket() from one thread at a time (the executor's task, or a
// test).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "executor/task.h"
#include "options/mutation.h"
#include "persistence/config.h"
#include "persistence/dirty_queue.h"
#include "persistence/flush_target.h"
#include "persistence/flush_transaction.h"
#include "persistence/kvstore.h"

namespace kv {

/// Counters of a flusher; relaxed.
struct FlusherStats {
    std::atomic<uint64_t> persisted{0};  ///< requests stored: ep_total_persisted
    std::atomic<uint64_t> inserts{0};
    std::atomic<uint64_t> updates{0};
    std::atomic<uint64_t> deletes{0};       ///< tombstones that replaced a live document
    std::atomic<uint64_t> deleteMisses{0};  ///< tombstones stored when there was no live document
    std::atomic<uint64_t> failedItems{0};
    std::atomic<uint64_t> flushes{0};  ///< transactions stored
    std::atomic<uint64_t> failedFlushes{0};
    std::atomic<uint64_t> duplicates{0};  ///< older versions dropped before storing
};

enum class FlushResult : uint8_t {
    Nothing,   ///< the vBucket was clean
    Flushed,   ///< everything taken is stored
    MoreLeft,  ///< stored; a limit was reached, and there is more
    Failed,    ///< nothing stored, everything is dirty again
};

/// The context of a flush: passes the outcome of each request to the vBucket and the counters.
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

/// Drops all but the newest version of each key; few items stay in their order, many are sorted by
/// key. Returns how many were dropped.
size_t dropOlderVersions(std::vector<ItemPtr>& items);
/// Returns an upper estimate of the bytes that a transaction of these items takes in the store's
/// batch.
size_t transactionBytes(const std::vector<ItemPtr>& items);
/// Reports a failed flush in the log; `vbid` is the first of its vBuckets.
void logFlushFailure(Vbid vbid, size_t vbuckets, size_t items, std::string_view why);

template <class FlushSwitches>
class BasicFlusher {
  public:
    using Options = FlushSwitches;

    BasicFlusher(KVStore& store, size_t vbuckets, const FlusherConfig& config)
        : store_(store), config_(config), dirty_(vbuckets) {}
    BasicFlusher(const BasicFlusher&) = delete;
    BasicFlusher& operator=(const BasicFlusher&) = delete;

    /// Marks the vBucket dirty. Returns true if the task must be woken: nothing was queued.
    bool notify(Vbid vbid) { return dirty_.push(vbid); }

    /// Stores the dirty items of the vBucket.
    FlushResult flushVBucket(FlushTarget& target) {
        return flushAlone(target, target.lockForFlush());
    }

    /// Runs the shard's task once: flushes dirty vBuckets, found through `targetOf(Vbid) ->
    /// FlushTarget&`.
    template <class TargetOf>
    TaskResult run(TaskTime now, TargetOf&& targetOf) {
        if (left_ == 0) {
            // A new pass: the vBuckets that are dirty now; later ones wait for the next pass, which
            // does not start before the interval is over.
            if (now < nextPass_) {
                return dirty_.size() == 0 ? TaskResult::untilWoken()
                                          : TaskResult::after(nextPass_ - now);
            }
            left_ = dirty_.size();
            nextPass_ = now + config_.interval;
        }
        const size_t count = std::min(left_, config_.vbucketsPerRun);
        left_ -= count;
        if (!flushOldest(count, targetOf)) {
            left_ = 0;
            nextPass_ = now + config_.retryDelay;
            return TaskResult::after(config_.retryDelay);
        }
        if (left_ > 0) {
            return TaskResult::again();
        }
        return dirty_.size() == 0 ? TaskResult::untilWoken() : TaskResult::after(config_.interval);
    }

    /// Flushes everything now, without pauses. Returns false if a write failed.
    template <class TargetOf>
    bool flushAll(TargetOf&& targetOf) {
        for (size_t count = dirty_.size(); count != 0; count = dirty_.size()) {
            if (!flushOldest(count, targetOf)) {
                return false;
            }
        }
        return true;
    }

    [[nodiscard]] const FlusherStats& stats() const { return stats_; }
    [[nodiscard]] size_t dirtyVBuckets() const { return dirty_.size(); }
    KVStore& store() { return store_; }

  private:
    /// A write of this size does not get longer: that would save little more, and hold memory and
    /// the vBuckets' flush locks for longer.
    static constexpr size_t kEnoughBytes = size_t{1} << 20;
    static constexpr size_t kEnoughVBuckets = 32;

    /// One vBucket's part of a write.
    struct Part {
        Part(FlushTarget& of, std::unique_lock<std::mutex> held)
            : target(of), lock(std::move(held)) {}
        FlushTarget& target;
        std::unique_lock<std::mutex> lock;
        FlushBatch batch;
        size_t taken{0};       ///< items that came with the batch
        size_t duplicates{0};  ///< those of them that have a newer version in it
        PersistedVbState state;
        bool stateChanged{false};
        std::optional<BasicFlushTransaction<Options>> transaction;
    };
    /// The vBuckets of one write, each once.
    struct Group {
        std::list<Part> parts;
        size_t bytes{0};
        std::optional<std::string> broken;  ///< the reason why it cannot be stored
    };

    /// Flushes the `count` vBuckets that have been dirty longest. `count` is at most the number of
    /// dirty ones, because a vBucket that becomes dirty during the call must not be met twice.
    /// Returns false if something could not be stored; if the store refused it, the rest stays for
    /// the next time.
    template <class TargetOf>
    bool flushOldest(size_t count, TargetOf&& targetOf) {
        bool good = true;
        bool refused = false;
        const auto settle = [this, &good](Vbid vbid, FlushResult result) {
            good = good && result != FlushResult::Failed;
            if (result == FlushResult::Failed || result == FlushResult::MoreLeft) {
                dirty_.push(vbid);
            }
        };
        Group group;
        for (Vbid vbid; !refused && count != 0 && dirty_.pop(vbid); --count) {
            FlushTarget& target = targetOf(vbid);
            auto lock = target.tryLockForFlush();
            if (!lock.owns_lock()) {
                // Another thread resets or purges it, which takes a while: the others do not wait
                // for it.
                refused = !store(group, settle);
                lock = target.lockForFlush();
            }
            if (const auto result = take(target, std::move(lock), group)) {
                settle(vbid, *result);
                refused = refused || *result == FlushResult::Failed;
            }
            if (group.parts.size() >= kEnoughVBuckets || group.bytes >= kEnoughBytes ||
                group.broken) {
                refused = !store(group, settle) || refused;
            }
        }
        store(group, settle);
        return good;
    }

    /// Stores the dirty items of the vBucket with a separate write.
    FlushResult flushAlone(FlushTarget& target, std::unique_lock<std::mutex> lock) {
        Group group;
        if (const auto result = take(target, std::move(lock), group)) {
            return *result;
        }
        FlushResult stored{};
        store(group, [&stored](Vbid, FlushResult result) { stored = result; });
        return stored;
    }

    /// Adds the dirty items of the vBucket to the group; returns a result if there is nothing to
    /// add.
    std::optional<FlushResult> take(FlushTarget& target, std::unique_lock<std::mutex> lock,
                                    Group& group) {
        Part* part = nullptr;
        try {
            part = &group.parts.emplace_back(target, std::move(lock));
            if (!target.prepare(store_)) {
                stats_.failedFlushes.fetch_add(1, std::memory_order_relaxed);
                logFlushFailure(target.vbid(), 1, 0, "what was rolled back cannot be removed");
                group.parts.pop_back();
                return FlushResult::Failed;
            }
            part->batch = target.takeItemsToPersist(config_.batchItems, config_.batchBytes);
            part->taken = part->batch.items.size();
            part->stateChanged = target.takeStateChange();
            part->state = target.stateToPersist();
        } catch (const std::exception& error) {  // out of memory, or a store that cannot be read
            logFlushFailure(target.vbid(), 1, 0, error.what());
            if (part != nullptr) {
                fail(*part);
                group.parts.pop_back();
            }
            return FlushResult::Failed;
        }
        if (part->taken == 0) {
            const auto result =
                    part->stateChanged ? flushState(target, part->state) : FlushResult::Nothing;
            group.parts.pop_back();
            return result;
        }
        for (const ItemPtr& item : part->batch.items) {
            part->state.highSeqno = std::max(part->state.highSeqno, item->seqno());
            part->state.maxCas = std::max(part->state.maxCas, item->cas());
        }
        part->state.snapshot = part->batch.snapshot;
        part->state.noteCommit();
        try {
            group.bytes += request(*part);
        } catch (const StoreError& error) {
            group.broken = error.what();
        } catch (const std::bad_alloc&) {
            group.broken = "no memory";
        }
        return std::nullopt;
    }

    /// Passes everything of a part to the store; returns the approximate bytes.
    size_t request(Part& part) {
        std::vector<ItemPtr>& items = part.batch.items;
        part.duplicates = dropOlderVersions(items);
        if (items.size() > 1 && options::mutated(options::Mutation::LostLastOfBatch, 20)) {
            items.pop_back();
        }
        const size_t bytes = transactionBytes(items);
        auto& transaction = part.transaction.emplace(
                store_, std::make_unique<PersistenceContext>(part.target, stats_), bytes);
        transaction.expect(items);
        for (const ItemPtr& item : items) {
            if (item->isDeletion()) {
                transaction.del(Options::Callback::makeDelete(item));
            } else {
                transaction.set(Options::Callback::makeSet(item));
            }
        }
        if constexpr (Options::Free::kBefore) {
            std::vector<ItemPtr>().swap(items);
        }
        transaction.end(part.state);
        return bytes;
    }

    /// Stores the group, which is empty then, and reports the outcome for each of its vBuckets.
    /// Returns false if the store refused to write.
    template <class Report>
    bool store(Group& group, Report&& report) {
        if (group.parts.empty()) {
            return true;
        }
        std::list<Part> others;
        if (group.broken) {
            // Caused by its last vBucket, after which nothing was added.
            others.splice(others.end(), group.parts, group.parts.begin(),
                          std::prev(group.parts.end()));
        }
        std::string why;
        const bool stored = commit(group, why);
        size_t failedItems = 0;
        for (Part& part : group.parts) {
            const bool done = settled(part, stored, !group.broken);
            if (!done) {
                fail(part);
                failedItems += part.taken;
            }
            report(part.target.vbid(), !done             ? FlushResult::Failed
                                       : part.batch.more ? FlushResult::MoreLeft
                                                         : FlushResult::Flushed);
        }
        if (failedItems != 0) {
            logFlushFailure(group.parts.front().target.vbid(), group.parts.size(), failedItems,
                            stored ? "no memory" : why);
        }
        const bool refused = !stored && !group.broken;
        group = Group();
        storeApart(others, report);
        return !refused;
    }

    /// Stores vBuckets whose write another one broke, each with a separate write: otherwise one
    /// that can never be stored would keep them from the disk indefinitely.
    template <class Report>
    void storeApart(std::list<Part>& parts, Report&& report) {
        while (!parts.empty()) {
            FlushTarget& target = parts.front().target;
            auto lock = std::move(parts.front().lock);
            giveBack(parts.front());
            parts.pop_front();
            report(target.vbid(), flushAlone(target, std::move(lock)));
        }
    }

    /// Returns true if the store has stored the group; otherwise sets `why`.
    bool commit(const Group& group, std::string& why) {
        if (group.broken) {
            why = *group.broken;
            store_.abandon();
            return false;
        }
        try {
            why = "the store refused the transaction";
            return store_.commit();
        } catch (const StoreError& error) {
            why = error.what();
        } catch (const std::bad_alloc&) {
            why = "no memory";  // it may even be stored; storing it again changes nothing
        }
        return false;
    }

    /// Reports to the requests, if they reached the store, and to the vBucket. Returns false if its
    /// items are still to be stored, perhaps again.
    bool settled(Part& part, bool stored, bool asked) {
        try {
            if (asked) {
                part.transaction->done(stored);
            }
            if (stored) {
                part.target.persisted(part.state);
                if (part.stateChanged) {
                    part.target.stateChangeStored();
                }
                stats_.flushes.fetch_add(1, std::memory_order_relaxed);
                stats_.duplicates.fetch_add(part.duplicates, std::memory_order_relaxed);
            }
            return stored;
        } catch (const std::bad_alloc&) {
            return false;
        }
    }

    void fail(Part& part) {
        stats_.failedFlushes.fetch_add(1, std::memory_order_relaxed);
        giveBack(part);
    }

    /// Makes the items of the part dirty again.
    void giveBack(Part& part) { part.target.persistFailed(); }

    FlushResult flushState(FlushTarget& target, const PersistedVbState& state) {
        bool stored = false;
        std::string why = "the store refused its state";
        try {
            stored = store_.saveVbState(target.vbid(), state);
        } catch (const std::exception& error) {
            why = error.what();  // it may even be stored; storing it again changes nothing
        }
        if (!stored) {
            stats_.failedFlushes.fetch_add(1, std::memory_order_relaxed);
            logFlushFailure(target.vbid(), 1, 0, why);
            return FlushResult::Failed;
        }
        target.stateChangeStored();
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
