#include "load/generators/consistency_checker_worker.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "load/core/event_loop.h"

namespace kv::load {

using protocol::Header;
using protocol::Opcode;
using protocol::Status;

namespace {

constexpr Nanos kSendAgain = 10 * kMilli;  // for operations that were refused or have no connection
constexpr Nanos kAskAgain = 10 * kMilli;   // for a newer map
constexpr Nanos kReconnect = 100 * kMilli;  // to a server of the map
constexpr std::chrono::milliseconds kConnectTimeout{500};
constexpr int kStopCheckMs = 100;  // a stop is seen within this time
constexpr int kRetryCheckMs = 2;   // while something waits to be sent again

}  // namespace

void Findings::add(const Findings& other) noexcept {
    lost += other.lost;
    foreign += other.foreign;
    absent += other.absent;
    notMyVbucket += other.notMyVbucket;
    brokenOff += other.brokenOff;
    maps += other.maps;
}

ConsistencyCheckerWorker::ConsistencyCheckerWorker(const ConsistencyCheckerOptions& options,
                                                   LaneRange lanes, const KeyCodec& keys,
                                                   const ValueSource& values)
    : options_(options),
      range_(lanes),
      keys_(keys),
      values_(values),
      setBelow_(static_cast<std::uint64_t>(std::llround(options.setPercent / 100.0 * 0x1p32))) {}

void ConsistencyCheckerWorker::connect() {
    auto opened =
            openSessions(options_.connection.session, options_.vbuckets, std::size_t{range_.count});
    map_ = std::move(opened.map);
    if (map_.active.empty()) {
        throw LoadError("the server has no cluster map that could be followed");
    }
    requests_.emplace(keys_,
                      RequestWriter::Shape{.vbuckets = opened.vbuckets, .flags = 0x03000002U});
    request_.resize(requests_->maxSize(values_.maxSize()));
    auto session = opened.sessions.begin();
    for (std::size_t i = 0; i < range_.count; ++i) {
        const auto global = range_.first + i;
        const auto begin = partBegin(options_.items, global, range_.total);
        const auto size = partBegin(options_.items, global + 1, range_.total) - begin;
        Lane lane{Random(options_.seed, global), options_.startAt + begin,
                  std::vector<std::uint64_t>(size), std::vector<bool>(size)};
        for (const auto& server : map_.servers) {
            lane.links.push_back({server, std::make_unique<Channel>(session->client.takeSocket(),
                                                                    lane.links.size())});
            ++session;
        }
        lanes_.push_back(std::move(lane));
    }
}

void ConsistencyCheckerWorker::run(const ConsistencyCheckerPhase& phase) {
    for (auto& lane : lanes_) {
        lane.cursor = 0;
    }
    const auto patience = nanos(options_.connection.opTimeout);
    lastService_ = nowNanos();
    for (;;) {
        const Nanos now = nowNanos();
        reconnect(now);
        std::uint64_t underWay = 0;
        for (auto& lane : lanes_) {
            if (lane.unanswered == 0 && !ended(lane, phase, now)) {
                beginBatch(lane, phase, now);
            }
            sendParked(lane, now);
            underWay += lane.unanswered;
        }
        if (underWay == 0) {
            return;
        }
        askForMap(now);
        for (auto& lane : lanes_) {
            flush(lane);
        }
        wait(phase);
        takeNews();
        if (nowNanos() - lastService_ > patience) {
            throw Stalled("no operation was completed for " + std::to_string(patience / kSecond) +
                                  " s, with " + std::to_string(underWay) + " under way" +
                                  (trouble_.empty() ? "" : " (last trouble: " + trouble_ + ")"),
                          underWay);
        }
    }
}

bool ConsistencyCheckerWorker::ended(const Lane& lane, const ConsistencyCheckerPhase& phase,
                                     Nanos now) {
    if (phase.stop.load(std::memory_order_relaxed)) {
        return true;
    }
    return phase.what == ConsistencyCheckerPhase::What::kMix ? now >= phase.until
                                                             : lane.cursor == lane.size();
}

void ConsistencyCheckerWorker::beginBatch(Lane& lane, const ConsistencyCheckerPhase& phase,
                                          Nanos now) {
    if (phase.what == ConsistencyCheckerPhase::What::kMix) {
        const auto ops = std::min<std::uint64_t>(options_.batch, lane.size());
        for (std::uint64_t n = 0; n < ops; ++n) {
            ++lane.unanswered;
            send(lane, drawn(lane, now));
        }
        return;
    }
    for (std::uint32_t n = 0; n < options_.batch && lane.cursor != lane.size(); ++n) {
        ++lane.unanswered;
        send(lane, {Kind::kGet, 0, lane.first + lane.cursor++, now});
    }
}

/// Draws only among keys without an operation in progress: two operations on one key could overtake
/// each other.
ConsistencyCheckerWorker::Op ConsistencyCheckerWorker::drawn(Lane& lane, Nanos now) {
    auto key = lane.random.below(lane.size());
    while (lane.busy[key]) {
        key = key + 1 == lane.size() ? 0 : key + 1;
    }
    lane.busy[key] = true;
    const bool set = lane.random.next() >> 32U < setBelow_;
    return {set ? Kind::kSet : Kind::kGet, 0, lane.first + key, now};
}

void ConsistencyCheckerWorker::send(Lane& lane, Op op) {
    op.opaque = lane.opaque;
    const auto size = write(lane, op);
    Link& link = lane.links[map_.active[loadBig<std::uint16_t>(request_.data() + 6)]];
    if (!link.channel) {
        park(lane, op);
        return;
    }
    ++lane.opaque;
    std::memcpy(link.channel->reserve(size), request_.data(), size);
    link.channel->commit(size);
    link.waiting.push_back(op);
}

std::size_t ConsistencyCheckerWorker::write(Lane& lane, const Op& op) {
    if (op.kind != Kind::kSet) {
        return requests_->get(request_.data(), op.key, op.opaque);
    }
    std::uint32_t size = values_.minSize();
    if (size != values_.maxSize()) {
        size += static_cast<std::uint32_t>(lane.random.below(values_.maxSize() - size + 1));
    }
    const auto head = requests_->set(request_.data(), op.key, op.opaque, size);
    storeBig(request_.data() + 16, lane.casOf(op.key));
    values_.write(request_.data() + head, size, lane.random.next());
    return head + size;
}

void ConsistencyCheckerWorker::park(Lane& lane, const Op& op) {
    if (lane.parked.empty()) {
        lane.sendAgain = nowNanos() + kSendAgain;
    }
    lane.parked.push_back(op);
    wantMap_ = true;
}

void ConsistencyCheckerWorker::sendParked(Lane& lane, Nanos now) {
    if (lane.parked.empty() || now < lane.sendAgain) {
        return;
    }
    for (const auto& op : std::exchange(lane.parked, {})) {
        send(lane, op);
    }
}

void ConsistencyCheckerWorker::flush(Lane& lane) {
    for (auto& link : lane.links) {
        if (link.channel && link.channel->unsent() != 0) {
            try {
                link.channel->flush();
            } catch (const LoadError& error) {
                lose(lane, link, error.what());
            }
        }
    }
}

void ConsistencyCheckerWorker::wait(const ConsistencyCheckerPhase& phase) {
    polled_.clear();
    bool retries = wantMap_;
    for (const auto& lane : lanes_) {
        retries = retries || !lane.parked.empty();
        for (const auto& link : lane.links) {
            const bool full = link.channel && link.channel->unsent() != 0;
            polled_.push_back({link.channel ? link.channel->fd() : -1,
                               static_cast<short>(full ? POLLIN | POLLOUT : POLLIN), 0});
        }
    }
    ::poll(polled_.data(), polled_.size(), retries ? kRetryCheckMs : kStopCheckMs);
    auto polled = polled_.begin();
    for (auto& lane : lanes_) {
        for (auto& link : lane.links) {
            if ((polled++->revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
                read(lane, link, phase);
            }
        }
    }
}

void ConsistencyCheckerWorker::read(Lane& lane, Link& link, const ConsistencyCheckerPhase& phase) {
    try {
        for (bool readable = true; readable && link.channel->receive();
             readable = link.channel->hasPending()) {
            const Nanos now = nowNanos();
            link.channel->drain(link.reader, [&](const Header& header, protocol::Bytes body) {
                answered(lane, link, header, body, phase, now);
            });
        }
    } catch (const LoadError& error) {
        lose(lane, link, error.what());
    }
}

void ConsistencyCheckerWorker::answered(Lane& lane, Link& link, const Header& header,
                                        protocol::Bytes body, const ConsistencyCheckerPhase& phase,
                                        Nanos now) {
    if (link.waiting.empty() || link.waiting.front().opaque != header.opaque) {
        // Not a fault of the connection.
        throw std::runtime_error("the server answered out of order");
    }
    const Op op = link.waiting.front();
    link.waiting.pop_front();
    if (op.kind == Kind::kMap) {
        link.mapAsked = false;
        if (header.status() == Status::kSuccess) {
            const std::size_t before =
                    std::size_t{header.framingLength} + header.extrasLength + header.keyLength;
            const auto value = body.subspan(std::min(before, body.size()));
            news_.push_back({std::string(protocol::asText(value)), link.server});
        }
        return;
    }
    if (header.status() == Status::kNotMyVbucket) {
        ++findings_.notMyVbucket;
        park(lane, op);
        return;
    }
    op.kind == Kind::kSet ? setAnswer(lane, op, header, phase, now)
                          : getAnswer(lane, op, header, phase, now);
}

void ConsistencyCheckerWorker::getAnswer(Lane& lane, Op op, const Header& header,
                                         const ConsistencyCheckerPhase& phase, Nanos now) {
    const auto status = header.status();
    const bool absent = status == Status::kKeyEnoent;
    const std::uint64_t cas = absent ? 0 : header.cas;
    const std::uint64_t expected = lane.casOf(op.key);
    if (status != Status::kSuccess && !absent) {
        if (op.kind == Kind::kGet) {
            complete(lane, op, OpKind::kGet, status, phase, now);
        } else {
            park(lane, op);  // until it is known what the server has
        }
        return;
    }
    if (op.kind == Kind::kGet) {
        findings_.absent += absent ? 1U : 0U;
        if (phase.what == ConsistencyCheckerPhase::What::kLearn) {
            lane.casOf(op.key) = cas;
        } else {
            compare(lane, op.key, cas);
        }
        complete(lane, op, OpKind::kGet, status, phase, now);
    } else if (op.mayBeMade && cas > expected) {
        lane.casOf(op.key) = cas;  // before this GET, or before the SET that was refused
        complete(lane, op, OpKind::kSet, Status::kSuccess, phase, now);
    } else if (op.kind == Kind::kAfterRefusal && cas == expected) {
        complete(lane, op, OpKind::kSet, Status::kKeyEexists, phase, now);
    } else {
        compare(lane, op.key, cas);
        op.kind = Kind::kSet;
        send(lane, op);
    }
}

void ConsistencyCheckerWorker::setAnswer(Lane& lane, Op op, const Header& header,
                                         const ConsistencyCheckerPhase& phase, Nanos now) {
    const auto status = header.status();
    if (status == Status::kKeyEexists) {
        op.kind = Kind::kAfterRefusal;
        send(lane, op);
        return;
    }
    if (status == Status::kKeyEnoent && lane.casOf(op.key) != 0) {
        compare(lane, op.key, 0);
        send(lane, op);
        return;
    }
    if (status == Status::kSuccess) {
        lane.casOf(op.key) = header.cas;
    }
    complete(lane, op, OpKind::kSet, status, phase, now);
}

void ConsistencyCheckerWorker::compare(Lane& lane, std::uint64_t key, std::uint64_t cas) {
    auto& expected = lane.casOf(key);
    findings_.lost += cas < expected ? 1U : 0U;
    findings_.foreign += cas > expected ? 1U : 0U;
    expected = cas;
}

void ConsistencyCheckerWorker::complete(Lane& lane, const Op& op, OpKind kind, Status status,
                                        const ConsistencyCheckerPhase& phase, Nanos now) {
    lane.busy[op.key - lane.first] = false;
    --lane.unanswered;
    lastService_ = now;
    OpCounts opCounts;
    opCounts.count(kind, status);
    phase.recorder.latency(kind, op.at, now, 1);
    phase.recorder.add(now, opCounts);
    if (phase.what == ConsistencyCheckerPhase::What::kMix && opCounts.errors.total() == 0) {
        const auto milli =
                static_cast<std::size_t>(std::max<Nanos>(now - phase.recorder.start(), 0) / kMilli);
        perMilli_.resize(std::max(perMilli_.size(), milli + 1));
        ++perMilli_[milli];
    }
}

void ConsistencyCheckerWorker::lose(Lane& lane, Link& link, const std::string& why) {
    trouble_ = link.server.host + ":" + std::to_string(link.server.port) + ": " + why;
    for (auto op : std::exchange(link.waiting, {})) {
        if (op.kind == Kind::kMap) {
            continue;
        }
        ++findings_.brokenOff;
        if (op.kind == Kind::kSet) {
            op.kind = Kind::kAfterBreak;
            op.mayBeMade = true;
        }
        park(lane, op);
    }
    link.channel.reset();
    link.reader = {};
    link.mapAsked = false;
    link.tryAgain = nowNanos() + kReconnect;
    wantMap_ = true;
}

void ConsistencyCheckerWorker::reconnect(Nanos now) {
    for (auto& lane : lanes_) {
        for (auto& link : lane.links) {
            if (link.channel || now < link.tryAgain) {
                continue;
            }
            auto there = options_.connection.session;
            there.host = link.server.host;
            there.port = link.server.port;
            there.timeout = std::min(there.timeout, kConnectTimeout);
            try {
                link.channel = std::make_unique<Channel>(openSession(there).client.takeSocket(), 0);
            } catch (const LoadError& error) {
                trouble_ = error.what();
                link.tryAgain = nowNanos() + kReconnect;
                wantMap_ = true;
            }
        }
    }
}

void ConsistencyCheckerWorker::askForMap(Nanos now) {
    if (!wantMap_ || now < askAgain_) {
        return;
    }
    wantMap_ = false;  // operations that are still parked request it again
    askAgain_ = now + kAskAgain;
    Lane& lane = lanes_.front();
    for (auto& link : lane.links) {
        if (!link.channel || link.mapAsked) {
            continue;
        }
        const protocol::FrameSpec spec{.opcode = Opcode::kGetClusterConfig, .opaque = lane.opaque};
        protocol::writeFrame(link.channel->reserve(spec.size()), spec);
        link.channel->commit(spec.size());
        link.waiting.push_back({Kind::kMap, lane.opaque++, 0, now});
        link.mapAsked = true;
    }
}

void ConsistencyCheckerWorker::takeNews() {
    for (const auto& news : std::exchange(news_, {})) {
        auto next = parseMap(news.map, news.from, options_.connection.session.tls.has_value());
        if (next.version <= map_.version) {
            continue;
        }
        if (next.active.size() != map_.active.size()) {
            throw LoadError("the cluster's map has another number of vBuckets now");
        }
        map_ = std::move(next);
        ++findings_.maps;
        for (auto& lane : lanes_) {
            follow(lane);
        }
    }
}

/// Opens connections to the servers of the map and closes those to others.
void ConsistencyCheckerWorker::follow(Lane& lane) {
    auto before = std::exchange(lane.links, {});
    for (const auto& server : map_.servers) {
        const auto known = std::find_if(before.begin(), before.end(),
                                        [&](const Link& link) { return link.server == server; });
        lane.links.push_back(known == before.end() ? Link{.server = server} : std::move(*known));
    }
    for (auto& link : before) {
        if (link.channel) {
            lose(lane, link, "is no longer of the cluster");
        }
    }
    lane.sendAgain = 0;
}

}  // namespace kv::load
