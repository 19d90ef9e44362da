// Build switch ENGINE_CHECKPOINT_EXTRACT: how to find the end of the closed, unreferenced prefix of
// the checkpoint list. Both values cut off the same checkpoints. Runs under the manager's queue
// lock.
#pragma once

#include <algorithm>
#include <string_view>

namespace kv::options {

/// Walks from the oldest checkpoint to the first that is open or holds a cursor: O(checkpoints
/// removed).
struct WalkExtract {
    static constexpr std::string_view kName = "walk";

    /// Returns the first checkpoint that stays.
    template <class State>
    static auto* firstKept(const State& state) {
        auto* checkpoint = state.oldest();
        while (checkpoint != state.open() && checkpoint->cursorCount() == 0) {
            checkpoint = checkpoint->next();
        }
        return checkpoint;
    }
};

/// The lowest cursor knows its checkpoint, and ids give the number of checkpoints before it:
/// O(cursors), without visiting the list.
struct DistanceExtract {
    static constexpr std::string_view kName = "distance";

    template <class State>
    static auto* firstKept(const State& state) {
        const auto& cursors = state.cursors();
        if (cursors.empty()) {
            return state.open();
        }
        const auto lowest = std::min_element(
                cursors.begin(), cursors.end(),
                [](const auto& a, const auto& b) { return a->checkpointId() < b->checkpointId(); });
        return (*lowest)->checkpoint();
    }
};

}  // namespace kv::options
