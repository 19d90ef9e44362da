// The answer of the bucket to an operation, in the bucket's own terms: the server maps it to
// protocol numbers.
#pragma once

#include <cstdint>
#include <ctime>
#include <string_view>

#include "types/blob.h"
#include "types/ids.h"

namespace kv {

enum class OpStatus : uint8_t {
    Ok,
    KeyNotFound,
    KeyExists,      ///< add on an existing key, or the given CAS is not that of the document
    NotStored,      ///< append/prepend on a missing key
    TooBig,         ///< key or value above the limit
    NotMyVbucket,   ///< the vBucket is out of range or not active here
    TmpFail,        ///< above the mutation threshold, but memory can be freed: retry later
    NoMemory,       ///< above the mutation threshold and nothing can be freed
    DeltaBadValue,  ///< incr/decr on a value that is no unsigned 64-bit decimal number
    Locked,         ///< get-and-lock holds the key and the given CAS does not open it
    NotLocked,      ///< unlock of a key that is not locked
    /// The value is on disk only; the operation must be run again when it has been fetched.
    WouldBlock,
    Invalid,  ///< arguments that no protocol validator should have let through (empty key)
};

std::string_view toString(OpStatus status);

/// Time of a batch of operations, read once by its caller: wall clock in nanoseconds, and whole
/// seconds since the epoch. Durations that end with the process are measured in `steady`, which no
/// step of the wall clock changes.
struct OpTime {
    uint64_t nanos{0};
    uint32_t seconds{0};
    uint64_t steady{0};  ///< nanoseconds of the monotonic clock

    /// For tests: both clocks show this time.
    static OpTime fromNanos(uint64_t nanos) {
        return {nanos, static_cast<uint32_t>(nanos / 1'000'000'000), nanos};
    }
    /// Returns the first whole second that is at least `count` seconds away: a duration that ends
    /// then was at least as long as requested and less than a second longer.
    [[nodiscard]] constexpr uint32_t inSeconds(uint32_t count) const {
        return seconds + count + (nanos % 1'000'000'000 != 0 ? 1 : 0);
    }
    static OpTime now() {
        timespec time{};
        timespec monotonic{};
        clock_gettime(CLOCK_REALTIME, &time);
        clock_gettime(CLOCK_MONOTONIC, &monotonic);
        return {toNanos(time), static_cast<uint32_t>(time.tv_sec), toNanos(monotonic)};
    }

  private:
    static uint64_t toNanos(const timespec& time) {
        return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 +
               static_cast<uint64_t>(time.tv_nsec);
    }
};

enum class StoreMode : uint8_t {
    Set,      ///< in any case; with a CAS: only that version (missing -> KeyNotFound)
    Add,      ///< only if the key is missing (otherwise KeyExists)
    Replace,  ///< only if the key exists (otherwise KeyNotFound)
};
enum class Concat : uint8_t { Append, Prepend };

/// A document's fields in a mutation.
struct StoreArgs {
    uint32_t flags{0};
    /// Absolute seconds since the epoch, 0 = never (the server resolves relative times).
    uint32_t exptime{0};
    uint8_t datatype{0};         ///< protocol bits: 1 JSON, 2 Snappy, 4 Xattr
    bool preserveExpiry{false};  ///< an existing document keeps its expiry time
    Cas cas{};                   ///< required version; Cas{0} = any
};

/// A version of a document from another cluster: its CAS and its revision are kept.
struct VersionArgs {
    bool deleted{false};
    uint64_t revSeqno{0};
    Cas cas{};
    uint32_t flags{0};
    /// Absolute seconds, 0 = never; not used for a deletion, whose time is now.
    uint32_t exptime{0};
    uint8_t datatype{0};
    Cas expected{};          ///< required version of the document here; Cas{0} = any
    bool onlyNew{false};     ///< KeyExists if there is a live document
    bool overrule{false};    ///< store it even if the version here is newer
    bool renewCas{false};    ///< with a new CAS of this vBucket instead of `cas`
    bool expiration{false};  ///< a deletion by expiry
};

struct ArithmeticArgs {
    uint64_t delta{1};
    uint64_t initial{0};
    bool increment{true};         ///< increments wrap at 2^64, decrements stop at 0
    bool createIfMissing{false};  ///< false (exptime 0xffffffff on the wire): KeyNotFound
    uint32_t exptime{0};          ///< of a newly created document, absolute seconds
    Cas cas{};
};

/// The answer of every operation; each operation documents which fields it sets.
struct OpResult {
    OpStatus status{OpStatus::Ok};
    uint8_t datatype{0};
    bool deleted{false};  ///< getMeta only: the answer is a tombstone
    uint32_t flags{0};
    uint32_t exptime{0};
    Cas cas{};
    Seqno seqno{};       ///< of the mutation, or of the document that was read
    VbUuid vbuuid{};     ///< mutations: with seqno the mutation token
    uint64_t number{0};  ///< arithmetic: the new value; reading: revSeqno; concat: bytes copied
    BlobPtr value;       ///< shared, not copied; drop it under a BucketMemoryGuard of the bucket

    [[nodiscard]] bool ok() const { return status == OpStatus::Ok; }
};

inline OpResult failed(OpStatus status) {
    OpResult result;
    result.status = status;
    return result;
}

}  // namespace kv
