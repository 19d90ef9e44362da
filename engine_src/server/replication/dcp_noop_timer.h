// DcpNoopTimer: decides when a DCP client is due for a no-op and when it is taken to be gone.
//
// A no-op is due one interval after the last one. The client is gone one interval later, counted
// from its last sign of life: an answer, or bytes taken while the no-op may still wait behind other
// messages. So a client that takes nothing is gone after two intervals, although the no-op itself
// cannot reach it, and a slow client that keeps reading is not.
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

    /// Returns true once for each no-op; the caller writes it now.
    bool takeDue() {
        if (state_ != State::Due) {
            return false;
        }
        state_ = State::Written;
        end_.reset();
        return true;
    }
    void answered() { state_ = state_ == State::Written ? State::Idle : state_; }

    /// Called about once a second. Returns false when the client is gone.
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
    /// Bytes that the client has taken when it has received the no-op.
    std::optional<uint64_t> end_;
};

}  // namespace kv::server
