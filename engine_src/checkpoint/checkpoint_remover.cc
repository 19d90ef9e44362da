#include "checkpoint/checkpoint_remover.h"

#include <algorithm>
#include <utility>

namespace kv {

size_t CheckpointRemover::memory() const {
    size_t bytes = 0;
    for (const CheckpointRemoval& log : logs_) {
        bytes += log.memory();
    }
    return bytes;
}

std::vector<CheckpointRemoval> CheckpointRemover::biggestFirst() const {
    // Sizes are read once, because they change during the sort.
    std::vector<std::pair<size_t, CheckpointRemoval>> sized;
    sized.reserve(logs_.size());
    for (const CheckpointRemoval& log : logs_) {
        sized.emplace_back(log.memory(), log);
    }
    std::stable_sort(sized.begin(), sized.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<CheckpointRemoval> result;
    result.reserve(sized.size());
    for (const auto& [bytes, log] : sized) {
        result.push_back(log);
    }
    return result;
}

CheckpointRecovery CheckpointRemover::run(size_t quotaBytes, size_t bytesMissing,
                                          uint64_t coarseNowNs, CursorDropper* dropper) {
    CheckpointRecovery result;
    for (const CheckpointRemoval& log : logs_) {
        log.closeIfDue(coarseNowNs);
        result.checkpointsRemoved += log.extractClosedUnrefCheckpoints().size();
    }
    const bool over = isOver(quotaBytes);
    if (!over && bytesMissing == 0) {
        return result;
    }
    const size_t target = bytesMissing != 0 ? 0 : mark(quotaBytes, config_.lowerMark);
    const size_t before = memory();
    size_t used = before;
    for (const CheckpointRemoval& log : biggestFirst()) {
        if (used <= target) {
            return result;
        }
        const size_t freed = log.expel();
        result.bytesExpelled += freed;
        used -= std::min(used, freed);
    }
    const size_t enough = before > bytesMissing ? before - bytesMissing : 0;
    const size_t wanted = over ? mark(quotaBytes, config_.lowerMark) : enough;
    if (dropper != nullptr) {
        dropCursors(bytesMissing != 0 ? std::min(wanted, enough) : wanted, *dropper, result);
    }
    return result;
}

void CheckpointRemover::dropCursors(size_t target, CursorDropper& dropper,
                                    CheckpointRecovery& result) {
    size_t used = memory();
    for (const CheckpointRemoval& log : biggestFirst()) {
        if (used <= target) {
            return;
        }
        size_t dropped = 0;
        for (const CursorPtr& cursor : log.getListOfCursorsToDrop()) {
            if (dropper.dropCursor(log.vbid(), cursor)) {
                log.removeCursor(cursor);
                ++dropped;
            }
        }
        if (dropped == 0) {
            continue;
        }
        const size_t before = log.memory();
        result.cursorsDropped += dropped;
        result.checkpointsRemoved += log.extractClosedUnrefCheckpoints().size();
        log.expel();
        const size_t after = log.memory();
        const size_t freed = before > after ? before - after : 0;
        result.bytesFreedByDrops += freed;
        used -= std::min(used, freed);
    }
}

}  // namespace kv
