// KeyLocks: the keys of one vBucket that get-and-lock holds, beside the hash table because they are
// few.
//
// A lock does not change the document: it has a CAS of its own, valid until the lock goes: a random
// one from where no mutation's CAS is, since neither lock nor CAS is stored, and the clock may be
// set back, and yet no lock of after a restart may have the CAS of one of before. Locks that have
// run out are forgotten at the latest when there are twice as many as were left at the last
// clearing. Threads: any; lock order: hash-bucket lock, then this one.
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
    /// Locks the key from now on until `untilSeconds`; what it returns opens it.
    Cas lock(std::string_view key, uint32_t nowSeconds, uint32_t untilSeconds);
    /// The CAS that opens the key, or Cas{0} when its lock has run out (it is forgotten then).
    [[nodiscard]] Cas holder(std::string_view key, uint32_t nowSeconds);
    void unlock(std::string_view key);
    void clear();
    /// Locks that are remembered, run out or not.
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
