// PendingInput: the input that a connection keeps between two reads: the front part of an
// incomplete request (for a large one, its Blob), or complete requests for a later turn. It also
// knows how long the current request has been arriving.
//
// Threads: one front-end thread. While requests arrive complete, it is empty and owns no memory.
#pragma once

#include <algorithm>
#include <chrono>

#include "server/connections/byte_buffer.h"
#include "server/connections/large_request.h"
#include "server/connections/request_loop.h"

namespace kv::server {

class PendingInput {
  public:
    using Clock = std::chrono::steady_clock;

    [[nodiscard]] protocol::Bytes view() const { return bytes_.view(); }
    [[nodiscard]] size_t held() const { return bytes_.capacity() + large_.held(); }
    /// True if complete requests wait for their turn, so that nothing need be read to continue.
    [[nodiscard]] bool hasRequests() const { return wanted_ == 0 && !bytes_.empty(); }
    /// The size that the kept bytes must reach before they are worth parsing; 0: unknown.
    [[nodiscard]] size_t wanted() const { return wanted_; }

    /// Copies the kept bytes to `to`, which has room for them, and returns their number.
    size_t copyTo(uint8_t* to) const {
        std::copy_n(bytes_.view().data(), bytes_.size(), to);
        return bytes_.size();
    }
    /// Forgets the bytes that copyTo() copied; keeps the memory.
    void forgetCopied() { bytes_.clear(); }
    /// The number of bytes that complete the current request.
    [[nodiscard]] size_t missing() const {
        return large_ ? large_.missing() : wanted_ - bytes_.size();
    }
    /// Returns room for `count` more bytes of the current request.
    uint8_t* reserve(size_t count) { return large_ ? large_.room() : bytes_.reserve(count); }
    /// Adds `count` bytes that were written to the address from reserve(). Returns true if the
    /// request is complete.
    bool commit(size_t count, Clock::time_point now) {
        if (large_) {
            large_.commit(count);
        } else {
            bytes_.commit(count);
        }
        lastByte_ = now;
        return missing() == 0;
    }
    /// Reads the current request into `large` from now on, which holds everything that was kept of
    /// it.
    void readInto(LargeRequest large) {
        large_ = std::move(large);
        bytes_.clear();
        bytes_.releaseAbove(kKeepCapacity);
    }
    [[nodiscard]] bool readsLarge() const { return static_cast<bool>(large_); }
    /// Returns the current request, which is complete.
    LargeRequest takeLarge() { return std::move(large_); }
    /// Expects another large request, because one has just been run. Lasts until keep().
    void expectLarge() { expectsLarge_ = true; }
    [[nodiscard]] bool expectsLarge() const { return expectsLarge_; }

    /// Keeps the rest of `input` after `progress`, which may lie inside view(), or `large`, which
    /// holds it.
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
    /// Bytes still to come of a request that was refused as too long.
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

    /// True if a request has begun and is not complete; the times below refer to it.
    [[nodiscard]] bool underWay() const { return underWay_; }
    [[nodiscard]] Clock::time_point firstByte() const { return firstByte_; }
    [[nodiscard]] Clock::time_point lastByte() const { return lastByte_; }

  private:
    /// Capacity that is kept when the buffer runs empty.
    static constexpr size_t kKeepCapacity = 4 << 10;

    ByteBuffer bytes_;
    LargeRequest large_;  ///< the current request if it is read this way; bytes_ is empty then
    size_t wanted_{0};
    size_t toSkip_{0};
    bool expectsLarge_{false};
    bool underWay_{false};
    Clock::time_point firstByte_{};
    Clock::time_point lastByte_{};
};

}  // namespace kv::server
