// ExtractedCheckpoints: checkpoints that were removed from a vBucket's log and are freed outside
// its lock.
#pragma once

#include <cstddef>
#include <utility>

#include "checkpoint/checkpoint_list.h"
#include "checkpoint/checkpoint_memory.h"

namespace kv {

/// Frees its checkpoints (and settles the log's memory count) when destroyed, so keep it outside
/// every lock. Must not outlive the CheckpointManager.
class ExtractedCheckpoints {
  public:
    ExtractedCheckpoints() = default;
    ExtractedCheckpoints(CheckpointList list, CheckpointMemory& memory)
        : list_(std::move(list)), memory_(&memory) {}
    ExtractedCheckpoints(ExtractedCheckpoints&&) = default;
    ExtractedCheckpoints& operator=(ExtractedCheckpoints&&) = delete;
    ExtractedCheckpoints(const ExtractedCheckpoints&) = delete;
    ~ExtractedCheckpoints() {
        if (!list_.empty()) {
            const size_t bytes = list_.memory();
            list_.clear();
            memory_->release(bytes);
        }
    }
    [[nodiscard]] size_t size() const { return list_.size(); }
    /// For an empty object only.
    void adopt(CheckpointList list, CheckpointMemory& memory) {
        list_ = std::move(list);
        memory_ = &memory;
    }

  private:
    CheckpointList list_;
    CheckpointMemory* memory_{nullptr};
};

}  // namespace kv
