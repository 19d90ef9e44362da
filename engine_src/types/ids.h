// Strong types for the numbers that the whole engine passes around, so that a seqno cannot be
// passed for a CAS.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace kv {

/// A number with a name. `Tag` makes each use a distinct type; there is no conversion between two
/// of them.
template <class Tag, class Rep>
class StrongId {
  public:
    using Value = Rep;
    constexpr StrongId() = default;
    constexpr explicit StrongId(Rep value) : value_(value) {}
    [[nodiscard]] constexpr Rep get() const { return value_; }
    friend constexpr auto operator<=>(StrongId, StrongId) = default;

  private:
    Rep value_{};
};

/// vBucket number, 0 .. vbuckets-1.
using Vbid = StrongId<struct VbidTag, uint16_t>;
/// Sequence number of a mutation in its vBucket; the first mutation has 1, 0 means "none".
using Seqno = StrongId<struct SeqnoTag, uint64_t>;
/// Compare-and-swap token of a value; 0 means "any" in a request and is never assigned.
using Cas = StrongId<struct CasTag, uint64_t>;
/// Checkpoint number in its vBucket: strictly +1 from one checkpoint to the next, first is 1.
using CheckpointId = StrongId<struct CheckpointIdTag, uint64_t>;
/// Identity of one history of a vBucket (an entry of its failover log).
using VbUuid = StrongId<struct VbUuidTag, uint64_t>;

/// Upper bound of every seqno, revision and CAS that a vBucket assigns: 48 bits are kept of the
/// first two, a CAS is nanoseconds since 1970. A source of replication that sends larger ones is
/// refused.
inline constexpr uint64_t kSeqnoBound = uint64_t{1} << 47U;
inline constexpr uint64_t kRevSeqnoBound = uint64_t{1} << 48U;
inline constexpr uint64_t kCasBound = uint64_t{1} << 63U;
/// Upper bound of the revisions that a client may bring from another cluster: the vBucket's own
/// continue above them, and must not reach the bounds that its replicas enforce.
inline constexpr uint64_t kForeignRevSeqnoBound = kRevSeqnoBound / 2;
inline constexpr uint64_t kForeignCasBound = kCasBound / 2;

/// A closed interval of seqnos that is consistent only as a whole.
struct SnapshotRange {
    Seqno start{};
    Seqno end{};
    friend bool operator==(const SnapshotRange&, const SnapshotRange&) = default;
};

constexpr Seqno next(Seqno seqno) {
    return Seqno{seqno.get() + 1};
}
constexpr CheckpointId next(CheckpointId id) {
    return CheckpointId{id.get() + 1};
}

}  // namespace kv

template <class Tag, class Rep>
struct std::hash<kv::StrongId<Tag, Rep>> {
    size_t operator()(kv::StrongId<Tag, Rep> id) const noexcept {
        return std::hash<Rep>{}(id.get());
    }
};
