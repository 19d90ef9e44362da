#include "options/build_info.h"

#include "options/checkpoint_extract.h"
#include "options/cursor_drop.h"
#include "options/dcp_consumer_probe.h"
#include "options/dcp_ready.h"
#include "options/dcp_snapshot.h"
#include "options/flush_callback.h"
#include "options/flush_dedup.h"
#include "options/flush_free.h"
#include "options/flush_ids.h"
#include "options/ht_stats.h"
#include "options/planted.h"
#include "options/selected/build.h"

namespace kv::options {

std::vector<std::pair<std::string, std::string>> buildInfo() {
    return {
            {"ht_stats", HtStats::name()},
            {"ht_stats_padded", HtStats::kPadded ? "on" : "off"},
            {"dcp_ready", std::string(DcpReady::kName)},
            {"dcp_snapshot_queue", std::string(DcpSnapshotQueue::kName)},
            {"dcp_snapshot_yield", std::to_string(DcpSnapshotYield::kLimit)},
            {"dcp_consumer_probe", std::string(DcpConsumerProbe::kName)},
            {"flush_callback", std::string(SelectedFlushCallback::kName)},
            {"flush_ids", std::string(SelectedFlushIds::kName)},
            {"flush_free", std::string(SelectedFlushFree::kName)},
            {"flush_dedup", std::string(SelectedFlushDedup::kName)},
            {"cursor_drop", std::string(SelectedCursorDrop::kName)},
            {"checkpoint_extract", std::string(SelectedCheckpointExtract::kName)},
            {"planted", std::string(PlantedFault::kName)},
            {"type", KV_BUILD_TYPE},
    };
}

}  // namespace kv::options
