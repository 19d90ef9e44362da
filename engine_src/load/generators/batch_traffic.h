#pragma once

// BatchTraffic: pipelined batches of GET, SET and DELETE over the connections of one thread. A
// batch leaves with one write, answers are parsed in bulk, and at most `window` batches of a
// connection are unanswered. On a cluster a "connection" is one to each server: a batch is split by
// the cluster map and is answered when all of it is, as in libcouchbase.
//
// The Plan decides which requests to send and when; the Codec writes them and reads the answers.
// Both are template parameters: they are called once per request, where a virtual call would be a
// visible part of the whole cost.
//
// The latency of a request is the time when the read that brought its answer returned, minus the
// time when its batch was begun (with a rate: was due). It includes the time that requests wait for
// each other in the batch.
//
//   struct Plan {
//     struct Start { std::uint32_t ops; Nanos at; };   // 0 ops: no batch now
//     Start next(std::size_t lane, Nanos now);
//     Nanos wakeAt(std::size_t lane) const;  // when next() may return one without a new answer
//     bool finished(std::size_t lane) const; // next() will never return one again
//     Operation operation(std::size_t lane, std::uint32_t opaque);  // the next one of a batch
//     void answered(std::size_t lane, std::uint32_t opaque, protocol::Status status, Nanos now);
//     void stop();
//   };
//
//   struct Codec {
//     class Reader;                    // see Channel::drain; calls onReply(const Reply&)
//     static constexpr bool kRouted;   // vbucketOf() determines the server of a request
//     static constexpr bool kQuiet;    // see meta_codec.h; fence() ends a batch
//     std::size_t maxSize(std::uint32_t valueSize) const;  // of one request
//     std::size_t get(std::uint8_t* to, std::uint64_t number, std::uint32_t opaque) const;
//     std::size_t set(std::uint8_t* to, std::uint64_t number, std::uint32_t opaque,
//                     std::uint32_t valueSize) const;      // the part before the value
//     std::size_t tail(std::uint8_t* to) const;            // the part after it
//     std::size_t remove(std::uint8_t* to, std::uint64_t number, std::uint32_t opaque) const;
//   };
//
// Every answer must match its request. Every n-th value that a connection receives is compared with
// the values of its key (ValueSource::holds).

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "load/core/event_loop.h"
#include "load/core/recorder.h"
#include "load/core/value_source.h"
#include "load/generators/operation.h"
#include "load/protocols/reply.h"
#include "load/protocols/session.h"

namespace kv::load {

struct BatchShape {
    std::uint32_t batch = 100;      // maximum number of requests
    std::uint32_t window = 1;       // batches
    std::uint32_t verifyEvery = 0;  // compares every n-th value that a connection receives; 0: none
};

template <class Plan, class Codec>
class BatchTraffic final : public Traffic {
  public:
    /// Refers to all arguments except `shape`; they outlive it.
    BatchTraffic(Plan& plan, Recorder& recorder, const Codec& codec, const ValueSource& values,
                 const ClusterMap& routes, BatchShape shape)
        : plan_(plan),
          recorder_(recorder),
          codec_(codec),
          values_(values),
          window_(shape.window),
          ring_(std::bit_ceil(std::size_t{shape.batch} * shape.window)),
          verifyEvery_(shape.verifyEvery),
          routes_(routes),
          servers_(routes.servers.size()) {}

    /// Begins a slice of the plan; between slices nothing is in flight.
    void begin(std::vector<std::unique_ptr<Channel>>& channels) override {
        lanes_.resize(channels.size() / servers_);
        for (std::size_t i = 0; i < lanes_.size(); ++i) {
            Lane& lane = lanes_[i];
            lane.index = i;
            lane.channels.clear();
            for (std::size_t server = 0; server < servers_; ++server) {
                lane.channels.push_back(channels[i * servers_ + server].get());
            }
            lane.expected.resize(servers_);
            lane.readers.resize(servers_);
            lane.asked.resize(ring_);
            lane.batches.resize(window_);
            pump(lane);
        }
    }

