#include "load/append_traffic.h"

#include <algorithm>
#include <bit>

namespace kv::load {

namespace {

constexpr Nanos kFirstBackOff = 1'000'000;
constexpr Nanos kLongestBackOff = 64'000'000;
constexpr Nanos kPatience = 60 * kSecond;

}  // namespace

AppendTraffic::AppendTraffic(AppendStore& store, AppendShare share, const RequestWriter& requests,
                             Recorder& recorder)
    : store_(store),
      share_(share),
      requests_(requests),
      recorder_(recorder),
      ring_(std::bit_ceil(std::size_t{share.inFlight} + 1)) {}

void AppendTraffic::begin(std::vector<std::unique_ptr<Channel>>& channels) {
    channel_ = channels.front().get();
    now_ = lastTaken_ = nowNanos();
    goOn();
}

bool AppendTraffic::done() const {
    return inFlight() == 0 && (stopped_ || (exhausted() && busy_ == 0));
}

void AppendTraffic::goOn() {
    for (;;) {
        if (!stopped_) {
            startMore();
        }
        if (!channel_->flush() || stopped_ || exhausted() || !slotFree()) {
            return;
        }
    }
}

void AppendTraffic::remember(std::uint64_t id, OpKind kind) {
    ring_[sent_ & (ring_.size() - 1)] = {id, now_, kind};
    ++sent_;
}

void AppendTraffic::sendGet(std::uint64_t id) {
    std::uint8_t* to = channel_->reserve(requests_.maxSize(0));
    channel_->commit(requests_.get(to, id, static_cast<std::uint32_t>(sent_)));
    remember(id, OpKind::kGet);
}

void AppendTraffic::sendSet(std::uint64_t id) {
    const auto fields = fieldsToSend(id);
    const auto size = static_cast<std::uint32_t>(documentSize(fields));
    std::uint8_t* to = channel_->reserve(requests_.maxSize(size));
    const auto head = requests_.set(to, id, static_cast<std::uint32_t>(sent_), size);
    writeDocument(to + head, store_.seed(), id, fields);
    channel_->commit(head + size);
    remember(id, OpKind::kSet);
}

void AppendTraffic::onReadable(Channel& channel, Nanos now) {
    Tally tally;
    now_ = now;  // requests that follow from these answers leave with the flush below
    channel.drain([&](const protocol::Header& header) { answer(header, now, tally); });
    recorder_.add(now, tally);
    goOn();
}

void AppendTraffic::answer(const protocol::Header& header, Nanos now, Tally& tally) {
    const Request request = ring_[answered_ & (ring_.size() - 1)];
    const auto opcode =
            request.kind == OpKind::kGet ? protocol::Opcode::kGet : protocol::Opcode::kSet;
    if (answered_ == sent_ || header.opaque != static_cast<std::uint32_t>(answered_) ||
        header.opcode != opcode) {
        throw LoadError("the server answered out of order");
    }
    ++answered_;
    tally.count(request.kind, header.status());
    recorder_.latency(request.kind, request.at, now, 1);
    if (header.status() == protocol::Status::kEtmpfail) {
        retryLater(request, now);
        return;
    }
    backOff_ = 0;
    lastTaken_ = now;
    if (request.kind == OpKind::kSet) {
        onStored(request.id, header.status() == protocol::Status::kSuccess);
        return;
    }
    onGet(request.id, header, tally);
    if (!stopped_) {
        sendSet(request.id);  // after a miss, too: what should be stored is known
    }
}

void AppendTraffic::retryLater(const Request& request, Nanos now) {
    if (now - lastTaken_ > kPatience) {
        throw LoadError("the server has refused every request for " +
                        std::to_string(kPatience / kSecond) + " s (temporary failure)");
    }
    retry_.push_back(request);
    if (retryAt_ < now) {  // once for each read, not for each refusal in it
        backOff_ = std::clamp(2 * backOff_, kFirstBackOff, kLongestBackOff);
        retryAt_ = now + backOff_;
    }
}

void AppendTraffic::onWritable(Channel& /*channel*/, Nanos now) {
    now_ = now;
    goOn();
}

void AppendTraffic::onWake(Nanos now) {
    if (stopped_ || now < retryAt_) {
        return;
    }
    now_ = now;
    for (const auto& request : retry_) {
        request.kind == OpKind::kGet ? sendGet(request.id) : sendSet(request.id);
    }
    retry_.clear();
    channel_->flush();
}

// --- loading -----------------------------------------------------------------------------------

AppendLoad::AppendLoad(AppendStore& store, AppendShare share, const RequestWriter& requests,
                       Recorder& recorder)
    : AppendTraffic(store, share, requests, recorder) {
    // The highest id of this thread's residue; id 0 is none.
    next_ = store.items();
    while (next_ != 0 && next_ % share.threads != share.thread) {
        --next_;
    }
}

void AppendLoad::startMore() {
    while (next_ != 0 && slotFree()) {
        ++busy_;
        sendSet(next_);
        next_ = next_ > share_.threads ? next_ - share_.threads : 0;
    }
}

void AppendLoad::onStored(std::uint64_t /*id*/, bool stored) {
    --busy_;
    finished_ += stored ? 1 : 0;
}

// --- updating ----------------------------------------------------------------------------------

AppendUpdate::AppendUpdate(AppendStore& store, AppendShare share, const RequestWriter& requests,
                           Recorder& recorder, AppendPass pass)
    : AppendTraffic(store, share, requests, recorder),
      pass_(pass),
      random_(store.seed() ^ 0x64726177U, pass.stream) {}

void AppendUpdate::startMore() {
    while (drawsLeft_ != 0 && slotFree()) {
        const auto id = 1 + random_.below(pass_.range);
        --drawsLeft_;
        if (id % share_.threads != share_.thread) {
            continue;  // another thread's document; it draws the same number
        }
        ++busy_;
        if (++store_.pending(id) == 1) {
            sendGet(id);
        }
    }
}

void AppendUpdate::onGet(std::uint64_t id, const protocol::Header& header, Tally& tally) {
    if (header.status() == protocol::Status::kSuccess) {
        const auto size =
                header.bodyLength - header.extrasLength - header.keyLength - header.framingLength;
        if (size != documentSize(store_.fields(id))) {
            ++tally.errors.other;  // the server lost or mixed up an update
        }
    }
}

void AppendUpdate::onStored(std::uint64_t id, bool stored) {
    --busy_;
    if (stored) {
        ++finished_;
        ++store_.fields(id);
    }
    if (--store_.pending(id) != 0) {
        if (!stopped_) {
            sendGet(id);
        }
    }
}

}  // namespace kv::load
