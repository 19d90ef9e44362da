// CheckpointRemover: frees checkpoints that nobody needs and, if checkpoints take too much of the
// quota, makes room by force.
//
// One run: (1) closes due checkpoints and frees the closed ones that no cursor needs; (2) while the
// bucket's checkpoints take more than upperMark x memoryRatio of the quota, down to lowerMark x
// memoryRatio of it: expels items that every cursor has passed, biggest vBucket first; (3) if that
// was not enough, offers the slow cursors to the CursorDropper, biggest vBucket first. A dropped
// stream continues from disk. Steps 2 and 3 are also taken if the bucket as a whole is short of
// memory, however little the checkpoints take.
//
// Ownership: refers to logs and config, which outlive it. Threads: one at a time, bound to the
// bucket's memory. Each log's lock is taken for one short step at a time; items are freed outside
// the locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoint/checkpoint_config.h"
#include "checkpoint/checkpoint_removal.h"

namespace kv {

/// The owner of the cursors of a bucket's streams.
class CursorDropper {
  public:
    virtual ~CursorDropper() = default;
    /// Drops the cursor of a stream that holds back too much memory. True: the owner has removed
    /// the cursor (or will not read from it any more and lets the remover do it) and continues from
    /// disk. False: it cannot, and the cursor stays.
    virtual bool dropCursor(Vbid vbid, const CursorPtr& cursor) = 0;
};

struct CheckpointRecovery {
    size_t checkpointsRemoved{0};
    size_t bytesExpelled{0};
    size_t cursorsDropped{0};
    size_t bytesFreedByDrops{0};
};

class CheckpointRemover {
  public:
    CheckpointRemover(std::vector<CheckpointRemoval> logs, const CheckpointConfig& config)
        : logs_(std::move(logs)), config_(config) {}

    /// Bytes of all checkpoints now.
    [[nodiscard]] size_t memory() const;
    /// True if checkpoints alone are a reason for a run.
    [[nodiscard]] bool isOver(size_t quotaBytes) const {
        return memory() > mark(quotaBytes, config_.upperMark);
    }
    /// `bytesMissing`: the bucket's memory above its high watermark. If it is not 0, everything
    /// that costs no reader anything is expelled, and then slow cursors are dropped until that much
    /// is free. `dropper` may be null: then no cursor is dropped.
    CheckpointRecovery run(size_t quotaBytes, size_t bytesMissing, uint64_t coarseNowNs,
                           CursorDropper* dropper);

  private:
    [[nodiscard]] size_t mark(size_t quotaBytes, double share) const {
        return static_cast<size_t>(static_cast<double>(quotaBytes) * config_.memoryRatio * share);
    }
    [[nodiscard]] std::vector<CheckpointRemoval> biggestFirst() const;
    void dropCursors(size_t target, CursorDropper& dropper, CheckpointRecovery& result);

    std::vector<CheckpointRemoval> logs_;
    const CheckpointConfig& config_;
};

}  // namespace kv
