// KeyLocks: the keys of one vBucket that get-and-lock holds. They are few, so they are not in the
// hash table.
//
// A lock does not change the document. It has its own CAS, valid until the lock ends: a random
// number above the CAS of all mutations. Neither lock nor CAS is stored, but no lock after a
// restart may have the CAS of one before it. Times are of the steady clock (OpTime::steady), so a
// step of the wall clock neither ends nor extends a lock. Expired locks are forgotten by
// removeExpired(), or when there are twice as many as remained at the last clearing. Threads: any;
// lock order: hash-bucket lock, then this one.
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
    /// Locks the key from now until `until`; the returned CAS opens the lock.
    Cas lock(std::string_view key, uint64_t now, uint64_t until);
    /// Returns the CAS that opens the key, or Cas{0} if its lock has expired (it is forgotten
    /// then).
    [[nodiscard]] Cas holder(std::string_view key, uint64_t now);
    void unlock(std::string_view key);
    void removeExpired(uint64_t now);
    void clear();
    /// Number of remembered locks, including expired ones.
    [[nodiscard]] size_t size() const;

  private:
    struct Held {
        Cas cas;
        uint64_t until;
    };
    static constexpr size_t kLeastToClear = 64;

    void eraseExpired(uint64_t now);  ///< the caller holds mutex_

    mutable std::mutex mutex_;
    std::unordered_map<std::string, Held, StringHash, std::equal_to<>> held_;
    size_t clearAt_{kLeastToClear};
};

}  // namespace kv
