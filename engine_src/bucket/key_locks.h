// KeyLocks: the keys of one vBucket that get-and-lock holds. They are few, so they are not in the
// hash table.
//
// A lock does not change the document. It has its own CAS, valid until the lock ends: a random
// number above the CAS of all mutations. Neither lock nor CAS is stored, and the clock may be set
// back, but no lock after a restart may have the CAS of one before it. Expired locks are forgotten
// at the latest when there are twice as many as remained at the last clearing. Threads: any; lock
// order: hash-bucket lock, then this one.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "types/ids.h"
#include "types/string_hash.h"

namespace kv {

class KeyLocks {
  public:
    /// Locks the key from now until `untilSeconds`; the returned CAS opens the lock.
    Cas lock(std::string_view key, uint32_t nowSeconds, uint32_t untilSeconds);
    /// Returns the CAS that opens the key, or Cas{0} if its lock has expired (it is forgotten
    /// then).
    [[nodiscard]] Cas holder(std::string_view key, uint32_t nowSeconds);
    void unlock(std::string_view key);
    void clear();
    /// Number of remembered locks, including expired ones.
    [[nodiscard]] size_t size() const;

  private:
    struct Held {
        Cas cas;
        uint32_t untilSeconds;
    };
    static constexpr size_t kLeastToClear = 64;

    mutable std::mutex mutex_;
    std::unordered_map<std::string, Held, StringHash, std::equal_to<>> held_;
    size_t clearAt_{kLeastToClear};
};

}  // namespace kv
