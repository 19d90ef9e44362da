// The common part of all designs of a DCP producer: streams, flow control, background work,
// wake-ups and counters. one_lock_producer.h and ready_list_producer.h take the messages from the
// streams; producer.h describes a producer.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "bucket/read_mostly_mutex.h"
#include "dcp/active_stream.h"
#include "dcp/flow_control.h"
#include "dcp/message.h"
#include "options/dcp_snapshot_queue.h"

namespace kv::dcp {

/// The callbacks of a producer. They are called from any thread, must be quick and must not call
/// back.
struct ProducerHooks {
    std::function<void()> wakeConnection;    ///< step() has work again
    std::function<void()> wakeSnapshotTask;  ///< runSnapshots() has work
    std::function<void()> wakeBackfillTask;  ///< runBackfills() has work
};

struct ProducerStats {
    uint64_t messages{0};
    uint64_t bytes{0};
    uint64_t pauses{0};
    uint64_t pausesFull{0};  ///< number of pauses because of flow control
    uint64_t snapshotRuns{0};
    size_t streams{0};
    size_t outstandingBytes{0};
    size_t bufferSize{0};
};

/// A ready list and the locks of the stream map. With the one lock, readers and writers of the map
/// take the list's lock.
template <class Ready>
class OneLock {
  public:
    explicit OneLock(size_t vbuckets) : list_(vbuckets) {}

    [[nodiscard]] auto shared() const { return std::unique_lock(list_.mutex()); }
    [[nodiscard]] auto exclusive() const { return std::unique_lock(list_.mutex()); }
    bool pushUnique(Vbid vbid) {
        const std::scoped_lock lock(list_.mutex());
        return list_.pushUnique(vbid);
    }
    /// Only under the lock.
    Ready& list() { return list_; }

  private:
    mutable Ready list_;
};

/// The same with a separate lock for the map.
template <class Ready>
class LockForStreams {
  public:
    explicit LockForStreams(size_t vbuckets) : list_(vbuckets) {}

    [[nodiscard]] auto shared() const { return std::shared_lock(streams_); }
    [[nodiscard]] auto exclusive() const { return std::unique_lock(streams_); }
    bool pushUnique(Vbid vbid) { return list_.pushUnique(vbid); }
    Ready& list() { return list_; }

  private:
    mutable ReadMostlyMutex streams_;  ///< read with every mutation
    Ready list_;
};

/// `Locked` is OneLock or LockForStreams.
template <class Locked, class SnapshotQueue, class Yield>
class ProducerBase {
  public:
    ProducerBase(const ProducerBase&) = delete;
    ProducerBase& operator=(const ProducerBase&) = delete;

    /// Adds a stream; returns false if the vBucket has one. It is listed without a wake-up, because
    /// the connection steps anyway.
    // NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved into the map
    bool addStream(std::shared_ptr<ActiveStream> stream) {
        const Vbid vbid = stream->vbid();
        const auto lock = ready_.exclusive();
        if (!streams_.try_emplace(vbid, std::move(stream)).second) {
            return false;
        }
        changes_.fetch_add(1, std::memory_order_release);
        ready_.list().pushUnique(vbid);
        return true;
    }

    /// Returns the vBucket's stream, or empty.
    std::shared_ptr<ActiveStream> findStream(Vbid vbid) const {
        const auto lock = ready_.shared();
        const auto found = streams_.find(vbid);
        return found == streams_.end() ? nullptr : found->second;
    }

    std::shared_ptr<ActiveStream> removeStream(Vbid vbid) {
        const auto lock = ready_.exclusive();
        auto node = streams_.extract(vbid);
        changes_.fetch_add(1, std::memory_order_release);
        return node.empty() ? nullptr : std::move(node.mapped());
    }

    /// Records that the client acknowledged bytes.
    void acknowledged(size_t bytes) {
        if (flow_.acknowledged(bytes)) {
            unpause();
        }
    }

    /// Runs the snapshot task once: at most Yield::kLimit snapshots. Returns true if more wait, so
    /// that it must run again.
    bool runSnapshots() {
        ++snapshotRuns_;
        for (size_t made = 0; made < Yield::kLimit; ++made) {
            const auto vbid = snapshots_.pop();
            if (!vbid) {
                return false;
            }
            if (const auto stream = findStream(*vbid)) {
                stream->takeSnapshot();
                list(*vbid);
            }
        }
        return snapshots_.size() != 0;
    }

