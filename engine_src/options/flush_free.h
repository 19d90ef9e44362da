// Build switch ENGINE_FLUSH_FREE: when the flusher frees the batch of items it took from the
// checkpoints: before the commit (everything the store needs it already has) or after it.
#pragma once

#include <string_view>

namespace kv::options {

struct FreeBeforeCommit {
    static constexpr std::string_view kName = "before";
    static constexpr bool kBefore = true;
};

struct FreeAfterCommit {
    static constexpr std::string_view kName = "after";
    static constexpr bool kBefore = false;
};

}  // namespace kv::options
