#include "server/dcp_stats.h"

#include <fmt/format.h>

namespace kv::server {

namespace {

std::string_view toString(dcp::StreamState state) {
    switch (state) {
        case dcp::StreamState::Backfilling:
            return "backfilling";
        case dcp::StreamState::InMemory:
            return "in-memory";
        case dcp::StreamState::Dead:
            return "dead";
    }
    return "unknown";
}

template <class Value>
void add(KeyValues& out, std::string key, const Value& value) {
    out.emplace_back(std::move(key), fmt::format("{}", value));
}

}  // namespace

KeyValues dcpStats(const dcp::DcpNode& node) {
    KeyValues out;
    const auto lines = node.producers();
    add(out, "ep_dcp_producer_count", lines.size());
    for (const auto& line : lines) {
        const std::string name = line.name + ":";
        add(out, name + "type", "producer");
        add(out, name + "items_sent", line.producer.messages);
        add(out, name + "total_bytes_sent", line.producer.bytes);
        add(out, name + "unacked_bytes", line.producer.outstandingBytes);
        add(out, name + "max_buffer_bytes", line.producer.bufferSize);
        add(out, name + "num_streams", line.producer.streams);
        add(out, name + "pauses", line.producer.pauses);
        add(out, name + "pauses_full", line.producer.pausesFull);
        add(out, name + "snapshot_runs", line.producer.snapshotRuns);
        for (const auto& [vbid, stream] : line.streams) {
            const std::string prefix = fmt::format("{}stream_{}_", name, vbid.get());
            add(out, prefix + "state", toString(stream.state));
            add(out, prefix + "last_read_seqno", stream.lastRead.get());
            add(out, prefix + "last_sent_seqno", stream.lastSent.get());
            add(out, prefix + "end_seqno", stream.end.get());
            add(out, prefix + "ready_queue_items", stream.readyItems);
            add(out, prefix + "ready_queue_memory", stream.readyBytes);
            add(out, prefix + "backfill_sent", stream.backfilled);
            add(out, prefix + "memory_phase", stream.fromMemory);
            add(out, prefix + "cursor_drops", stream.cursorDrops);
        }
    }
    return out;
}

KeyValues dcpAggregateStats(const dcp::DcpNode& node) {
    dcp::ProducerStats total;
    const auto lines = node.producers();
    for (const auto& line : lines) {
        total.messages += line.producer.messages;
        total.bytes += line.producer.bytes;
        total.outstandingBytes += line.producer.outstandingBytes;
        total.streams += line.producer.streams;
    }
    KeyValues out;
    add(out, ":total:producer_count", lines.size());
    add(out, ":total:items_sent", total.messages);
    add(out, ":total:total_bytes", total.bytes);
    add(out, ":total:unacked_bytes", total.outstandingBytes);
    add(out, ":total:streams", total.streams);
    return out;
}

}  // namespace kv::server
