// PrefixStats: counts reads, writes and deletions of documents by the prefix of their keys (up to
// the first ':'), as memcached's `stats detail` does. It is off at first.
//
// Threads: any. While it is on, each operation takes one lock; while it is off, a batch of requests
// costs one load. Bounded: prefixes beyond the first kMaxPrefixes are counted together.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace kv::server {

class PrefixStats {
  public:
    static constexpr size_t kMaxPrefixes = 1000;
    static constexpr char kDelimiter = ':';

    void turn(bool on) { on_.store(on, std::memory_order_relaxed); }
    /// Returns this object while it is on, otherwise nullptr.
    [[nodiscard]] PrefixStats* ifOn() {
        return on_.load(std::memory_order_relaxed) ? this : nullptr;
    }

    enum class Event : uint8_t { Hit, Miss, Set, Delete };
    /// Counts nothing if the key has no prefix.
    void count(std::string_view key, Event event);
    /// Forgets all prefixes; does not change whether it is on.
    void reset();

    /// Returns one line per prefix, in byte order, then END, as memcached writes it: `PREFIX p get
    /// 1 hit 0 set 2 del 0`. Characters that would break a line (controls, spaces) are written as
    /// %XX.
    [[nodiscard]] std::string dump() const;
    /// Returns the counts of the prefixes beyond the limit, in the form of a line of dump(); empty
    /// if there are none.
    [[nodiscard]] std::string others() const;

  private:
    struct Counts {
        void add(Event event);
        uint64_t gets{0};
        uint64_t hits{0};
        uint64_t sets{0};
        uint64_t deletes{0};
        [[nodiscard]] std::string text() const;
    };

    std::atomic<bool> on_{false};
    mutable std::mutex mutex_;
    std::map<std::string, Counts, std::less<>> prefixes_;
    Counts others_;
    bool full_{false};  ///< others_ is in use
};

}  // namespace kv::server
