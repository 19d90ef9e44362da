// Replicator: makes this node's vBuckets replicas of another node's, over one DCP connection.
//
// One thread: connects, asks for a stream of every replica vBucket from where it stands, applies
// what comes, acknowledges it, answers noops; when the connection ends it tries again every second
// and resumes. A vBucket whose history is not the source's is emptied and starts over (a partial
// rollback is not undone piecewise). A vBucket that is made active here is left alone from then on.
// Ownership: bucket and executor outlive it. Construct and destroy it from one thread; stats() from
// any. The destructor stops replication and returns when nothing is applied any more.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dcp/consumer.h"
#include "executor/executor.h"
#include "protocol/frame.h"
#include "server/event_ptr.h"
#include "server/server_context.h"

namespace kv::server {

class Replicator {
  public:
    Replicator(Bucket& bucket, Executor& executor, std::string host, uint16_t port);
    Replicator(const Replicator&) = delete;
    Replicator& operator=(const Replicator&) = delete;
    ~Replicator();

    /// STAT replication.
    [[nodiscard]] KeyValues stats() const;

  private:
    void run();
    /// One connection's life; returns when it has ended, throws std::runtime_error when it failed.
    void replicate();
    void connect();
    void openStreams();
    void requestStream(Vbid vbid);
    void readAndHandle();
    void handle(const protocol::FrameView& frame);
    void handleAnswer(const protocol::FrameView& frame);
    void handleMessage(const protocol::FrameView& frame);
    void rollBack(Vbid vbid);
    void acknowledge();
    void send(const protocol::FrameSpec& frame);
    void flush();
    /// Waits for the socket or the stop; false when stopping.
    bool waitFor(short events, int millis);

    Bucket& bucket_;
    Executor& executor_;
    const std::string host_;
    const uint16_t port_;
    dcp::Consumer consumer_;
    TaskPtr drain_;

    Fd socket_;
    Fd stopFd_;
    std::vector<uint8_t> input_;
    std::vector<uint8_t> output_;
    std::atomic<bool> connected_{false};
    std::atomic<bool> stopping_{false};
    std::atomic<uint64_t> connections_{0};
    std::atomic<uint64_t> streams_{0};
    std::atomic<uint64_t> rollbacks_{0};
    std::thread thread_;
};

}  // namespace kv::server
