#include "server/replication/start_overs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>

#include "protocol/dcp.h"
#include "server/replication/dcp_codec.h"
#include "server/replication/unreplicated_vbuckets.h"

namespace kv::server {

using protocol::FrameView;
using protocol::Opcode;
using protocol::Status;

namespace {

/// The least number of documents that a source must lack for that reason: in a small vBucket, a few
/// deletions are half of the documents.
constexpr uint64_t kLeastMissing = 16;

/// Opaque of the request for the seqnos of vBuckets that are active at the source.
constexpr uint32_t kActiveSeqnos = 1;

/// Returns the number of documents that have changed since `seqno`. Visits all of them.
uint64_t documentsAbove(VBucket& vbucket, Seqno seqno) {
    uint64_t count = 0;
    vbucket.hashTable().visit({}, [&](const HashIndex::Guard&, StoredValue& value) {
        if (!value.isDeleted() && value.seqno() > seqno) {
            ++count;
        }
        return true;
    });
    return count;
}

bool names(const std::vector<FailoverEntry>& log, VbUuid uuid) {
    return std::any_of(log.begin(), log.end(),
                       [uuid](const FailoverEntry& entry) { return entry.uuid == uuid; });
}

bool shareHistory(const std::vector<FailoverEntry>& one, const std::vector<FailoverEntry>& other) {
    return std::any_of(one.begin(), one.end(),
                       [&](const FailoverEntry& entry) { return names(other, entry.uuid); });
}

}  // namespace

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

StartOvers::StartOvers(Bucket& bucket, const FrameSink& send)
    : bucket_(bucket), send_(send), sourceActive_(bucket.vbucketCount()) {}

bool StartOvers::isNeeded(Vbid vbid, Seqno seqno) const {
    VBucket& vbucket = bucket_.vbucket(vbid);
    const uint64_t documents = documentsIn(vbucket);
    return documents != 0 && (seqno == Seqno{} || vbucket.refusedHistory() != VbUuid{} ||
                              2 * documentsAbove(vbucket, seqno) > documents);
}

void StartOvers::add(Vbid vbid, uint32_t opaque, Seqno seqno) {
    waiting_.push_back({vbid, opaque, seqno});
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
    logs_.clear();
    documents_.clear();
    for (const Question& question : asked_) {
        send_({.opcode = Opcode::kDcpGetFailoverLog,
               .vbucketOrStatus = question.vbid.get(),
               .opaque = question.opaque});
        const std::string details = fmt::format("vbucket-details {}", question.vbid.get());
        send_({.opcode = Opcode::kStat,
               .opaque = question.opaque,
               .key = protocol::asBytes(details)});
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
    logs_[vbid] = toFailoverLog(answer.value);
}

void StartOvers::handleStat(const FrameView& answer) {
    const Vbid vbid{static_cast<uint16_t>(answer.header.opaque)};
    uint64_t documents = 0;
    const auto text = answer.valueText();
    if (answer.keyText() == fmt::format("vb_{}:num_items", vbid.get()) &&
        std::from_chars(text.data(), text.data() + text.size(), documents).ec == std::errc()) {
        documents_[vbid] = documents;
    }
}

bool StartOvers::mustKeep(const Question& question, Seqno sourceHigh) const {
    const VBucket& copy = bucket_.vbucket(question.vbid);
    const auto log = logs_.find(question.vbid);
    // A source that knows no history of this copy has not replaced its documents: it never had
    // them, or lost them. Its figures prove nothing then, because it may have grown since. The same
    // is true of one whose history was refused before.
    if (log == logs_.end() || !shareHistory(copy.failoverLog().entries(), log->second) ||
        names(log->second, copy.refusedHistory()) ||
        (question.seqno == Seqno{} && sourceHigh < copy.highSeqno())) {
        return true;
    }
    const auto found = documents_.find(question.vbid);
    const uint64_t there = found != documents_.end() ? found->second : 0;
    return 2 * there < documentsIn(copy) && documentsIn(copy) - there >= kLeastMissing;
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
    for (const Question& question : std::exchange(asked_, {})) {
        const uint16_t vb = question.vbid.get();
        const auto found = seqnos.find(vb);
        const Seqno high = found != seqnos.end() ? found->second : Seqno{};
        const auto& log = logs_[question.vbid];
        decisions.push_back({.vbid = question.vbid,
                             .opaque = question.opaque,
                             .seqno = question.seqno,
                             .keepCopy = mustKeep(question, high),
                             .sourceHigh = high,
                             .sourceActive = sourceActive_[vb],
                             .history = log.empty() ? VbUuid{} : log.front().uuid});
    }
    ask();
    return decisions;
}

}  // namespace kv::server
