#include "checkpoint/checkpoint_removal.h"

namespace kv {

void CheckpointRemovalBase::closeIfDue(uint64_t coarseNowNs) const {
    const auto lock = log_->lock();
    if (!log_->isReplica() && log_->shouldClose(coarseNowNs)) {
        log_->openNext(coarseNowNs);
    }
}

size_t CheckpointRemovalBase::expel() const {
    std::vector<ItemPtr> expelled;
    const auto lock = log_->lock();
    const CheckpointCursor* lowest = log_->cursors().lowest();
    if (lowest == nullptr) {
        return 0;
    }
    const size_t bytes = lowest->checkpoint()->expelBefore(lowest->position(), expelled);
    log_->memory().release(bytes);
    return bytes;
}

}  // namespace kv