    /// The work that remains after one run of the backfill task.
    enum class Backfills : uint8_t {
        Done,
        More,    ///< run it again
        NoSlot,  ///< run it again when scans have been closed: all that wait need one
    };
    /// Runs one waiting backfill: the first one that has a scan, or finds a slot for one.
    Backfills runBackfills() {
        for (size_t left = backfills_.size(); left != 0; --left) {
            const auto vbid = backfills_.pop();
            if (!vbid) {
                return Backfills::Done;
            }
            const auto stream = findStream(*vbid);
            if (!stream) {
                continue;
            }
            if (stream->runBackfill()) {
                list(*vbid);
                return backfills_.size() != 0 ? Backfills::More : Backfills::Done;
            }
            try {
                backfills_.push(*vbid);
            } catch (const std::bad_alloc&) {
                list(*vbid);  // the connection queues it again
            }
        }
        return backfills_.size() != 0 ? Backfills::NoSlot : Backfills::Done;
    }

    /// Drops this cursor of this vBucket for memory recovery. Returns true if a stream of this
    /// producer released it.
    bool dropCursor(Vbid vbid, const CursorPtr& cursor) {
        const auto stream = findStream(vbid);
        if (!stream || !stream->cursorDropped(cursor)) {
            return false;
        }
        list(vbid);
        return true;
    }

    /// Ends a stream and lists it, so that its end message is sent.
    bool endStream(Vbid vbid, EndStatus status) {
        const auto stream = findStream(vbid);
        if (!stream) {
            return false;
        }
        stream->end(status, false);
        list(vbid);
        return true;
    }

    FlowControl& flow() { return flow_; }
    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] bool paused() const { return paused_.load(); }
    [[nodiscard]] std::vector<std::shared_ptr<ActiveStream>> streams() const {
        const auto lock = ready_.shared();
        std::vector<std::shared_ptr<ActiveStream>> all;
        for (const auto& [vbid, stream] : streams_) {
            all.push_back(stream);
        }
        return all;
    }
    [[nodiscard]] size_t streamCount() const {
        const auto lock = ready_.shared();
        return streams_.size();
    }
    [[nodiscard]] ProducerStats stats() const {
        ProducerStats stats{messages_,
                            bytes_,
                            pauses_,
                            pausesFull_,
                            snapshotRuns_,
                            0,
                            flow_.outstanding(),
                            flow_.bufferSize()};
        stats.streams = streamCount();
        return stats;
    }

  protected:
    using StreamMap = std::unordered_map<Vbid, std::shared_ptr<ActiveStream>>;

    ProducerBase(std::string name, size_t vbuckets, ProducerHooks hooks)
        : name_(std::move(name)), hooks_(std::move(hooks)), ready_(vbuckets) {}
    ~ProducerBase() = default;

    /// Lists a stream as ready, and wakes the connection if it was not listed and the connection
    /// sleeps.
    void list(Vbid vbid) {
        if (ready_.pushUnique(vbid) && !flow_.isFull()) {
            unpause();
        }
    }

    void unpause() {
        if (paused_.exchange(false)) {
            hooks_.wakeConnection();
        }
    }

    void countSent(const Message& message) {
        const size_t bytes = message.wireSize();
        flow_.sent(bytes);
        bytes_ += bytes;
        ++messages_;
    }

    void countPause(bool full) {
        ++pauses_;
        if (full) {
            ++pausesFull_;
        }
    }

    const std::string name_;
    const ProducerHooks hooks_;
    FlowControl flow_;
    StreamMap streams_;                 ///< guarded by ready_'s locks
    std::atomic<uint64_t> changes_{0};  ///< of streams_
    Locked ready_;
    SnapshotQueue snapshots_;
    options::UniqueSnapshotQueue backfills_;
    alignas(64) std::atomic<bool> paused_{false};
    alignas(64) std::atomic<uint64_t> messages_{0};
    std::atomic<uint64_t> bytes_{0};
    std::atomic<uint64_t> pauses_{0};
    std::atomic<uint64_t> pausesFull_{0};
    std::atomic<uint64_t> snapshotRuns_{0};
};

}  // namespace kv::dcp
