// Build switch ENGINE_CURSOR_DROP: how to find the slow cursors of a vBucket. Both values give the
// same set.
//
// A cursor may be dropped if its checkpoint is before the one that persistence still needs (the
// backup cursor's during a flush, otherwise the persistence cursor's), or, without persistence,
// before the open checkpoint. Runs under the manager's queue lock, so front-end writers wait for
// it.
#pragma once

#include <string_view>
#include <type_traits>
#include <unordered_set>

namespace kv::options {

/// Walks the list from the oldest checkpoint into a set, then tests every cursor against the set:
/// O(checkpoints).
struct WalkCursorDrop {
    static constexpr std::string_view kName = "walk";

    /// `State` has oldest(), open(), special() (a cursor or null) and cursors(); see
    /// checkpoint/checkpoint_removal.h.
    template <class State>
    static auto select(const State& state) {
        using Checkpoint = std::remove_pointer_t<decltype(state.oldest())>;
        std::unordered_set<const Checkpoint*> droppable;
        const auto* special = state.special();
        for (auto* checkpoint = state.oldest(); checkpoint != state.open();
             checkpoint = checkpoint->next()) {
            if (special != nullptr && special->checkpoint() == checkpoint) {
                break;
            }
            droppable.insert(checkpoint);
        }
        std::decay_t<decltype(state.cursors())> result;
        for (const auto& cursor : state.cursors()) {
            if (droppable.contains(cursor->checkpoint())) {
                result.push_back(cursor);
            }
        }
        return result;
    }
};

/// Compares checkpoint ids, which are strictly monotonic: O(cursors), for any number of
/// checkpoints.
struct CompareCursorDrop {
    static constexpr std::string_view kName = "compare";

    template <class State>
    static auto select(const State& state) {
        const auto* special = state.special();
        const auto limit = special != nullptr ? special->checkpointId() : state.open()->id();
        std::decay_t<decltype(state.cursors())> result;
        for (const auto& cursor : state.cursors()) {
            if (cursor->checkpointId() < limit) {
                result.push_back(cursor);
            }
        }
        return result;
    }
};

}  // namespace kv::options
