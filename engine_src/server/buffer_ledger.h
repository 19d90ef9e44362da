// BufferLedger: what each connection holds for partial requests and unsent answers, and who has to
// go when all of them together hold too much: the largest.
//
// Any front-end thread. Connections tell it only when what they hold changes, which is rare: while
// everything flows they hold nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace kv::server {

class FrontEndThread;

class BufferLedger {
  public:
    struct Holder {
        FrontEndThread* thread{nullptr};  ///< lives as long as the server
        uint64_t id{0};                   ///< of the connection
    };

    /// `holder` holds `bytes` now. When it grew and all of them exceed `limit` bytes: those that
    /// must be closed, largest first, each named once.
    [[nodiscard]] std::vector<Holder> update(const Holder& holder, size_t bytes, size_t limit);
    /// A connection that was named could not be told: the next one that grows names it again.
    void stays(uint64_t id);
    /// The connection is gone.
    void remove(uint64_t id);
    /// Bytes of all connections together.
    [[nodiscard]] size_t held() const { return held_.load(std::memory_order_relaxed); }

  private:
    struct Holding {
        FrontEndThread* thread;
        size_t bytes;
        bool leaving;  ///< named already
    };

    std::mutex mutex_;
    std::unordered_map<uint64_t, Holding> holdings_;
    size_t leavingBytes_{0};  ///< of those that were named and are not gone yet
    std::atomic<size_t> held_{0};
};

}  // namespace kv::server
