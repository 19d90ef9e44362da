#pragma once

// Pipelined batches of GET and SET over the connections of one thread: a batch leaves with one
// write, answers are parsed in bulk, and at most `window` batches of a connection are unanswered.
// On a cluster a "connection" is one to each server: a batch is split by the cluster map and is
// answered when all of it is, as in libcouchbase.
// What to send, and when, is the Plan's decision (a template parameter: it is asked once per
// request, and a virtual call there is a visible part of the whole cost).
//
// Latency of a request = when the read that brought its answer returned, minus when its batch was
// begun (with a rate: was due). It includes the time that requests wait for each other in the
// batch.
//
//   struct Plan {
//     struct Start { std::uint32_t ops; Nanos at; };   // 0 ops: no batch now
//     Start next(std::size_t lane, Nanos now);
//     Nanos wakeAt(std::size_t lane) const;  // when next() may give one without any answer coming
//     bool finished(std::size_t lane) const; // next() will never give one again, answers aside
//     std::size_t maxSize() const;           // of one request
//     std::size_t write(std::size_t lane, std::uint8_t* to, std::uint32_t opaque);
//     void answered(std::size_t lane, std::uint32_t opaque, protocol::Status status, Nanos now);
//     void stop();
//   };

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "load/event_loop.h"
#include "load/recorder.h"
#include "load/session.h"

namespace kv::load {

struct BatchShape {
    std::uint32_t batch = 100;
    std::uint32_t window = 1;
};

template <class Plan>
class BatchTraffic final : public Traffic {
  public:
    /// Refers to plan, recorder and routes, which outlive it.
    BatchTraffic(Plan& plan, Recorder& recorder, std::uint32_t window, const ClusterMap& routes)
        : plan_(plan),
          recorder_(recorder),
          window_(window),
          routes_(routes),
          servers_(routes.servers.size()) {}

    /// Each turn of the plan begins with this; between turns nothing is in flight.
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
            lane.batches.resize(window_);
            pump(lane);
        }
    }

    void onReadable(Channel& channel, Nanos now) override {
        Lane& lane = lanes_[channel.index() / servers_];
        // What only several servers need would be a tenth of the cost of an operation on one.
        servers_ == 1 ? takeAnswers<true>(lane, channel, now)
                      : takeAnswers<false>(lane, channel, now);
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
                last.unanswered -= lane.unwritten;
                lane.unwritten = 0;
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
        std::uint32_t unanswered = 0;
        std::uint32_t opaque = 0;  // of its first request
    };
    struct Lane {
        std::size_t index = 0;
        std::vector<Channel*> channels;  // one to each server
        std::vector<Batch> batches;      // ring: `used` batches from `first`
        std::uint32_t first = 0;
        std::uint32_t used = 0;
        std::uint32_t unwritten = 0;          // requests of the newest batch still to be written
        std::uint32_t sent = 0;               // opaque of the next request
        std::vector<std::uint32_t> expected;  // by server: least opaque of the next answer
    };

    // Beyond this the batch goes out in several writes, so large values need no large buffer.
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
                lane.batches[(lane.first + lane.used) % window_] = {start.at, start.ops, start.ops,
                                                                    lane.sent};
                ++lane.used;
                lane.unwritten = start.ops;
            }
            const std::uint32_t before = lane.sent;
            servers_ == 1 ? write(lane) : writeByMap(lane);
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
        Channel& channel = *lane.channels.front();
        const std::size_t room = plan_.maxSize();
        while (lane.unwritten != 0 && channel.unsent() < kHighWater) {
            std::uint8_t* to = channel.reserve(room);
            channel.commit(plan_.write(lane.index, to, lane.sent));
            ++lane.sent;
            --lane.unwritten;
        }
    }

    /// The key says which server a request is for, so it is made before its buffer is known.
    void writeByMap(Lane& lane) {
        request_.resize(plan_.maxSize());
        std::size_t written = 0;
        while (lane.unwritten != 0 && written < kHighWater) {
            const std::size_t size = plan_.write(lane.index, request_.data(), lane.sent);
            const auto vbucket = loadBig<std::uint16_t>(request_.data() + 6);
            Channel& channel = *lane.channels[routes_.active[vbucket]];
            std::memcpy(channel.reserve(size), request_.data(), size);
            channel.commit(size);
            written += size;
            ++lane.sent;
            --lane.unwritten;
        }
    }

    /// The place of the batch that a request under way belongs to.
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

    template <bool kOneServer>
    void takeAnswers(Lane& lane, Channel& channel, Nanos now) {
        std::uint32_t& expected = lane.expected[kOneServer ? 0 : channel.index() % servers_];
        const std::uint32_t before = expected;
        Tally tally;
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
        channel.drain([&](const protocol::Header& header) {
            const bool get = header.opcode == protocol::Opcode::kGet;
            // A server answers in the order of its requests; of several servers each has some.
            const bool inOrder = kOneServer ? header.opaque == expected
                                            : header.opaque - expected < lane.sent - expected;
            if (!inOrder || lane.used == 0 || !(get || header.opcode == protocol::Opcode::kSet))
                    [[unlikely]] {
                throw LoadError("the server answered out of order");
            }
            expected = header.opaque + 1;
            if constexpr (!kOneServer) {
                ++answers;
                if (const auto in = placeOf(lane, header.opaque); in != place) {
                    record();
                    place = in;
                }
            }
            tally.count(get ? OpKind::kGet : OpKind::kSet, header.status());
            ++(get ? gets : sets);
            plan_.answered(lane.index, header.opaque, header.status(), now);
            if (--lane.batches[place].unanswered == 0) {
                record();
                while (lane.used != 0 && lane.batches[lane.first].unanswered == 0) {
                    lane.first = lane.first + 1 == window_ ? 0 : lane.first + 1;
                    --lane.used;
                }
                place = lane.first;
            }
        });
        record();
        inFlight_ -= kOneServer ? expected - before : answers;
        recorder_.add(now, tally);
    }

    Plan& plan_;
    Recorder& recorder_;
    std::uint32_t window_;
    const ClusterMap& routes_;
    const std::size_t servers_;
    std::vector<std::uint8_t> request_;  // one that is being made
    std::vector<Lane> lanes_;
    std::uint64_t inFlight_ = 0;
};

}  // namespace kv::load
