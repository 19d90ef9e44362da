// StartOvers: decides whether replicas may give up all of their documents when their source asks
// them to start over.
//
// A source that has lost its data asks its replicas to start over, as one with another history
// does. So the source is first asked for its failover log and for how much it has. If the log names
// no history of a copy, as that of an empty source does not, or if the source has less, the copy
// must be kept.
//
// It has no socket: frames go to the given function. Ownership: bucket and function outlive it.
// Threads: one.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "bucket/bucket.h"
#include "protocol/frame.h"
#include "server/connections/frame_sink.h"

namespace kv::server {

class StartOvers {
  public:
    struct Decision {
        Vbid vbid;
        uint32_t opaque;    ///< of the stream request that the source answered so
        bool keepCopy;      ///< otherwise the replica starts over
        Seqno sourceHigh;   ///< 0 if the source did not report it
        bool sourceActive;  ///< the vBucket was active at the source
    };

    StartOvers(const Bucket& bucket, const FrameSink& send);

    /// Asks the source what it knows of this vBucket, at once or after the questions in progress.
    void add(Vbid vbid, uint32_t opaque);
    /// Forgets all questions: call it when the connection is another one.
    void clear();
    /// Handles an answer to DCP_GET_FAILOVER_LOG. Throws std::runtime_error if it is malformed.
    void handleFailoverLog(const protocol::FrameView& answer);
    /// Handles an answer to GET_ALL_VB_SEQNOS. Returns the decisions that it completes.
    std::vector<Decision> handleSeqnos(const protocol::FrameView& answer);

  private:
    struct Question {
        Vbid vbid;
        uint32_t opaque;
    };
    void ask();

    const Bucket& bucket_;
    const FrameSink& send_;
    std::vector<Question> waiting_;   ///< asked after those in asked_ are decided
    std::vector<Question> asked_;     ///< decided by the list of seqnos that was requested
    std::set<Vbid> related_;          ///< of asked_: the source's log names a history of the copy
    std::vector<bool> sourceActive_;  ///< by vBucket, when the list for asked_ was requested
};

}  // namespace kv::server
