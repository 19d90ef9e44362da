#pragma once

// Pipelined batches of GET and SET over the connections of one thread: a batch leaves with one
// write, answers are parsed in bulk, and at most `window` batches of a connection are unanswered.
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
#include <memory>
#include <vector>

#include "load/event_loop.h"
#include "load/recorder.h"

namespace kv::load {

struct BatchShape {
    std::uint32_t batch = 100;
    std::uint32_t window = 1;
};

template <class Plan>
class BatchTraffic final : public Traffic {
  public:
    /// Refers to plan and recorder, which outlive it.
    BatchTraffic(Plan& plan, Recorder& recorder, std::uint32_t window)
        : plan_(plan), recorder_(recorder), window_(window) {}

    /// Each turn of the plan begins with this; between turns nothing is in flight.
    void begin(std::vector<std::unique_ptr<Channel>>& channels) override {
        lanes_.resize(channels.size());
        for (std::size_t i = 0; i < channels.size(); ++i) {
            lanes_[i].channel = channels[i].get();
            lanes_[i].batches.resize(window_);
            pump(lanes_[i]);
        }
    }

    void onReadable(Channel& channel, Nanos now) override {
        Lane& lane = lanes_[channel.index()];
        takeAnswers(lane, now);
        pump(lane);
    }

    void onWritable(Channel& channel, Nanos /*now*/) override { pump(lanes_[channel.index()]); }

    Nanos nextWake() const override {
        Nanos wake = kNever;
        for (std::size_t i = 0; i < lanes_.size(); ++i) {
            if (lanes_[i].used < window_ && lanes_[i].channel->unsent() == 0 &&
                !plan_.finished(i)) {
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
        std::uint32_t unanswered = 0;
    };
    struct Lane {
        Channel* channel = nullptr;
        std::vector<Batch> batches;  // ring: `used` batches from `first`
        std::uint32_t first = 0;
        std::uint32_t used = 0;
        std::uint32_t unwritten = 0;  // requests of the newest batch still to be written
        std::uint32_t sent = 0;       // opaque of the next request
        std::uint32_t expected = 0;   // opaque of the next answer
    };

    // Beyond this the batch goes out in several writes, so large values need no large buffer.
    static constexpr std::size_t kHighWater = 1U << 20U;

    void pump(Lane& lane) {
        const std::size_t index = lane.channel->index();
        if (lane.channel->unsent() != 0) {
            return;  // onWritable continues
        }
        for (;;) {
            if (lane.unwritten == 0) {
                if (lane.used == window_) {
                    return;
                }
                const auto start = plan_.next(index, nowNanos());
                if (start.ops == 0) {
                    return;
                }
                lane.batches[(lane.first + lane.used) % window_] = {start.at, start.ops};
                ++lane.used;
                lane.unwritten = start.ops;
            }
            const std::size_t room = plan_.maxSize();
            const std::uint32_t before = lane.sent;
            while (lane.unwritten != 0 && lane.channel->unsent() < kHighWater) {
                std::uint8_t* to = lane.channel->reserve(room);
                lane.channel->commit(plan_.write(index, to, lane.sent));
                ++lane.sent;
                --lane.unwritten;
            }
            inFlight_ += lane.sent - before;
            if (!lane.channel->flush()) {
                return;
            }
        }
    }

    void takeAnswers(Lane& lane, Nanos now) {
        const std::size_t index = lane.channel->index();
        Tally tally;
        std::uint64_t gets = 0;
        std::uint64_t sets = 0;
        const std::uint32_t before = lane.expected;
        auto record = [&](Nanos at) {
            recorder_.latency(OpKind::kGet, at, now, gets);
            recorder_.latency(OpKind::kSet, at, now, sets);
            gets = sets = 0;
        };
        lane.channel->drain([&](const protocol::Header& header) {
            const bool get = header.opcode == protocol::Opcode::kGet;
            if (header.opaque != lane.expected || lane.used == 0 ||
                !(get || header.opcode == protocol::Opcode::kSet)) [[unlikely]] {
                throw LoadError("the server answered out of order");
            }
            ++lane.expected;
            tally.count(get ? OpKind::kGet : OpKind::kSet, header.status());
            ++(get ? gets : sets);
            plan_.answered(index, header.opaque, header.status(), now);
            Batch& batch = lane.batches[lane.first];
            if (--batch.unanswered == 0) {
                record(batch.at);
                lane.first = (lane.first + 1) % window_;
                --lane.used;
            }
        });
        if (gets + sets != 0) {
            record(lane.batches[lane.first].at);
        }
        inFlight_ -= lane.expected - before;
        recorder_.add(now, tally);
    }

    Plan& plan_;
    Recorder& recorder_;
    std::uint32_t window_;
    std::vector<Lane> lanes_;
    std::uint64_t inFlight_ = 0;
};

}  // namespace kv::load
