// The four flush switches as one type, so that a store, a flusher and a test have one parameter.
#pragma once

#include "options/selected/flush_callback.h"
#include "options/selected/flush_dedup.h"
#include "options/selected/flush_free.h"
#include "options/selected/flush_ids.h"

namespace kv {

template <class CallbackPolicy, class IdsPolicy, class FreePolicy, class DedupPolicy>
struct FlushOptions {
    using Callback = CallbackPolicy;
    using Ids = IdsPolicy;
    using Free = FreePolicy;
    using Dedup = DedupPolicy;
};

using SelectedFlushOptions = FlushOptions<options::SelectedFlushCallback, options::SelectedFlushIds,
                                          options::SelectedFlushFree, options::SelectedFlushDedup>;

}  // namespace kv
