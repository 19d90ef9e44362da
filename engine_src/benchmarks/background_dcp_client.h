// BackgroundDcpClient: a DCP client of all vBuckets in this process: producer, streams, snapshot
// task and the thread that steps, as in the historic latency test; no sockets.
//
// The data path is the server's: Bucket -> SeqnoListener -> Producer::onSeqno, snapshots made by a
// task of the executor, step() on one thread, which acknowledges what it has read. Ownership:
// bucket and executor outlive it. Threads: construct, wait and read the counts from one thread;
// onSeqno comes from the front-end thread. There is no backfill: a stream that needed one would end
// with an error, which ended() reports.
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
    uint64_t wakeups{0};       ///< number of times the connection was woken
    uint64_t snapshotRuns{0};  ///< runs of the snapshot task
    uint64_t pauses{0};        ///< number of times step() found nothing to send
};

class BackgroundDcpClient final : private SeqnoListener {
  public:
    /// Opens a stream of every vBucket, up to the last seqno of its documents if it has some, and
    /// starts the thread.
    BackgroundDcpClient(Bucket& bucket, Executor& executor, const LatencyOptions& options);
    BackgroundDcpClient(const BackgroundDcpClient&) = delete;
    BackgroundDcpClient& operator=(const BackgroundDcpClient&) = delete;
    ~BackgroundDcpClient() override;

    /// Waits until every stream of documents has ended, or one with an error. Returns nothing if
    /// that does not happen in time.
    std::optional<dcp::EndStatus> waitForEnd(std::chrono::seconds limit);
    /// Waits until all documents of the backlog have come, and returns the time since the first
    /// step. Returns nothing if they have not come in time or cannot come any more.
    std::optional<std::chrono::nanoseconds> waitForBacklog(std::chrono::seconds limit);
    /// Exact once the streams have ended.
    [[nodiscard]] DcpCounts counts() const;
    /// Number of documents that have come so far.
    [[nodiscard]] uint64_t documents() const { return documents_.load(std::memory_order_relaxed); }

  private:
    class NoBackfill final : public dcp::BackfillSource {
        std::unique_ptr<dcp::BackfillScan> open(Vbid, Seqno, Seqno) override { return nullptr; }
        [[nodiscard]] Seqno purged(Vbid) const override { return {}; }
    };

    void onSeqno(Vbid vbid, Seqno) noexcept override { producer_.onSeqno(vbid); }
    void wake();
    void sleep();
    void work();
    /// Returns false after the last message.
    bool receive(const dcp::Message& message);
    /// Returns false if all streams of documents have ended, or one with an error.
    bool streamEnded(dcp::EndStatus status);

    using Clock = std::chrono::steady_clock;

    Bucket& bucket_;
    const DcpMode mode_;
    const size_t acknowledgeAbove_;
    const uint64_t backlog_;  ///< number of documents; 0: there are none when it starts
    NoBackfill noBackfill_;
    dcp::Producer producer_;
    dcp::ProducerTasks<dcp::Producer> tasks_;

    std::mutex mutex_;
    std::condition_variable condition_;
    bool woken_{false};  ///< guarded by mutex_
    std::optional<dcp::EndStatus> ended_;
    std::optional<std::chrono::nanoseconds> transfer_;
    std::atomic<bool> stop_{false};
    std::atomic<uint64_t> wakeups_{0};

    // Used by the thread; others read `counts_` after the end.
    DcpCounts counts_;
    std::atomic<uint64_t> documents_{0};  ///< counts_.documents, for others while the thread runs
    size_t openStreams_{0};               ///< of documents
    size_t unacknowledged_{0};
    Clock::time_point begun_{};
    std::thread thread_;
};

}  // namespace kv::bench
