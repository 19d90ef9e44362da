#include "checkpoint/checkpoint_remover.h"

#include <algorithm>
#include <utility>

namespace kv {

size_t CheckpointRemover::memory() const {
    size_t bytes = 0;
    for (const CheckpointManager* manager : managers_) {
        bytes += manager->memory();
    }
    return bytes;
}

std::vector<CheckpointManager*> CheckpointRemover::biggestFirst() const {
    // Sizes are read once: they change while we sort.
    std::vector<std::pair<size_t, CheckpointManager*>> sized;
    sized.reserve(managers_.size());
    for (CheckpointManager* manager : managers_) {
        sized.emplace_back(manager->memory(), manager);
    }
    std::stable_sort(sized.begin(), sized.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<CheckpointManager*> result;
    result.reserve(sized.size());
    for (const auto& [bytes, manager] : sized) {
        result.push_back(manager);
    }
    return result;
}

CheckpointRecovery CheckpointRemover::run(size_t quotaBytes, bool bucketIsFull,
                                          uint64_t coarseNowNs, CursorDropper* dropper) {
    CheckpointRecovery result;
    for (CheckpointManager* manager : managers_) {
        manager->closeIfDue(coarseNowNs);
        result.checkpointsRemoved += manager->extractClosedUnrefCheckpoints().size();
    }
    const bool over = isOver(quotaBytes);
    if (!over && !bucketIsFull) {
        return result;
    }
    const size_t target = bucketIsFull ? 0 : mark(quotaBytes, config_.lowerMark);
    size_t used = memory();
    for (CheckpointManager* manager : biggestFirst()) {
        if (used <= target) {
            return result;
        }
        const size_t freed = manager->expel();
        result.bytesExpelled += freed;
        used -= std::min(used, freed);
    }
    if (dropper != nullptr && over) {
        dropCursors(mark(quotaBytes, config_.lowerMark), *dropper, result);
    }
    return result;
}

void CheckpointRemover::dropCursors(size_t target, CursorDropper& dropper,
                                    CheckpointRecovery& result) {
    size_t used = memory();
    for (CheckpointManager* manager : biggestFirst()) {
        if (used <= target) {
            return;
        }
        size_t dropped = 0;
        for (const CursorPtr& cursor : manager->getListOfCursorsToDrop()) {
            if (dropper.dropCursor(manager->vbid(), cursor)) {
                manager->removeCursor(cursor);
                ++dropped;
            }
        }
        if (dropped == 0) {
            continue;
        }
        const size_t before = manager->memory();
        result.cursorsDropped += dropped;
        result.checkpointsRemoved += manager->extractClosedUnrefCheckpoints().size();
        manager->expel();
        const size_t after = manager->memory();
        const size_t freed = before > after ? before - after : 0;
        result.bytesFreedByDrops += freed;
        used -= std::min(used, freed);
    }
}

}  // namespace kv
