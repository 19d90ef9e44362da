// Producer: one DCP connection's sending side. Streams of many vBuckets, one flow control, one
// ready list.
//
// The ready list and the snapshot queue are policies (options/dcp_ready.h, options/dcp_snapshot.h).
// The historic designs differ in where snapshots are made: with the one lock, step() reads the
// checkpoints itself while it holds the lock that every front-end notification needs; in all others
// a background task does, and step() only hands out what is ready.
//
// Threads: step() by one thread at a time (the connection's); onSeqno() by front-end threads with
// no bucket lock held; runSnapshots() and runBackfills() by background tasks, one at a time each;
// everything else by any thread. Wake-ups: step() that returns nothing leaves the producer paused;
// ProducerHooks::wakeConnection is called once when there is something again. No wake-up is lost:
// whoever lists a stream tests the pause flag afterwards, and step() raises the flag before it
// looks at the list for the last time.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "dcp/active_stream.h"
#include "dcp/flow_control.h"
#include "dcp/message.h"
#include "options/dcp_ready.h"
#include "options/dcp_snapshot.h"

namespace kv::dcp {

/// What the producer asks of its surroundings. Called from any thread; must be quick and must not
/// call back.
struct ProducerHooks {
    std::function<void()> wakeConnection;    ///< step() has something to do again
    std::function<void()> wakeSnapshotTask;  ///< runSnapshots() has
    std::function<void()> wakeBackfillTask;  ///< runBackfills() has
};

struct ProducerStats {
    uint64_t messages{0};
    uint64_t bytes{0};
    uint64_t pauses{0};
    uint64_t pausesFull{0};  ///< of these, because of flow control
    uint64_t snapshotRuns{0};
    size_t streams{0};
    size_t outstandingBytes{0};
    size_t bufferSize{0};
};

template <class Ready, class SnapshotQueue, class Yield>
class BasicProducer {
  public:
    BasicProducer(std::string name, size_t vbuckets, ProducerHooks hooks)
        : name_(std::move(name)), hooks_(std::move(hooks)), ready_(vbuckets) {}
    BasicProducer(const BasicProducer&) = delete;
    BasicProducer& operator=(const BasicProducer&) = delete;

    /// Adds a stream; false when the vBucket has one. It is listed without a wake-up: the
    /// connection steps anyway.
    // NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved into the map
    bool addStream(std::shared_ptr<ActiveStream> stream) {
        const Vbid vbid = stream->vbid();
        const auto lock = exclusive();
        if (!streams_.try_emplace(vbid, std::move(stream)).second) {
            return false;
        }
        changes_.fetch_add(1, std::memory_order_release);
        ready_.pushUnique(vbid);
        return true;
    }

    /// The vBucket's stream, or empty.
    std::shared_ptr<ActiveStream> findStream(Vbid vbid) const {
        const auto lock = shared();
        const auto found = streams_.find(vbid);
        return found == streams_.end() ? nullptr : found->second;
    }

    std::shared_ptr<ActiveStream> removeStream(Vbid vbid) {
        const auto lock = exclusive();
        auto node = streams_.extract(vbid);
        changes_.fetch_add(1, std::memory_order_release);
        return node.empty() ? nullptr : std::move(node.mapped());
    }

    /// The next message, or nothing: paused until wakeConnection.
    std::optional<Message> step() {
        if constexpr (Ready::kOneLock) {
            return stepUnderOneLock();
        } else {
            while (true) {
                const auto popped = ready_.pop([this] { return flow_.isFull(); });
                if (popped.outcome == options::Pop::Ready) {
                    if (auto message = takeFrom(popped.vbid)) {
                        return message;
                    }
                    continue;
                }
                const bool full = popped.outcome == options::Pop::Full;
                // A flag that is up already stays up: a client that asks again and again must not
                // take the line from the notifiers each time.
                if (!paused_.load()) {
                    paused_.exchange(true);
                }
                if (full ? flow_.isFull() : ready_.empty()) {
                    countPause(full);
                    return std::nullopt;
                }
                paused_.store(false);
            }
        }
    }

    /// A front-end thread stored a mutation. Called for every mutation of the bucket.
    void onSeqno(Vbid vbid) {
        if constexpr (Ready::kOneLock) {
            const auto stream = findStream(vbid);
            if (stream && stream->notifySeqnoUnderMutex()) {
                list(vbid);
            }
        } else {
            const auto lock = shared();
            const auto found = streams_.find(vbid);
            if (found != streams_.end() && found->second->notifySeqno()) {
                list(vbid);
            }
        }
    }

    /// The client acknowledged bytes.
    void acknowledged(size_t bytes) {
        if (flow_.acknowledged(bytes)) {
            unpause();
        }
    }

    /// One run of the snapshot task: at most Yield::kLimit snapshots. True when more wait: run it
    /// again.
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

    /// Runs one waiting backfill. True when more wait.
    bool runBackfills() {
        const auto vbid = backfills_.pop();
        if (!vbid) {
            return false;
        }
        if (const auto stream = findStream(*vbid)) {
            stream->runBackfill();
            list(*vbid);
        }
        return backfills_.size() != 0;
    }

