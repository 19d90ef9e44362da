// DcpNoopTimer: decides when a DCP client gets a no-op and when it is considered gone.
//
// A no-op is due one interval after the previous one. A client that does not answer it is gone one
// interval later. That interval restarts when the client reads bytes while the no-op may still wait
// behind other messages. So a client that reads nothing is gone after two intervals, although the
// no-op cannot reach it, and a slow client that keeps reading stays.
//
// Threads: belongs to one connection and lives on its front-end thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "server/connections/conversation.h"

namespace kv::server {

class DcpNoopTimer {
  public:
    using Clock = std::chrono::steady_clock;

    explicit DcpNoopTimer(Clock::time_point now) : last_(now) {}

    void enable(bool on, Clock::time_point now) {
        on_ = on;
        state_ = State::Idle;
        last_ = now;
    }
    void setInterval(std::chrono::seconds interval) { interval_ = interval; }
    [[nodiscard]] std::chrono::seconds interval() const { return interval_; }

    /// Returns true once for each no-op, which the caller must then write.
    bool takeDue() {
        if (state_ != State::Due) {
            return false;
        }
        state_ = State::Written;
        end_.reset();
        return true;
    }
    void answered() { state_ = state_ == State::Written ? State::Idle : state_; }

    /// Call it about once a second. Returns false if the client is gone.
    bool tick(Clock::time_point now, const Delivery& delivery) {
        if (!on_) {
            return true;
        }
        if (state_ == State::Idle) {
            if (now - last_ >= interval_) {
                state_ = State::Due;
                last_ = now;
            }
            return true;
        }
        if (state_ == State::Written && !end_) {
            end_ = delivery.taken + delivery.waiting;  // the no-op ends at this byte or before
        }
        if (!end_ || delivery.taken < *end_) {
            last_ = std::max(last_, delivery.lastTaken);
        }
        return now - last_ < interval_;
    }

  private:
    enum class State : uint8_t { Idle, Due, Written };

    bool on_{false};
    std::chrono::seconds interval_{20};
    State state_{State::Idle};
    /// In state Idle, the time of the last no-op; otherwise the last sign of life.
    Clock::time_point last_;
    /// Number of bytes that the client has taken once it has received the no-op.
    std::optional<uint64_t> end_;
};

}  // namespace kv::server
