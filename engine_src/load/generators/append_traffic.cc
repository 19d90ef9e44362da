#include "load/generators/append_traffic.h"

#include <algorithm>
#include <bit>

namespace kv::load {

namespace {

constexpr Nanos kFirstRetry = 1'000'000;
constexpr Nanos kLongestRetry = 64'000'000;
constexpr Nanos kRetryPatience = 60 * kSecond;

}  // namespace

AppendTraffic::AppendTraffic(AppendStore& store, AppendShare share, const RequestWriter& requests,
                             const ClusterMap& routes, Recorder& recorder)
    : store_(store),
      share_(share),
      requests_(requests),
      routes_(routes),
      recorder_(recorder),
      pipes_(routes.servers.size()) {
    for (auto& pipe : pipes_) {
        pipe.ring.resize(std::bit_ceil(std::size_t{share.inFlight} + 1));
    }
}

void AppendTraffic::begin(std::vector<std::unique_ptr<Channel>>& channels) {
    for (std::size_t server = 0; server < pipes_.size(); ++server) {
        pipes_[server].channel = channels[server].get();
    }
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
        if (!flush() || stopped_ || exhausted() || !slotFree()) {
            return;
        }
    }
}

bool AppendTraffic::flush() {
    bool all = true;
    for (auto& pipe : pipes_) {
        all = pipe.channel->flush() && all;
    }
    return all;
}

bool AppendTraffic::full() const noexcept {
    return std::any_of(pipes_.begin(), pipes_.end(),
                       [](const Pipe& pipe) { return pipe.channel->unsent() >= kHighWater; });
}

AppendTraffic::Pipe& AppendTraffic::pipeOf(std::uint64_t id) {
    return pipes_.size() == 1 ? pipes_.front() : pipes_[routes_.active[requests_.vbucketOf(id)]];
}

void AppendTraffic::remember(Pipe& pipe, std::uint64_t id, OpKind kind) {
    pipe.ring[pipe.sent & (pipe.ring.size() - 1)] = {id, now_, kind};
    ++pipe.sent;
    ++inFlight_;
}

void AppendTraffic::sendGet(std::uint64_t id) {
    Pipe& pipe = pipeOf(id);
    std::uint8_t* to = pipe.channel->reserve(requests_.maxSize(0));
    pipe.channel->commit(requests_.get(to, id, static_cast<std::uint32_t>(pipe.sent)));
    remember(pipe, id, OpKind::kGet);
}

void AppendTraffic::sendSet(std::uint64_t id) {
    const auto fields = fieldsToSend(id);
    const auto size = static_cast<std::uint32_t>(documentSize(fields));
    Pipe& pipe = pipeOf(id);
    std::uint8_t* to = pipe.channel->reserve(requests_.maxSize(size));
    const auto head = requests_.set(to, id, static_cast<std::uint32_t>(pipe.sent), size);
    writeDocument(to + head, store_.seed(), id, fields);
    pipe.channel->commit(head + size);
    remember(pipe, id, OpKind::kSet);
}

void AppendTraffic::onReadable(Channel& channel, Nanos now) {
    OpCounts opCounts;
    now_ = now;  // requests that follow from these answers leave with the flush below
    Pipe& pipe = pipes_[channel.index()];
    channel.drain(pipe.reader, [&](const protocol::Header& header) {
        channel.answered(1);
        answer(pipe, header, now, opCounts);
    });
    recorder_.add(now, opCounts);
    goOn();
}

void AppendTraffic::answer(Pipe& pipe, const protocol::Header& header, Nanos now,
                           OpCounts& opCounts) {
    const Request request = pipe.ring[pipe.answered & (pipe.ring.size() - 1)];
    const auto opcode =
            request.kind == OpKind::kGet ? protocol::Opcode::kGet : protocol::Opcode::kSet;
    if (pipe.answered == pipe.sent || header.opaque != static_cast<std::uint32_t>(pipe.answered) ||
        header.opcode != opcode) {
        throw LoadError("the server answered out of order");
    }
    ++pipe.answered;
    --inFlight_;
    opCounts.count(request.kind, header.status());
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
    onGet(request.id, header, opCounts);
    if (!stopped_) {
        sendSet(request.id);  // after a miss as well: the value to store is known
    }
}

void AppendTraffic::retryLater(const Request& request, Nanos now) {
    if (now - lastTaken_ > kRetryPatience) {
        throw LoadError("the server has refused every request for " +
                        std::to_string(kRetryPatience / kSecond) + " s (temporary failure)");
    }
    retry_.push_back(request);
    if (retryAt_ < now) {  // once for each read, not for each refusal in it
        backOff_ = std::clamp(2 * backOff_, kFirstRetry, kLongestRetry);
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
    flush();
}

// --- loading -----------------------------------------------------------------------------------

AppendLoad::AppendLoad(AppendStore& store, AppendShare share, const RequestWriter& requests,
                       const ClusterMap& routes, Recorder& recorder)
    : AppendTraffic(store, share, requests, routes, recorder) {
    // The highest id of this thread's residue; id 0 is not used.
    next_ = store.items();
    while (next_ != 0 && next_ % share.threads != share.thread) {
        --next_;
    }
}

void AppendLoad::startMore() {
    while (!exhausted() && slotFree()) {
        ++busy_;
        --allowed_;
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
                           const ClusterMap& routes, Recorder& recorder, AppendPass pass)
    : AppendTraffic(store, share, requests, routes, recorder),
      pass_(pass),
      random_(store.seed() ^ 0x64726177U, pass.stream) {}

void AppendUpdate::startMore() {
    while (drawsLeft_ != 0 && slotFree()) {
        const auto id = 1 + random_.below(pass_.range);
        --drawsLeft_;
        if (id % share_.threads != share_.thread) {
            continue;  // another thread's document; that thread draws the same number
        }
        ++busy_;
        if (++store_.pending(id) == 1) {
            sendGet(id);
        }
    }
}

void AppendUpdate::onGet(std::uint64_t id, const protocol::Header& header, OpCounts& opCounts) {
    if (header.status() == protocol::Status::kSuccess) {
        const auto size =
                header.bodyLength - header.extrasLength - header.keyLength - header.framingLength;
        if (size != documentSize(store_.fields(id))) {
            ++opCounts.errors.other;  // the server lost or mixed up an update
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
