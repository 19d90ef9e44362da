// ReplicationSession: what a replica says to its source, and does with what comes: it logs in if it
// has a login, asks for a stream of every replica vBucket from where it stands, applies what comes,
// acknowledges it, answers noops. A vBucket whose history is not the source's goes back to where it
// was the source's, or starts over. A stream that ends because its vBucket has changed its state at
// the source is asked for again at once: whoever moves the vBucket waits for the last writes. A
// replica that lacks a stream for another reason (refused, ended as soon as it was asked for, only
// just a replica) asks every second. A vBucket that is made active here is left alone from then on,
// whatever the source still answers.
//
// No socket: frames come by handle() and go by the given function. It outlives connections: begin()
// is called at each. Bucket and source outlive it. One thread calls it, but processBuffered() may
// run on another, and stats() on any.
#pragma once

#include <atomic>
#include <chrono>
#include <vector>

#include "dcp/consumer.h"
#include "protocol/frame.h"
#include "server/frame_sink.h"
#include "server/replication_login.h"
#include "server/replication_source.h"
#include "server/server_context.h"

namespace kv::server {

class ReplicationSession {
  public:
    /// Between two requests for the streams that are missing.
    static constexpr auto kRetryPause = std::chrono::seconds(1);
    /// A stream that has lived shorter when the source ends it waits for the next of those rounds.
    static constexpr auto kShortLife = std::chrono::milliseconds(10);

    /// `vbuckets`: whose replicas come from this source; empty: all.
    ReplicationSession(Bucket& bucket, const ReplicationSource& source, FrameSink send,
                       std::vector<bool> vbuckets = {});
    ReplicationSession(const ReplicationSession&) = delete;
    ReplicationSession& operator=(const ReplicationSession&) = delete;
    /// Nothing is applied any more when it returns; processBuffered() is not running.
    ~ReplicationSession();

    /// A new connection; nothing of an earlier one will come.
    void begin();
    /// Throws std::runtime_error when the source says what it must not: the connection is over.
    void handle(const protocol::FrameView& frame);
    /// Acknowledges what was applied and asks for the streams that replicas lack: at least every
    /// 100 ms, else the source stays silent for ever.
    void upkeep();
    /// Applies what was held back for want of memory; true when some is left.
    bool processBuffered();

    /// For STAT replication.
    [[nodiscard]] KeyValues stats() const;

  private:
    void openStreams();
    void requestStream(Vbid vbid);
    /// Stops applying and asks the source to stop sending.
    void closeStream(Vbid vbid);
    void requestMissing();
    /// Whether this vBucket is a replica that comes from here.
    [[nodiscard]] bool wanted(Vbid vbid) const;
    void handleEnd(Vbid vbid, dcp::EndStatus reason);
    void handleAnswer(const protocol::FrameView& frame);
    void handleStreamAnswer(const protocol::FrameView& frame);
    void handleMessage(const protocol::FrameView& frame);
    void rollBack(Vbid vbid, uint64_t term, Seqno seqno);
    void acknowledge();

    Bucket& bucket_;
    const ReplicationSource& source_;
    const FrameSink send_;
    const std::vector<bool> vbuckets_;
    ReplicationLogin login_;
    dcp::Consumer consumer_;
    bool streaming_{false};  ///< logged in, if that was needed
    std::chrono::steady_clock::time_point nextRequests_;
    std::vector<uint16_t> requests_;  ///< by vBucket: stream requests made; tells answers apart
    std::vector<bool> refused_;       ///< by vBucket: its refusal has been logged
    /// By vBucket: when its stream was asked for last.
    std::vector<std::chrono::steady_clock::time_point> requested_;
    std::atomic<uint64_t> streams_{0};
    std::atomic<uint64_t> rollbacks_{0};
};

}  // namespace kv::server
