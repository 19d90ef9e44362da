// BackgroundDcpClient: a DCP client of vBucket 0 in this process: producer, stream, snapshot task
// and the thread that steps, as the historic latency test has them; no sockets.
//
// The data path is the server's: Bucket -> SeqnoListener -> Producer::onSeqno, snapshots made by a
// task of the executor, step() on one thread, which acknowledges what it read. Ownership: bucket
// and executor outlive it. Threads: construct, wait and read the counts from one thread; onSeqno
// comes from the front-end thread. There is no backfill: a stream that needed one would end with an
// error, which ended() reports.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "benchmarks/latency_options.h"
#include "bucket/bucket.h"
#include "dcp/producer.h"
#include "dcp/producer_tasks.h"
#include "executor/executor.h"

namespace kv::bench {

struct DcpCounts {
    uint64_t messages{0};
    uint64_t documents{0};  ///< mutations and deletions
    uint64_t snapshots{0};
    uint64_t bytes{0};
    uint64_t wakeups{0};       ///< times the connection was woken
    uint64_t snapshotRuns{0};  ///< runs of the snapshot task
    uint64_t pauses{0};        ///< times step() found nothing to send
};

class BackgroundDcpClient final : private SeqnoListener {
  public:
    /// Opens a stream of seqnos 1 .. `last` and starts the thread.
    BackgroundDcpClient(Bucket& bucket, Executor& executor, const LatencyOptions& options,
                        Seqno last);
    BackgroundDcpClient(const BackgroundDcpClient&) = delete;
    BackgroundDcpClient& operator=(const BackgroundDcpClient&) = delete;
    ~BackgroundDcpClient() override;

    /// Waits until the stream has ended; empty when it has not in time.
    std::optional<dcp::EndStatus> waitForEnd(std::chrono::seconds limit);
    /// Exact once the stream has ended.
    [[nodiscard]] DcpCounts counts() const;

  private:
    class NoBackfill final : public dcp::BackfillSource {
        std::unique_ptr<dcp::BackfillScan> open(Vbid, Seqno) override { return nullptr; }
    };

    void onSeqno(Vbid vbid, Seqno) noexcept override { producer_.onSeqno(vbid); }
    void wake();
    void sleep();
    void work();
    void receive(const dcp::Message& message);

    Bucket& bucket_;
    const DcpMode mode_;
    const size_t acknowledgeAbove_;
    NoBackfill noBackfill_;
    dcp::Producer producer_;
    dcp::ProducerTasks<dcp::Producer> tasks_;

    std::mutex mutex_;
    std::condition_variable condition_;
    bool woken_{false};  ///< under mutex_
    std::optional<dcp::EndStatus> ended_;
    std::atomic<bool> stop_{false};
    std::atomic<uint64_t> wakeups_{0};

    DcpCounts counts_;  ///< the thread's; read by others after the end
    size_t unacknowledged_{0};
    std::thread thread_;
};

}  // namespace kv::bench