    void onReadable(Channel& channel, Nanos now) override {
        Lane& lane = lanes_[channel.index() / servers_];
        // The work that only several servers need would be a tenth of the cost of an operation on
        // one server.
        if constexpr (Codec::kRouted) {
            if (servers_ != 1) {
                takeAnswers<false>(lane, channel, now);
                pump(lane);
                return;
            }
        }
        takeAnswers<true>(lane, channel, now);
        pump(lane);
    }

    void onWritable(Channel& channel, Nanos /*now*/) override {
        pump(lanes_[channel.index() / servers_]);
    }

    bool spreads() const override { return servers_ != 1; }

    Nanos nextWake() const override {
        Nanos wake = kNever;
        for (std::size_t i = 0; i < lanes_.size(); ++i) {
            if (lanes_[i].used < window_ && sent(lanes_[i]) && !plan_.finished(i)) {
                wake = std::min(wake, plan_.wakeAt(i));
            }
        }
        return wake;
    }

    void onWake(Nanos /*now*/) override {
        for (auto& lane : lanes_) {
            pump(lane);
        }
    }

    void stop() override {
        plan_.stop();
        for (auto& lane : lanes_) {  // requests of a begun batch that have not been written
            if (lane.unwritten != 0) {
                Batch& last = lane.batches[(lane.first + lane.used - 1) % window_];
                last.ops -= lane.unwritten;
                last.unanswered -= lane.unwritten;
                lane.unwritten = 0;
                if constexpr (Codec::kQuiet) {
                    fence(lane);
                }
                if (last.unanswered == 0) {
                    --lane.used;
                }
            }
        }
    }

    bool done() const override {
        if (inFlight_ != 0) {
            return false;
        }
        for (std::size_t i = 0; i < lanes_.size(); ++i) {
            if (lanes_[i].unwritten != 0 || !plan_.finished(i)) {
                return false;
            }
        }
        return true;
    }

    std::uint64_t inFlight() const override { return inFlight_; }

  private:
    struct Batch {
        Nanos at = 0;
        std::uint32_t ops = 0;
        std::uint32_t unanswered = 0;  // including the fence that ends a batch of quiet requests
        std::uint32_t opaque = 0;      // of its first request
    };
    struct Asked {
        std::uint64_t number = 0;  // of the key
        OpKind kind = OpKind::kGet;
    };
    struct Lane {
        std::size_t index = 0;
        std::vector<Channel*> channels;               // one to each server
        std::vector<typename Codec::Reader> readers;  // by server
        std::vector<Asked> asked;    // ring by opaque: requests without an answer yet
        std::vector<Batch> batches;  // ring: `used` batches from `first`
        std::uint32_t first = 0;
        std::uint32_t used = 0;
        std::uint32_t unwritten = 0;          // requests of the newest batch still to be written
        std::uint32_t sent = 0;               // opaque of the next request
        std::vector<std::uint32_t> expected;  // by server: least opaque of the next answer
        std::uint32_t toVerify = 1;           // values until the next one that is compared
    };

    // Beyond this the batch leaves in several writes, so large values need no large buffer.
    static constexpr std::size_t kHighWater = 1U << 20U;

    static bool sent(const Lane& lane) {
        return std::all_of(lane.channels.begin(), lane.channels.end(),
                           [](const Channel* channel) { return channel->unsent() == 0; });
    }

    void pump(Lane& lane) {
        if (!sent(lane)) {
            return;  // onWritable continues
        }
        for (;;) {
            if (lane.unwritten == 0) {
                if (lane.used == window_) {
                    return;
                }
                const auto start = plan_.next(lane.index, nowNanos());
                if (start.ops == 0) {
                    return;
                }
                lane.batches[(lane.first + lane.used) % window_] = {
                        start.at, start.ops, start.ops + (Codec::kQuiet ? 1 : 0), lane.sent};
                ++lane.used;
                lane.unwritten = start.ops;
            }
            const std::uint32_t before = lane.sent;
            write(lane);
            inFlight_ += lane.sent - before;
            bool all = true;
            for (Channel* channel : lane.channels) {
                all = channel->flush() && all;
            }
            if (!all) {
                return;
            }
        }
    }

