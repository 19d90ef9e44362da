#include "protocol/opcodes.h"

#include <array>

namespace kv::protocol {

namespace {

constexpr std::array<std::string_view, 256> makeNames() {
    std::array<std::string_view, 256> names{};
    for (auto& name : names) {
        name = "unknown";
    }
    auto set = [&names](Opcode opcode, std::string_view name) { names[raw(opcode)] = name; };
    set(Opcode::kGet, "get");
    set(Opcode::kSet, "set");
    set(Opcode::kAdd, "add");
    set(Opcode::kReplace, "replace");
    set(Opcode::kDelete, "delete");
    set(Opcode::kIncrement, "increment");
    set(Opcode::kDecrement, "decrement");
    set(Opcode::kQuit, "quit");
    set(Opcode::kFlush, "flush");
    set(Opcode::kGetQ, "get_q");
    set(Opcode::kNoop, "noop");
    set(Opcode::kVersion, "version");
    set(Opcode::kGetK, "get_k");
    set(Opcode::kGetKQ, "get_k_q");
    set(Opcode::kAppend, "append");
    set(Opcode::kPrepend, "prepend");
    set(Opcode::kStat, "stat");
    set(Opcode::kSetQ, "set_q");
    set(Opcode::kAddQ, "add_q");
    set(Opcode::kReplaceQ, "replace_q");
    set(Opcode::kDeleteQ, "delete_q");
    set(Opcode::kIncrementQ, "increment_q");
    set(Opcode::kDecrementQ, "decrement_q");
    set(Opcode::kQuitQ, "quit_q");
    set(Opcode::kFlushQ, "flush_q");
    set(Opcode::kAppendQ, "append_q");
    set(Opcode::kPrependQ, "prepend_q");
    set(Opcode::kVerbosity, "verbosity");
    set(Opcode::kTouch, "touch");
    set(Opcode::kGat, "gat");
    set(Opcode::kGatQ, "gat_q");
    set(Opcode::kHello, "hello");
    set(Opcode::kSaslListMechs, "sasl_list_mechs");
    set(Opcode::kSaslAuth, "sasl_auth");
    set(Opcode::kSaslStep, "sasl_step");
    set(Opcode::kGatK, "gat_k");
    set(Opcode::kGatKQ, "gat_k_q");
    set(Opcode::kSetVBucket, "set_vbucket");
    set(Opcode::kGetVBucket, "get_vbucket");
    set(Opcode::kDelVBucket, "del_vbucket");
    set(Opcode::kGetAllVBSeqnos, "get_all_vb_seqnos");
    set(Opcode::kDcpOpen, "dcp_open");
    set(Opcode::kDcpAddStream, "dcp_add_stream");
    set(Opcode::kDcpCloseStream, "dcp_close_stream");
    set(Opcode::kDcpStreamReq, "dcp_stream_req");
    set(Opcode::kDcpGetFailoverLog, "dcp_get_failover_log");
    set(Opcode::kDcpStreamEnd, "dcp_stream_end");
    set(Opcode::kDcpSnapshotMarker, "dcp_snapshot_marker");
    set(Opcode::kDcpMutation, "dcp_mutation");
    set(Opcode::kDcpDeletion, "dcp_deletion");
    set(Opcode::kDcpExpiration, "dcp_expiration");
    set(Opcode::kDcpSetVBucketState, "dcp_set_vbucket_state");
    set(Opcode::kDcpNoop, "dcp_noop");
    set(Opcode::kDcpBufferAck, "dcp_buffer_ack");
    set(Opcode::kDcpControl, "dcp_control");
    set(Opcode::kDcpSystemEvent, "dcp_system_event");
    set(Opcode::kStopPersistence, "stop_persistence");
    set(Opcode::kStartPersistence, "start_persistence");
    set(Opcode::kSetParam, "set_param");
    set(Opcode::kGetReplica, "get_replica");
    set(Opcode::kCreateBucket, "create_bucket");
    set(Opcode::kDeleteBucket, "delete_bucket");
    set(Opcode::kListBuckets, "list_buckets");
    set(Opcode::kSelectBucket, "select_bucket");
    set(Opcode::kObserveSeqno, "observe_seqno");
    set(Opcode::kObserve, "observe");
    set(Opcode::kEvictKey, "evict_key");
    set(Opcode::kGetLocked, "get_locked");
    set(Opcode::kUnlockKey, "unlock_key");
    set(Opcode::kGetFailoverLog, "get_failover_log");
    set(Opcode::kGetMeta, "get_meta");
    set(Opcode::kGetMetaQ, "get_meta_q");
    set(Opcode::kSetWithMeta, "set_with_meta");
    set(Opcode::kSetWithMetaQ, "set_with_meta_q");
    set(Opcode::kAddWithMeta, "add_with_meta");
    set(Opcode::kAddWithMetaQ, "add_with_meta_q");
    set(Opcode::kDeleteWithMeta, "delete_with_meta");
    set(Opcode::kDeleteWithMetaQ, "delete_with_meta_q");
    set(Opcode::kEnableTraffic, "enable_traffic");
    set(Opcode::kDisableTraffic, "disable_traffic");
    set(Opcode::kCompactDb, "compact_db");
    set(Opcode::kSetClusterConfig, "set_cluster_config");
    set(Opcode::kGetClusterConfig, "get_cluster_config");
    set(Opcode::kGetRandomKey, "get_random_key");
    set(Opcode::kSeqnoPersistence, "seqno_persistence");
    set(Opcode::kGetKeys, "get_keys");
    set(Opcode::kSetCollectionsManifest, "set_collections_manifest");
    set(Opcode::kGetCollectionsManifest, "get_collections_manifest");
    set(Opcode::kGetCollectionId, "get_collection_id");
    set(Opcode::kGetScopeId, "get_scope_id");
    set(Opcode::kSubdocGet, "subdoc_get");
    set(Opcode::kSubdocExists, "subdoc_exists");
    set(Opcode::kSubdocMultiLookup, "subdoc_multi_lookup");
    set(Opcode::kSubdocMultiMutation, "subdoc_multi_mutation");
    set(Opcode::kSubdocGetCount, "subdoc_get_count");
    set(Opcode::kGetErrorMap, "get_error_map");
    return names;
}

constexpr auto kNames = makeNames();

}  // namespace

std::string_view toString(Opcode opcode) noexcept {
    return kNames[raw(opcode)];
}

}  // namespace kv::protocol
