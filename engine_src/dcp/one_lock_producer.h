// The producer before the historic change: step() makes snapshots itself, under the one lock that
// every notification of a front-end thread needs. producer.h has the contract.
#pragma once

#include "dcp/producer_base.h"
#include "options/ready_list.h"

namespace kv::dcp {

template <class Ready, class SnapshotQueue, class Yield>
class OneLockProducer : public ProducerBase<OneLock<Ready>, SnapshotQueue, Yield> {
    using Base = ProducerBase<OneLock<Ready>, SnapshotQueue, Yield>;
    using Base::backfills_;
    using Base::countPause;
    using Base::countSent;
    using Base::flow_;
    using Base::hooks_;
    using Base::paused_;
    using Base::ready_;
    using Base::streams_;

  public:
    OneLockProducer(std::string name, size_t vbuckets, ProducerHooks hooks)
        : Base(std::move(name), vbuckets, std::move(hooks)) {}

    /// Returns the next message, or nothing: it is paused then until wakeConnection.
    std::optional<Message> step() {
        auto& list = ready_.list();
        bool wakeBackfill = false;
        std::optional<Message> message;
        {
            const std::scoped_lock lock(list.mutex());
            while (!message) {
                const auto popped = list.pop([this] { return flow_.isFull(); });
                if (popped.outcome != options::Pop::Ready) {
                    const bool full = popped.outcome == options::Pop::Full;
                    paused_.store(true);
                    if (full && !flow_.isFull()) {
                        paused_.store(false);  // room was made while the flag was being set
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
                    list.pushUnique(popped.vbid);
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

    /// Notifies of a mutation that a front-end thread stored. Called for every mutation of the
    /// bucket.
    void onSeqno(Vbid vbid) {
        const auto stream = this->findStream(vbid);
        if (stream && stream->notifySeqnoUnderMutex()) {
            this->list(vbid);
        }
    }
};

}  // namespace kv::dcp