    void write(Lane& lane) {
        if constexpr (Codec::kRouted) {
            if (servers_ != 1) {
                writeByMap(lane);
                return;
            }
        }
        Channel& channel = *lane.channels.front();
        const std::size_t room = codec_.maxSize(values_.maxSize());
        while (lane.unwritten != 0 && channel.unsent() < kHighWater) {
            channel.commit(writeNext(lane, channel.reserve(room)));
        }
        if constexpr (Codec::kQuiet) {
            if (lane.unwritten == 0) {
                fence(lane);
            }
        }
    }

    /// Writes one request and returns its size.
    std::size_t writeNext(Lane& lane, std::uint8_t* to) {
        const std::uint32_t opaque = lane.sent++;
        --lane.unwritten;
        const Operation operation = plan_.operation(lane.index, opaque);
        lane.asked[opaque & (ring_ - 1)] = {operation.number, operation.kind};
        if (operation.kind == OpKind::kGet) {
            return codec_.get(to, operation.number, opaque);
        }
        if (operation.kind == OpKind::kDelete) {
            return codec_.remove(to, operation.number, opaque);
        }
        auto size = codec_.set(to, operation.number, opaque, operation.size);
        values_.write(to + size, operation.size, operation.word);
        size += operation.size;
        return size + codec_.tail(to + size);
    }

    /// Ends a batch of quiet requests: the answer means that all of it has been carried out.
    void fence(Lane& lane) {
        Channel& channel = *lane.channels.front();
        channel.commit(codec_.fence(channel.reserve(Codec::kFenceSize)));
        ++inFlight_;
    }

    /// The key determines the server of a request, so it is made before its buffer is known.
    void writeByMap(Lane& lane) {
        request_.resize(codec_.maxSize(values_.maxSize()));
        std::size_t written = 0;
        while (lane.unwritten != 0 && written < kHighWater) {
            const std::size_t size = writeNext(lane, request_.data());
            Channel& channel = *lane.channels[routes_.active[Codec::vbucketOf(request_.data())]];
            std::memcpy(channel.reserve(size), request_.data(), size);
            channel.commit(size);
            written += size;
        }
    }

    /// Returns the place of the batch that an unanswered request belongs to.
    std::uint32_t placeOf(const Lane& lane, std::uint32_t opaque) const {
        std::uint32_t place = lane.first;
        for (std::uint32_t n = 0; n < lane.used; ++n) {
            if (opaque - lane.batches[place].opaque < lane.batches[place].ops) {
                break;
            }
            place = place + 1 == window_ ? 0 : place + 1;
        }
        return place;
    }

    [[noreturn]] static void outOfOrder() { throw LoadError("the server answered out of order"); }

    static bool fits(Reply::To to, OpKind kind) noexcept {
        switch (to) {
            case Reply::To::kGet:
                return kind == OpKind::kGet;
            case Reply::To::kSet:
                return kind == OpKind::kSet;
            case Reply::To::kDelete:
                return kind == OpKind::kDelete;
            case Reply::To::kAny:
                return true;
            default:
                return false;
        }
    }

    /// Compares the value of every n-th hit.
    void verify(Lane& lane, const Asked& asked, const Reply& reply, OpCounts& opCounts) const {
        if (verifyEvery_ == 0) {
            lane.toVerify = ~std::uint32_t{0};
            return;
        }
        lane.toVerify = verifyEvery_;
        if (!reply.whole) {
            return;  // larger than the receive buffer
        }
        if (!values_.holds(reply.value, asked.number)) {
            throw LoadError("wrong value of the key of number " + std::to_string(asked.number) +
                            ": " + std::to_string(reply.value.size()) +
                            " bytes that this load does not write (--verify-every 0 accepts any)");
        }
        ++opCounts.verified;
    }

