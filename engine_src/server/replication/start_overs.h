// StartOvers: decides whether replicas may give up all or most of their documents when their source
// asks them to roll back.
//
// A source that has lost its data asks its replicas to roll back, as one does that was promoted
// without the last mutations. So the source is first asked for its failover log, for its number of
// documents and for its seqno. The copy is kept if
// - the log names no history of the copy, as that of an empty source does not,
// - the log names a history for which the copy was kept before: the source may have grown since,
// - the copy would start over, and the source's seqno is lower than that of the copy, or
// - the source has fewer than half as many documents as the copy. Of a source that was promoted
//   without the last mutations this is seldom true: they change documents, but do not make most.
//
// It has no socket: frames go to the given function. Ownership: bucket and function outlive it.
// Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "bucket/bucket.h"
#include "protocol/frame.h"
#include "server/replication/replication_source.h"

namespace kv::server {

/// Returns the seqnos by vBucket of an answer to GET_ALL_VB_SEQNOS; none if it was refused.
std::map<uint16_t, Seqno> decodeSeqnos(const protocol::FrameView& answer);

class StartOvers {
  public:
    struct Decision {
        Vbid vbid;
        uint32_t opaque;    ///< of the stream request that the source answered so
        Seqno seqno;        ///< where the source asked the replica to return to
        bool keepCopy;      ///< otherwise the replica rolls back
        Seqno sourceHigh;   ///< 0 if the source did not report it
        bool sourceActive;  ///< the vBucket was active at the source
        VbUuid history;     ///< the newest of the source; none if it did not report it
    };

    StartOvers(Bucket& bucket, const FrameSink& send);

    /// Returns false if a replica that returns to `seqno` loses so little that the source need not
    /// be asked.
    [[nodiscard]] bool isNeeded(Vbid vbid, Seqno seqno) const;
    /// Asks the source what it knows of this vBucket, at once or after the questions in progress.
    void add(Vbid vbid, uint32_t opaque, Seqno seqno);
    /// Forgets all questions: call it when the connection is another one.
    void clear();
    /// Handles an answer to DCP_GET_FAILOVER_LOG. Throws std::runtime_error if it is malformed.
    void handleFailoverLog(const protocol::FrameView& answer);
    /// Handles an answer to STAT.
    void handleStat(const protocol::FrameView& answer);
    /// Handles an answer to GET_ALL_VB_SEQNOS. Returns the decisions that it completes.
    std::vector<Decision> handleSeqnos(const protocol::FrameView& answer);

  private:
    struct Question {
        Vbid vbid;
        uint32_t opaque;
        Seqno seqno;
    };
    void ask();
    [[nodiscard]] bool mustKeep(const Question& question, Seqno sourceHigh) const;

    Bucket& bucket_;
    const FrameSink& send_;
    std::vector<Question> waiting_;  ///< asked after those in asked_ are decided
    std::vector<Question> asked_;    ///< decided by the list of seqnos that was requested
    std::map<Vbid, std::vector<FailoverEntry>> logs_;  ///< of asked_: those of the source
    std::map<Vbid, uint64_t> documents_;  ///< of asked_: what the source has, if it answered
    std::vector<bool> sourceActive_;      ///< by vBucket, when the list for asked_ was requested
};

}  // namespace kv::server