    /// Memory recovery wants this cursor of this vBucket gone; true when a stream of this producer
    /// let go of it.
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
        const auto lock = shared();
        std::vector<std::shared_ptr<ActiveStream>> all;
        for (const auto& [vbid, stream] : streams_) {
            all.push_back(stream);
        }
        return all;
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
        const auto lock = shared();
        stats.streams = streams_.size();
        return stats;
    }

  private:
    static constexpr auto kPending =
            SnapshotQueue::kUnique ? ListWhilePending::No : ListWhilePending::Yes;

    // With the one lock, readers and writers of the stream map take it too.
    auto shared() const {
        if constexpr (Ready::kOneLock) {
            return std::unique_lock(ready_.mutex());
        } else {
            return std::shared_lock(streamsMutex_);
        }
    }
    auto exclusive() const {
        if constexpr (Ready::kOneLock) {
            return std::unique_lock(ready_.mutex());
        } else {
            return std::unique_lock(streamsMutex_);
        }
    }

    /// The vBucket's stream, for the stepping thread: one that sends message after message is
    /// looked up once, so that the map's lock stays with those who notify.
    ActiveStream* streamToStep(Vbid vbid) {
        const uint64_t changes = changes_.load(std::memory_order_acquire);
        if (!stepped_ || stepped_->vbid() != vbid || steppedAt_ != changes) {
            stepped_ = findStream(vbid);
            steppedAt_ = changes;
        }
        return stepped_.get();
    }

    /// A message of the vBucket's stream, which is listed again; or nothing, and the task it needs
    /// is woken.
    std::optional<Message> takeFrom(Vbid vbid) {
        ActiveStream* stream = streamToStep(vbid);
        if (stream == nullptr) {
            return std::nullopt;
        }
        StreamNeeds needs{};
        auto message = stream->next(needs, kPending);
        if (!message) {
            if (needs == StreamNeeds::Snapshot && snapshots_.push(vbid)) {
                hooks_.wakeSnapshotTask();
            } else if (needs == StreamNeeds::Backfill && backfills_.push(vbid)) {
                hooks_.wakeBackfillTask();
            }
            return std::nullopt;
        }
        if (message->kind == MessageKind::StreamEnd) {
            removeStream(vbid);
            stepped_.reset();
        } else {
            ready_.pushUnique(vbid);
        }
        countSent(*message);
        return message;
    }

    std::optional<Message> stepUnderOneLock() {
        bool wakeBackfill = false;
        std::optional<Message> message;
        {
            const std::scoped_lock lock(ready_.mutex());
            while (!message) {
                const auto popped = ready_.pop([this] { return flow_.isFull(); });
                if (popped.outcome != options::Pop::Ready) {
                    const bool full = popped.outcome == options::Pop::Full;
                    paused_.store(true);
                    if (full && !flow_.isFull()) {
                        paused_.store(false);  // room was made while the flag went up
                        continue;
                    }
                    countPause(full);
                    break;
                }
                const auto found = streams_.find(popped.vbid);
                if (found == streams_.end()) {
                    continue;
                }
                StreamNeeds needs{};
                message = found->second->next(needs, ListWhilePending::Yes);
                if (!message && needs == StreamNeeds::Snapshot && found->second->takeSnapshot()) {
                    message = found->second->next(needs, ListWhilePending::Yes);
                }
                if (!message) {
                    if (needs == StreamNeeds::Backfill && backfills_.push(popped.vbid)) {
                        wakeBackfill = true;
                    }
                } else if (message->kind == MessageKind::StreamEnd) {
                    streams_.erase(found);
                } else {
                    ready_.pushUnique(popped.vbid);
                }
            }
            if (message) {
                countSent(*message);
            }
        }
        if (wakeBackfill) {
            hooks_.wakeBackfillTask();
        }
        return message;
    }

    /// Lists a stream as ready and wakes the connection if that is news and it sleeps.
    void list(Vbid vbid) {
        bool inserted = false;
        if constexpr (Ready::kOneLock) {
            const std::scoped_lock lock(ready_.mutex());
            inserted = ready_.pushUnique(vbid);
        } else {
            inserted = ready_.pushUnique(vbid);
        }
        if (inserted && !flow_.isFull()) {
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
    mutable std::shared_mutex streamsMutex_;
    std::unordered_map<Vbid, std::shared_ptr<ActiveStream>> streams_;
    std::atomic<uint64_t> changes_{0};       ///< of streams_
    std::shared_ptr<ActiveStream> stepped_;  ///< the stepping thread's
    uint64_t steppedAt_{0};
    mutable Ready ready_;
    SnapshotQueue snapshots_;
    options::UniqueSnapshotQueue backfills_;
    alignas(64) std::atomic<bool> paused_{false};
    alignas(64) std::atomic<uint64_t> messages_{0};
    std::atomic<uint64_t> bytes_{0};
    std::atomic<uint64_t> pauses_{0};
    std::atomic<uint64_t> pausesFull_{0};
    std::atomic<uint64_t> snapshotRuns_{0};
};

using Producer =
        BasicProducer<options::DcpReady, options::DcpSnapshotQueue, options::DcpSnapshotYield>;

}  // namespace kv::dcp
