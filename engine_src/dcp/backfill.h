// The source of items that memory no longer holds, and of the purge seqno there: the store of a
// persistent bucket, the seqno list of an ephemeral one.
#pragma once

#include <cstdint>
#include <memory>

#include "dcp/scan_slots.h"
#include "dcp/unsent_bytes.h"
#include "types/ids.h"
#include "types/item.h"

namespace kv::dcp {

/// One consistent view of a vBucket, read in pieces: the latest version of every document above a
/// seqno, ascending, including tombstones. One thread at a time.
class BackfillScan {
  public:
    BackfillScan() = default;
    BackfillScan(const BackfillScan&) = delete;
    BackfillScan& operator=(const BackfillScan&) = delete;
    virtual ~BackfillScan() = default;

    enum class Step : uint8_t {
        Item,     ///< one item was read
        End,      ///< there are no more items
        Failed,   ///< the items read are not complete; the reason is logged
        GivenUp,  ///< the source needs its memory back: the rest needs another scan
    };
    virtual Step next(ItemPtr& item) = 0;
    /// The vBucket's high seqno in this view, even if the scan ends earlier.
    [[nodiscard]] virtual Seqno high() const = 0;
    /// Highest seqno of a purged tombstone: a client that has something, but less than that, has
    /// missed a deletion.
    [[nodiscard]] virtual Seqno purged() const = 0;
    /// Last seqno of the snapshot that contains high(). On a replica that has received only a part
    /// it is beyond high().
    [[nodiscard]] virtual Seqno snapshotEnd() const = 0;
};

class BackfillSource {
  public:
    BackfillSource() = default;
    BackfillSource(const BackfillSource&) = delete;
    BackfillSource& operator=(const BackfillSource&) = delete;
    virtual ~BackfillSource() = default;

    /// Opens a view of the items with a seqno above `after`, up to `last`; empty if it cannot be
    /// read (the reason is logged). Called only by background tasks; any number of scans at a time.
    virtual std::unique_ptr<BackfillScan> open(Vbid vbid, Seqno after, Seqno last) = 0;
    /// As BackfillScan::purged(), for the current state. Any thread.
    [[nodiscard]] virtual Seqno purged(Vbid vbid) const = 0;
    /// Bytes that the streams of the bucket may together have read, from here or from memory, and
    /// not sent. Any thread.
    [[nodiscard]] virtual size_t mostUnsent() const { return SIZE_MAX; }
    /// Bytes that are kept only because scans are open, and the number that is too many. Not for
    /// front-end threads.
    [[nodiscard]] virtual size_t pinned() const { return 0; }
    [[nodiscard]] virtual size_t mostPinned() const { return SIZE_MAX; }
    UnsentBytes& unsent() { return unsent_; }
    [[nodiscard]] const UnsentBytes& unsent() const { return unsent_; }
    /// The slots of all connections together.
    ScanSlots& slots() { return slots_; }
    [[nodiscard]] const ScanSlots& slots() const { return slots_; }

  private:
    UnsentBytes unsent_;
    ScanSlots slots_{SIZE_MAX};
};

}  // namespace kv::dcp
