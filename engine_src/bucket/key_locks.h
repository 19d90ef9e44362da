// KeyLocks: the keys of one vBucket that get-and-lock holds, beside the hash table because they are
// few.
//
// A lock does not change the document: it has a CAS of its own, from a range that mutations never
// get (highest bit set), valid until the lock goes. Threads: any; lock order: hash-bucket lock,
// then this one.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "types/ids.h"

namespace kv {

class KeyLocks {
  public:
    /// Locks the key until `untilSeconds`; the returned CAS opens it.
    Cas lock(std::string_view key, uint32_t untilSeconds);
    /// The CAS that opens the key, or Cas{0} when its lock has run out (it is forgotten then).
    [[nodiscard]] Cas holder(std::string_view key, uint32_t nowSeconds);
    void unlock(std::string_view key);
    void clear();

  private:
    struct Held {
        Cas cas;
        uint32_t untilSeconds;
    };
    static constexpr uint64_t kLockCas = uint64_t{1} << 63;

    std::mutex mutex_;
    std::unordered_map<std::string, Held> held_;
    uint64_t count_{0};
};

}  // namespace kv
