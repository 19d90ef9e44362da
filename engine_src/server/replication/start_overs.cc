#include "server/replication/start_overs.h"

#include <algorithm>
#include <map>
#include <utility>

#include "protocol/dcp.h"
#include "server/replication/replica_message.h"

namespace kv::server {

using protocol::FrameView;
using protocol::Opcode;
using protocol::Status;

namespace {

/// Opaque of the request for the seqnos of vBuckets that are active at the source.
constexpr uint32_t kActiveSeqnos = 1;

/// Returns the seqnos by vBucket; none if the request was refused.
std::map<uint16_t, Seqno> decodeSeqnos(const FrameView& answer) {
    constexpr size_t kEntry = sizeof(uint16_t) + sizeof(uint64_t);
    std::map<uint16_t, Seqno> seqnos;
    if (answer.header.status() == Status::kSuccess) {
        for (size_t at = 0; at + kEntry <= answer.value.size(); at += kEntry) {
            const uint8_t* const entry = answer.value.data() + at;
            seqnos[loadBig<uint16_t>(entry)] = Seqno{loadBig<uint64_t>(entry + sizeof(uint16_t))};
        }
    }
    return seqnos;
}

}  // namespace

StartOvers::StartOvers(const Bucket& bucket, const FrameSink& send)
    : bucket_(bucket), send_(send), sourceActive_(bucket.vbucketCount()) {}

void StartOvers::add(Vbid vbid, uint32_t opaque) {
    waiting_.push_back({vbid, opaque});
    ask();
}

void StartOvers::clear() {
    waiting_.clear();
    asked_.clear();
}

void StartOvers::ask() {
    if (!asked_.empty() || waiting_.empty()) {
        return;
    }
    asked_ = std::exchange(waiting_, {});
    related_.clear();
    for (const Question& question : asked_) {
        send_({.opcode = Opcode::kDcpGetFailoverLog,
               .vbucketOrStatus = question.vbid.get(),
               .opaque = question.opaque});
    }
    const auto active = protocol::encodeU32(static_cast<uint32_t>(VbState::Active));
    send_({.opcode = Opcode::kGetAllVBSeqnos, .opaque = kActiveSeqnos, .extras = active});
    send_({.opcode = Opcode::kGetAllVBSeqnos});
}

void StartOvers::handleFailoverLog(const FrameView& answer) {
    const Vbid vbid{static_cast<uint16_t>(answer.header.opaque)};
    if (answer.header.status() != Status::kSuccess || !bucket_.hasVBucket(vbid)) {
        return;  // the source's history is unknown, so the copy is kept
    }
    const auto here = bucket_.vbucket(vbid).failoverLog().entries();
    const auto there = toFailoverLog(answer.value);
    const bool related = std::any_of(here.begin(), here.end(), [&](const FailoverEntry& mine) {
        return std::any_of(there.begin(), there.end(),
                           [&](const FailoverEntry& entry) { return entry.uuid == mine.uuid; });
    });
    if (related) {
        related_.insert(vbid);
    }
}

std::vector<StartOvers::Decision> StartOvers::handleSeqnos(const FrameView& answer) {
    const auto seqnos = decodeSeqnos(answer);
    if (answer.header.opaque == kActiveSeqnos) {
        for (uint16_t vb = 0; vb < bucket_.vbucketCount(); ++vb) {
            sourceActive_[vb] = seqnos.contains(vb);
        }
        return {};
    }
    std::vector<Decision> decisions;
    for (const auto& [vbid, opaque] : std::exchange(asked_, {})) {
        const auto found = seqnos.find(vbid.get());
        const Seqno high = found != seqnos.end() ? found->second : Seqno{};
        // A source that knows no history of this copy has not replaced its documents: it never had
        // them, or lost them. Its seqno proves nothing then, because it may have grown since.
        const bool keep = !related_.contains(vbid) || high < bucket_.vbucket(vbid).highSeqno();
        decisions.push_back({.vbid = vbid,
                             .opaque = opaque,
                             .keepCopy = keep,
                             .sourceHigh = high,
                             .sourceActive = sourceActive_[vbid.get()]});
    }
    ask();
    return decisions;
}

}  // namespace kv::server
