// The producer since the historic change: a background task makes the snapshots, step() returns
// what is ready, and notifiers meet it only at the ready list. producer.h has the contract.
#pragma once

#include "dcp/producer_base.h"
#include "options/ready_list.h"

namespace kv::dcp {

template <class Ready, class SnapshotQueue, class Yield>
class ReadyListProducer : public ProducerBase<LockForStreams<Ready>, SnapshotQueue, Yield> {
    using Base = ProducerBase<LockForStreams<Ready>, SnapshotQueue, Yield>;
    using Base::backfills_;
    using Base::changes_;
    using Base::countPause;
    using Base::countSent;
    using Base::flow_;
    using Base::hooks_;
    using Base::paused_;
    using Base::ready_;
    using Base::snapshots_;
    using Base::streams_;

  public:
    ReadyListProducer(std::string name, size_t vbuckets, ProducerHooks hooks)
        : Base(std::move(name), vbuckets, std::move(hooks)) {}

    /// Returns the next message, or nothing: it is paused then until wakeConnection.
    std::optional<Message> step() {
        while (true) {
            const auto popped = ready_.list().pop([this] { return flow_.isFull(); });
            if (popped.outcome == options::Pop::Ready) {
                if (auto message = takeFrom(popped.vbid)) {
                    return message;
                }
                continue;
            }
            const bool full = popped.outcome == options::Pop::Full;
            // A flag that is already set is not written: a client that polls must not take the
            // cache line from the notifiers each time.
            if (!paused_.load()) {
                paused_.exchange(true);
            }
            if (full ? flow_.isFull() : ready_.list().empty()) {
                countPause(full);
                return std::nullopt;
            }
            paused_.store(false);
        }
    }

    /// Notifies of a mutation that a front-end thread stored. Called for every mutation of the
    /// bucket.
    void onSeqno(Vbid vbid) {
        const auto lock = ready_.shared();
        const auto found = streams_.find(vbid);
        if (found != streams_.end() && found->second->notifySeqno()) {
            this->list(vbid);
        }
    }

  private:
    static constexpr auto kPending =
            SnapshotQueue::kUnique ? ListWhilePending::No : ListWhilePending::Yes;

    /// Returns the vBucket's stream for the stepping thread. A stream that sends many messages in a
    /// row is looked up once, so that the map's lock stays with the notifiers.
    ActiveStream* streamToStep(Vbid vbid) {
        const uint64_t changes = changes_.load(std::memory_order_acquire);
        if (!stepped_ || stepped_->vbid() != vbid || steppedAt_ != changes) {
            stepped_ = this->findStream(vbid);
            steppedAt_ = changes;
        }
        return stepped_.get();
    }

    /// Returns a message of the vBucket's stream and lists the stream again; or returns nothing and
    /// wakes the task that it needs.
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
            this->removeStream(vbid);
            stepped_.reset();
        } else {
            ready_.list().pushUnique(vbid);
        }
        countSent(*message);
        return message;
    }

    std::shared_ptr<ActiveStream> stepped_;  ///< used only by the stepping thread
    uint64_t steppedAt_{0};
};

}  // namespace kv::dcp