    template <bool kOneServer>
    void takeAnswers(Lane& lane, Channel& channel, Nanos now) {
        const std::size_t server = kOneServer ? 0 : channel.index() % servers_;
        std::uint32_t& expected = lane.expected[server];
        OpCounts opCounts;
        std::uint64_t gets = 0;
        std::uint64_t sets = 0;
        std::uint64_t answers = 0;
        std::uint32_t place = lane.first;  // of the batch that gets and sets belong to
        auto record = [&] {
            if (gets + sets != 0) {
                recorder_.latency(OpKind::kGet, lane.batches[place].at, now, gets);
                recorder_.latency(OpKind::kSet, lane.batches[place].at, now, sets);
                gets = sets = 0;
            }
        };
        auto leaveBatch = [&] {  // one of its answers has come
            ++answers;
            if (--lane.batches[place].unanswered == 0) {
                record();
                while (lane.used != 0 && lane.batches[lane.first].unanswered == 0) {
                    lane.first = lane.first + 1 == window_ ? 0 : lane.first + 1;
                    --lane.used;
                }
                place = lane.first;
            }
        };
        auto settle = [&](std::uint32_t opaque, OpKind kind, protocol::Status status) {
            expected = opaque + 1;
            if constexpr (!kOneServer) {
                if (const auto in = placeOf(lane, opaque); in != place) {
                    record();
                    place = in;
                }
            }
            opCounts.count(kind, status);
            ++(kind == OpKind::kGet ? gets : sets);  // a DELETE takes the time of a write
            plan_.answered(lane.index, opaque, status, now);
            leaveBatch();
        };
        auto asked = [&](std::uint32_t opaque) -> const Asked& {
            return lane.asked[opaque & (ring_ - 1)];
        };
        /// Quiet requests before `opaque` were carried out, but a GET that found nothing.
        auto settleQuiet = [&](std::uint32_t opaque) {
            while (expected != opaque) {
                const auto kind = asked(expected).kind;
                settle(expected, kind,
                       kind == OpKind::kGet ? protocol::Status::kKeyEnoent
                                            : protocol::Status::kSuccess);
            }
        };
        channel.drain(lane.readers[server], [&](const Reply& reply) {
            if (lane.used == 0) [[unlikely]] {
                outOfOrder();
            }
            std::uint32_t opaque = reply.tagged ? reply.opaque : expected;
            if constexpr (Codec::kQuiet) {
                if (reply.to == Reply::To::kFence) {
                    const Batch& batch = lane.batches[lane.first];
                    const auto end = batch.opaque + batch.ops;
                    if (lane.unwritten != 0 && lane.used == 1) {
                        outOfOrder();  // its fence has not been sent
                    }
                    settleQuiet(end);
                    leaveBatch();
                    return;
                }
                // An error of some SET: counted for the oldest, because errors are only counted.
                if (!reply.tagged) {
                    while (opaque != lane.sent && asked(opaque).kind != OpKind::kSet) {
                        ++opaque;
                    }
                    opaque = opaque == lane.sent ? expected : opaque;
                }
                if (opaque - expected >= lane.sent - expected) {
                    outOfOrder();
                }
                settleQuiet(opaque);
            }
            // A server answers in the order of its requests; of several servers each has some.
            const bool inOrder = kOneServer ? opaque == expected && opaque != lane.sent
                                            : opaque - expected < lane.sent - expected;
            if (!inOrder || !fits(reply.to, asked(opaque).kind)) [[unlikely]] {
                outOfOrder();
            }
            if (reply.status == protocol::Status::kSuccess) {
                if (reply.to == Reply::To::kGet && --lane.toVerify == 0) [[unlikely]] {
                    verify(lane, asked(opaque), reply, opCounts);
                }
            } else if (reply.status != protocol::Status::kKeyEnoent) [[unlikely]] {
                recorder_.refused(protocol::asText(reply.value));
            }
            settle(opaque, asked(opaque).kind, reply.status);
        });
        record();
        inFlight_ -= answers;
        channel.answered(answers);
        recorder_.add(now, opCounts);
    }

    Plan& plan_;
    Recorder& recorder_;
    const Codec& codec_;
    const ValueSource& values_;
    std::uint32_t window_;
    std::size_t ring_;  // a power of two
    std::uint32_t verifyEvery_;
    const ClusterMap& routes_;
    const std::size_t servers_;
    std::vector<std::uint8_t> request_;  // the request that is being made
    std::vector<Lane> lanes_;
    std::uint64_t inFlight_ = 0;
};

}  // namespace kv::load
