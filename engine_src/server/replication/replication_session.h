// ReplicationSession: the protocol of a replica towards its source. It logs in if it has a login,
// asks for a stream of every replica vBucket from its current seqno, applies the messages,
// acknowledges them, and answers no-ops.
//
// A vBucket whose history differs from the source's rolls back to the common part or starts over. A
// stream that ends because its vBucket changed its state at the source is requested again at once,
// because the mover of the vBucket waits for the last writes. A replica that lacks a stream for
// another reason (refused, ended immediately, newly a replica) is retried every second, and STAT
// replication reports a refusal in the meantime. A vBucket that is made active here is left alone
// from then on, whatever the source still answers. One that is emptied here (DEL_VBUCKET) under its
// stream is requested again from the beginning.
//
// A replica that is asked to give up all or most of its documents does so only if StartOvers
// (start_overs.h) decides it. Otherwise the copy is kept, the vBucket is not replicated, and STAT
// replication reports it, until the source knows this history again or the copy is emptied. A
// source that is a replica itself is asked again each round, because it may be starting over as
// well.
//
// It has no socket: frames come in by handle() and go out by the given function. Ownership: it
// outlives connections, and begin() is called for each; bucket and source outlive it. Threads: one
// thread calls it, but processBuffered() may run on another, and stats() on any.
#pragma once

#include <atomic>
#include <chrono>
#include <vector>

#include "bucket/bucket.h"
#include "dcp/consumer.h"
#include "protocol/frame.h"
#include "server/replication/replication_login.h"
#include "server/replication/replication_source.h"
#include "server/replication/start_overs.h"
#include "server/replication/unreplicated_vbuckets.h"
#include "server/stats/key_values.h"

namespace kv::server {

class ReplicationSession {
  public:
    /// Time between two requests for the streams that are missing.
    static constexpr auto kRetryPause = std::chrono::seconds(1);
    /// A stream that ends sooner than this after its request is requested again only after the
    /// pause.
    static constexpr auto kShortLife = std::chrono::milliseconds(10);

    /// `vbuckets`: those to replicate from this source; empty means all.
    ReplicationSession(Bucket& bucket, const ReplicationSource& source, FrameSink send,
                       std::vector<bool> vbuckets = {});
    ReplicationSession(const ReplicationSession&) = delete;
    ReplicationSession& operator=(const ReplicationSession&) = delete;
    /// Applies nothing after it returns. processBuffered() must not be running.
    ~ReplicationSession();

    /// Begins on a new connection. Messages of an earlier one must not be passed to handle() any
    /// more.
    void begin();
    /// Handles a frame of the source. Throws std::runtime_error if it violates the protocol; the
    /// caller must then close the connection.
    void handle(const protocol::FrameView& frame);
    /// Acknowledges what was applied and requests the missing streams. Call it at least every 100
    /// ms, otherwise the source may stay silent indefinitely.
    void upkeep();
    /// Applies messages that were held back for lack of memory. Returns true if some are left.
    bool processBuffered();

    /// Returns the figures of STAT replication.
    [[nodiscard]] KeyValues stats() const;

  private:
    void openStreams();
    void requestStream(Vbid vbid);
    /// Stops applying and asks the source to stop sending.
    void closeStream(Vbid vbid);
    void requestMissing();
    /// True if this vBucket is a replica that comes from this source.
    [[nodiscard]] bool wanted(Vbid vbid) const;
    /// True if it has not been made active or emptied since its stream was requested.
    [[nodiscard]] bool isSameTerm(Vbid vbid) const;
    void handleEnd(Vbid vbid, dcp::EndStatus reason);
    void handleAnswer(const protocol::FrameView& frame);
    /// Throws std::runtime_error if the source has vBuckets that this node lacks: their documents
    /// would be missing here after a promotion.
    void checkVBuckets(const protocol::FrameView& answer) const;
    void handleStreamAnswer(const protocol::FrameView& frame);
    /// Reports why the source refuses a stream; it is requested again in the next round.
    void endRefused(Vbid vbid, protocol::Status why);
    void handleMessage(const protocol::FrameView& frame);
    void rollBack(Vbid vbid, Seqno seqno);
    /// Rolls back, unless the replica would lose most of its documents: startOvers_ decides that.
    void considerRollBack(Vbid vbid, Seqno seqno);
    /// Rolls the replica back, or keeps its copy, unless its stream is another one by now.
    void carryOut(const StartOvers::Decision& decision);
    void acknowledge();

    Bucket& bucket_;
    const ReplicationSource& source_;
    const FrameSink send_;
    const std::vector<bool> vbuckets_;
    ReplicationLogin login_;
    dcp::Consumer consumer_;
    bool streaming_{false};  ///< logged in, if a login is needed
    size_t outstanding_{0};  ///< bytes of messages that are not acknowledged
    std::chrono::steady_clock::time_point nextRequests_;
    /// By vBucket: number of stream requests, which distinguishes their answers.
    std::vector<uint16_t> requests_;
    std::vector<uint64_t> terms_;  ///< by vBucket: its term when its stream was requested
    /// By vBucket: the time of its last stream request.
    std::vector<std::chrono::steady_clock::time_point> requested_;
    StartOvers startOvers_;
    UnreplicatedVBuckets unreplicated_;
    std::atomic<uint64_t> streams_{0};
    std::atomic<uint64_t> rollbacks_{0};
};

}  // namespace kv::server
