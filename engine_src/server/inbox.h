// Inbox: what a connection keeps of its input between two reads: the front part of a request that
// has not fully arrived (of a large one, the value in its Blob), or whole requests of a later turn.
// It also knows how long the request under way has been coming.
//
// One front-end thread. While requests arrive whole it is empty and owns no memory.
#pragma once

#include <algorithm>
#include <chrono>

#include "server/byte_buffer.h"
#include "server/large_request.h"
#include "server/request_loop.h"

namespace kv::server {

class Inbox {
  public:
    using Clock = std::chrono::steady_clock;

    [[nodiscard]] protocol::Bytes view() const { return bytes_.view(); }
    [[nodiscard]] size_t held() const { return bytes_.capacity() + large_.held(); }
    /// Whole requests wait for their turn: nothing need be read to go on.
    [[nodiscard]] bool hasRequests() const { return wanted_ == 0 && !bytes_.empty(); }
    /// Size that the kept bytes must reach before they are worth parsing; 0: not known.
    [[nodiscard]] size_t wanted() const { return wanted_; }

    /// Copies the kept bytes to `to`, which has room for them; how many they are.
    size_t copyTo(uint8_t* to) const {
        std::copy_n(bytes_.view().data(), bytes_.size(), to);
        return bytes_.size();
    }
    /// The kept bytes are where copyTo() put them; only the memory stays here.
    void forgetCopied() { bytes_.clear(); }
    /// Bytes that make the request under way complete.
    [[nodiscard]] size_t missing() const {
        return large_ ? large_.missing() : wanted_ - bytes_.size();
    }
    /// Room for `count` bytes more of the request under way.
    uint8_t* reserve(size_t count) { return large_ ? large_.room() : bytes_.reserve(count); }
    /// `count` bytes came where reserve() said. True when the request is complete.
    bool commit(size_t count, Clock::time_point now) {
        if (large_) {
            large_.commit(count);
        } else {
            bytes_.commit(count);
        }
        lastByte_ = now;
        return missing() == 0;
    }
    /// The request under way is read into `large` from now on, which has all that was kept of it.
    void readInto(LargeRequest large) {
        large_ = std::move(large);
        bytes_.clear();
        bytes_.releaseAbove(kKeepCapacity);
    }
    [[nodiscard]] bool readsLarge() const { return static_cast<bool>(large_); }
    /// The request under way, which is complete.
    LargeRequest takeLarge() { return std::move(large_); }
    /// A large request has just been run: the next one is likely to be large, too. Until keep().
    void expectLarge() { expectsLarge_ = true; }
    [[nodiscard]] bool expectsLarge() const { return expectsLarge_; }

    /// Keeps what `progress` left of `input`, which may lie inside view(), or `large`, which has
    /// it.
    void keep(protocol::Bytes input, const Progress& progress, Clock::time_point now,
              LargeRequest large = {}) {
        const auto rest = input.subspan(progress.consumed);
        const auto kept = bytes_.view();
        if (large) {
            bytes_.clear();
        } else if (!kept.empty() && rest.data() >= kept.data() &&
                   rest.data() < kept.data() + kept.size()) {
            bytes_.consume(kept.size() - rest.size());
        } else {
            bytes_.clear();
            bytes_.append(rest);
        }
        bytes_.releaseAbove(kKeepCapacity);
        wanted_ = progress.stop == Stop::NeedInput ? progress.wanted : 0;
        lastByte_ = now;
        if (progress.consumed != 0 || !underWay_) {
            firstByte_ = now;
        }
        toSkip_ = progress.stop == Stop::NeedInput ? progress.skip : 0;
        large_ = std::move(large);
        expectsLarge_ = false;
        underWay_ = toSkip_ != 0 || (wanted_ != 0 && (large_ || !bytes_.empty()));
    }
    /// Bytes that will come and belong to a request that was refused as too long.
    [[nodiscard]] size_t toSkip() const { return toSkip_; }
    void skipped(size_t count, Clock::time_point now) {
        toSkip_ -= count;
        lastByte_ = now;
        underWay_ = toSkip_ != 0;
    }
    void release() {
        large_ = {};
        bytes_.clear();
        bytes_.releaseAbove(0);
        wanted_ = 0;
        toSkip_ = 0;
        expectsLarge_ = false;
        underWay_ = false;
    }

    /// A request has begun and is not complete; what is said of its times is about that one.
    [[nodiscard]] bool underWay() const { return underWay_; }
    [[nodiscard]] Clock::time_point firstByte() const { return firstByte_; }
    [[nodiscard]] Clock::time_point lastByte() const { return lastByte_; }

  private:
    /// Kept for the next time when the buffer runs empty.
    static constexpr size_t kKeepCapacity = 4 << 10;

    ByteBuffer bytes_;
    LargeRequest large_;  ///< the request under way, if it is read so; then bytes_ is empty
    size_t wanted_{0};
    size_t toSkip_{0};
    bool expectsLarge_{false};
    bool underWay_{false};
    Clock::time_point firstByte_{};
    Clock::time_point lastByte_{};
};

}  // namespace kv::server
