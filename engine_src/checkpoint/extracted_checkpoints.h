// ExtractedCheckpoints: what a CheckpointManager gave away to be freed outside its lock.
#pragma once

#include <cstddef>
#include <utility>

#include "checkpoint/checkpoint_list.h"

namespace kv {

class CheckpointManagerBase;

/// Checkpoints taken out of a manager. Frees them (and settles the manager's memory count) when
/// destroyed, so keep it outside every lock. Must not outlive the manager.
class ExtractedCheckpoints {
  public:
    ExtractedCheckpoints() = default;
    ExtractedCheckpoints(CheckpointList list, CheckpointManagerBase* manager)
        : list_(std::move(list)), manager_(manager) {}
    ExtractedCheckpoints(ExtractedCheckpoints&&) = default;
    ExtractedCheckpoints& operator=(ExtractedCheckpoints&&) = delete;
    ExtractedCheckpoints(const ExtractedCheckpoints&) = delete;
    ~ExtractedCheckpoints();
    [[nodiscard]] size_t size() const { return list_.size(); }
    /// For an empty object only.
    void adopt(CheckpointList list, CheckpointManagerBase* manager) {
        list_ = std::move(list);
        manager_ = manager;
    }

  private:
    CheckpointList list_;
    CheckpointManagerBase* manager_{nullptr};
};

}  // namespace kv
