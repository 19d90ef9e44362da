// Where a stream gets seqnos from that memory no longer holds, and what is gone there: the store of
// a persistent bucket, the seqno list of an ephemeral one.
#pragma once

#include <cstdint>
#include <memory>

#include "dcp/unsent_bytes.h"
#include "types/ids.h"
#include "types/item.h"

namespace kv::dcp {

/// One consistent view of a vBucket, read in pieces: every document's latest version above a seqno,
/// ascending, tombstones included. One thread at a time.
class BackfillScan {
  public:
    BackfillScan() = default;
    BackfillScan(const BackfillScan&) = delete;
    BackfillScan& operator=(const BackfillScan&) = delete;
    virtual ~BackfillScan() = default;

    enum class Step : uint8_t {
        Item,    ///< one was read
        End,     ///< that was all
        Failed,  ///< what was read is not the whole; the reason is logged
    };
    virtual Step next(ItemPtr& item) = 0;
    /// The view's high seqno.
    [[nodiscard]] virtual Seqno high() const = 0;
    /// Highest seqno of a tombstone that is gone: who has something, but less than that, has missed
    /// a deletion.
    [[nodiscard]] virtual Seqno purged() const = 0;
    /// Last seqno of the snapshot that high() lies in: beyond it on a replica that has received a
    /// part.
    [[nodiscard]] virtual Seqno snapshotEnd() const = 0;
};

class BackfillSource {
  public:
    BackfillSource() = default;
    BackfillSource(const BackfillSource&) = delete;
    BackfillSource& operator=(const BackfillSource&) = delete;
    virtual ~BackfillSource() = default;

    /// A view of what has a seqno above `after`; empty when it cannot be read (the reason is
    /// logged). Called by background tasks only, any number of scans at a time.
    virtual std::unique_ptr<BackfillScan> open(Vbid vbid, Seqno after) = 0;
    /// As a scan's, of now. Any thread.
    [[nodiscard]] virtual Seqno purged(Vbid vbid) const = 0;
    /// What the streams of the bucket may together have read that is not sent, from here or from
    /// memory. Any thread.
    [[nodiscard]] virtual size_t mostUnsent() const { return SIZE_MAX; }
    UnsentBytes& unsent() { return unsent_; }
    [[nodiscard]] const UnsentBytes& unsent() const { return unsent_; }

  private:
    UnsentBytes unsent_;
};

}  // namespace kv::dcp
