#include <fmt/format.h>

#include "dcp/dcp_node.h"
#include "server/stats/figures.h"

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

}  // namespace

KeyValues dcpStats(const dcp::DcpNode& node) {
    KeyValues out;
    const auto lines = node.producers();
    addFigure(out, "ep_dcp_producer_count", lines.size() + node.ending());
    const auto scans = node.scans();
    addFigure(out, "ep_dcp_backfills_open", scans.open);
    addFigure(out, "ep_dcp_backfill_oldest_ms",
              std::chrono::duration_cast<std::chrono::milliseconds>(scans.oldest).count());
    addFigure(out, "ep_dcp_backfill_pinned_bytes", scans.pinned);
    addFigure(out, "ep_dcp_backfills_closed", scans.closed);
    for (const auto& line : lines) {
        const std::string name = line.name + ":";
        addFigure(out, name + "type", "producer");
        addFigure(out, name + "items_sent", line.producer.messages);
        addFigure(out, name + "total_bytes_sent", line.producer.bytes);
        addFigure(out, name + "unacked_bytes", line.producer.outstandingBytes);
        addFigure(out, name + "max_buffer_bytes", line.producer.bufferSize);
        addFigure(out, name + "num_streams", line.producer.streams);
        addFigure(out, name + "pauses", line.producer.pauses);
        addFigure(out, name + "pauses_full", line.producer.pausesFull);
        addFigure(out, name + "snapshot_runs", line.producer.snapshotRuns);
        for (const auto& [vbid, stream] : line.streams) {
            const std::string prefix = fmt::format("{}stream_{}_", name, vbid.get());
            addFigure(out, prefix + "state", toString(stream.state));
            addFigure(out, prefix + "last_read_seqno", stream.lastRead.get());
            addFigure(out, prefix + "last_sent_seqno", stream.lastSent.get());
            addFigure(out, prefix + "end_seqno", stream.end.get());
            addFigure(out, prefix + "ready_queue_items", stream.readyItems);
            addFigure(out, prefix + "ready_queue_memory", stream.readyBytes);
            addFigure(out, prefix + "backfill_sent", stream.backfilled);
            addFigure(out, prefix + "memory_phase", stream.fromMemory);
            addFigure(out, prefix + "cursor_drops", stream.cursorDrops);
            addFigure(out, prefix + "backfills_given_back", stream.scansGivenBack);
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
    addFigure(out, ":total:producer_count", lines.size() + node.ending());
    addFigure(out, ":total:items_sent", total.messages);
    addFigure(out, ":total:total_bytes", total.bytes);
    addFigure(out, ":total:unacked_bytes", total.outstandingBytes);
    addFigure(out, ":total:streams", total.streams);
    return out;
}

}  // namespace kv::server
