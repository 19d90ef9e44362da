// BufferLedger: counts the memory of each connection for partial requests and unsent answers, and
// selects the connections to close when the sum is too large: the largest ones of the user who
// holds most. So a user cannot displace others by many connections that each hold a little less
// than theirs.
//
// Threads: any front-end thread. Connections report only changes, which are rare: while traffic
// flows freely they hold nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
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

    /// Records that `holder`, a connection of `user`, holds `bytes` now. If it grew and the sum
    /// exceeds `limit` bytes, returns the connections to close. Each is returned only once. The
    /// connections without a login have the user "". Throws std::bad_alloc.
    [[nodiscard]] std::vector<Holder> update(const Holder& holder, std::string_view user,
                                             size_t bytes, size_t limit);
    /// Records that a selected connection could not be notified: the next one that grows selects it
    /// again.
    void stays(uint64_t id);
    /// Records that the connection is gone.
    void remove(uint64_t id);
    /// Returns the bytes of all connections together.
    [[nodiscard]] size_t held() const { return held_.load(std::memory_order_relaxed); }

  private:
    struct Holding {
        FrontEndThread* thread{nullptr};
        std::string user{};
        size_t bytes{0};
        bool leaving{false};  ///< already selected
    };
    using Holdings = std::unordered_map<uint64_t, Holding>;
    /// Returns the largest connection, among those that stay, of the user who holds most.
    Holdings::iterator largest();

    std::mutex mutex_;
    Holdings holdings_;
    size_t leavingBytes_{0};  ///< of connections that were selected and are not gone yet
    std::atomic<size_t> held_{0};
};

}  // namespace kv::server
