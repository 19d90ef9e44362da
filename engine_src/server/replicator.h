// Replicator: makes this node's vBuckets replicas of another node's, over one DCP connection.
//
// One thread: connects, logs in if it has a login (by SCRAM only: the password never crosses the
// wire, and the source must prove that it knows it too), asks for a stream of every replica vBucket
// from where it stands, applies what comes, acknowledges it, answers noops; when the connection
// ends it tries again every second and resumes. A vBucket whose history is not the source's goes
// back to where it was the source's, or starts over. A replica without a stream (the source ended
// or refused it, or the vBucket has just become a replica) is asked for every second. A vBucket
// that is made active here is left alone from then on, whatever the source still answers.
// Ownership: bucket and executor outlive it. Construct and destroy it from one thread; stats() from
// any. The destructor stops replication and returns when nothing is applied any more.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "auth/scram_client.h"
#include "dcp/consumer.h"
#include "executor/executor.h"
#include "protocol/frame.h"
#include "server/replication_link.h"
#include "server/replication_source.h"
#include "server/server_context.h"

namespace kv::server {

class Replicator {
  public:
    /// `vbuckets`: those to have from this source; empty: all that are replicas here.
    Replicator(Bucket& bucket, Executor& executor, ReplicationSource source,
               std::vector<bool> vbuckets = {});
    Replicator(const Replicator&) = delete;
    Replicator& operator=(const Replicator&) = delete;
    ~Replicator();

    /// STAT replication.
    [[nodiscard]] KeyValues stats() const;

  private:
    void run();
    /// One connection's life; returns when it has ended, throws std::runtime_error when it failed.
    void replicate();
    void handleLogin(const protocol::FrameView& answer);
    void openStreams();
    void requestStream(Vbid vbid);
    /// Stops applying and asks the source to stop sending.
    void closeStream(Vbid vbid);
    /// Every second: asks for the streams that replicas here lack.
    void requestMissing();
    void handle(const protocol::FrameView& frame);
    void handleAnswer(const protocol::FrameView& frame);
    void handleMessage(const protocol::FrameView& frame);
    void rollBack(Vbid vbid, Seqno seqno);
    void acknowledge();

    Bucket& bucket_;
    Executor& executor_;
    const ReplicationSource source_;
    const std::vector<bool> vbuckets_;  ///< whose replicas come from this source; empty: all
    dcp::Consumer consumer_;
    TaskPtr drain_;

    std::string mechanism_;
    std::optional<auth::ScramClient> login_;  ///< while one is under way
    ReplicationLink link_;
    bool streaming_{false};  ///< logged in, if that was needed
    std::chrono::steady_clock::time_point nextRequests_;
    std::vector<uint16_t> requests_;  ///< by vBucket: stream requests made; tells answers apart
    std::vector<bool> refused_;       ///< by vBucket: its refusal has been logged
    std::atomic<bool> connected_{false};
    std::atomic<uint64_t> connections_{0};
    std::atomic<uint64_t> streams_{0};
    std::atomic<uint64_t> rollbacks_{0};
    std::thread thread_;
};

}  // namespace kv::server
