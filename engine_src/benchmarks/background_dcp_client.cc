#include "benchmarks/background_dcp_client.h"

#include <pthread.h>

namespace kv::bench {

namespace {
constexpr Vbid kVb{0};
constexpr uint32_t kOpaque = 1;
}  // namespace

BackgroundDcpClient::BackgroundDcpClient(Bucket& bucket, Executor& executor,
                                         const LatencyOptions& options, Seqno last)
    : bucket_(bucket),
      mode_(options.dcp),
      acknowledgeAbove_(options.acknowledgeAbove),
      producer_("DCP", options.producerSlots,
                {.wakeConnection = [this] { wake(); },
                 .wakeSnapshotTask = [this] { tasks_.wakeSnapshots(); },
                 .wakeBackfillTask = [this] { tasks_.wakeBackfills(); }}),
      tasks_(producer_, bucket.memory(), executor, options.snapshotInterval) {
    producer_.flow().setBufferSize(options.bufferSize);
    const dcp::StreamRequest request{kVb, kOpaque, Seqno{0}, last, false, {}};
    producer_.addStream(std::make_shared<dcp::ActiveStream>(
            request, "dcp:latency", bucket_.vbucket(kVb).checkpoints(), noBackfill_));
    bucket_.addSeqnoListener(this);
    thread_ = std::thread([this] { work(); });
    pthread_setname_np(thread_.native_handle(), "dcp_client");
}

BackgroundDcpClient::~BackgroundDcpClient() {
    bucket_.removeSeqnoListener(this);
    stop_ = true;
    wake();
    thread_.join();
    // Items that the stream still holds are the bucket's.
    const BucketMemoryGuard guard(bucket_.memory());
    producer_.removeStream(kVb);
}

void BackgroundDcpClient::wake() {
    wakeups_.fetch_add(1, std::memory_order_relaxed);
    if (mode_ != DcpMode::Notify) {
        return;
    }
    {
        const std::scoped_lock lock(mutex_);
        woken_ = true;
    }
    condition_.notify_all();
}

void BackgroundDcpClient::sleep() {
    std::unique_lock lock(mutex_);
    condition_.wait(lock, [this] { return woken_; });
    woken_ = false;
}

void BackgroundDcpClient::work() {
    const BucketMemoryGuard guard(bucket_.memory());
    while (!stop_.load(std::memory_order_relaxed)) {
        if (unacknowledged_ > acknowledgeAbove_) {
            producer_.acknowledged(std::exchange(unacknowledged_, 0));
        }
        if (const auto message = producer_.step()) {
            receive(*message);
            if (message->kind == dcp::MessageKind::StreamEnd) {
                return;
            }
        } else if (mode_ == DcpMode::Notify) {
            sleep();
        }
    }
}

void BackgroundDcpClient::receive(const dcp::Message& message) {
    const size_t bytes = message.wireSize();
    unacknowledged_ += bytes;
    counts_.bytes += bytes;
    ++counts_.messages;
    if (message.item) {
        ++counts_.documents;
    } else if (message.kind == dcp::MessageKind::SnapshotMarker) {
        ++counts_.snapshots;
    } else {
        const std::scoped_lock lock(mutex_);
        ended_ = static_cast<dcp::EndStatus>(message.detail);
        condition_.notify_all();
    }
}

std::optional<dcp::EndStatus> BackgroundDcpClient::waitForEnd(std::chrono::seconds limit) {
    std::unique_lock lock(mutex_);
    condition_.wait_for(lock, limit, [this] { return ended_.has_value(); });
    return ended_;
}

DcpCounts BackgroundDcpClient::counts() const {
    DcpCounts counts = counts_;
    const auto stats = producer_.stats();
    counts.wakeups = wakeups_.load();
    counts.snapshotRuns = stats.snapshotRuns;
    counts.pauses = stats.pauses;
    return counts;
}

}  // namespace kv::bench
