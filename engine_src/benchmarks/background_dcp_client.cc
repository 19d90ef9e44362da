#include "benchmarks/background_dcp_client.h"

#include <pthread.h>

namespace kv::bench {

namespace {
constexpr uint32_t kOpaque = 1;
/// Seqnos of a document in a run: add, replace and delete.
constexpr uint64_t kSeqnosPerDocument = 3;
}  // namespace

BackgroundDcpClient::BackgroundDcpClient(Bucket& bucket, Executor& executor,
                                         const LatencyOptions& options)
    : bucket_(bucket),
      mode_(options.dcp),
      acknowledgeAbove_(options.acknowledgeAbove),
      backlog_(options.backlog == Backlog::None ? 0 : options.items),
      producer_("DCP", options.producerSlots,
                {.wakeConnection = [this] { wake(); },
                 .wakeSnapshotTask = [this] { tasks_.wakeSnapshots(); },
                 .wakeBackfillTask = [this] { tasks_.wakeBackfills(); }}),
      tasks_(producer_, bucket.memory(), executor, options.snapshotInterval) {
    producer_.flow().setBufferSize(options.bufferSize);
    const auto documents = options.documentsByVbucket();
    for (uint16_t vb = 0; vb < options.vbuckets; ++vb) {
        dcp::StreamRequest request{.vbid = Vbid{vb}, .opaque = kOpaque};
        if (documents[vb] != 0) {
            request.end = Seqno{kSeqnosPerDocument * documents[vb]};
            ++openStreams_;
        }
        producer_.addStream(std::make_shared<dcp::ActiveStream>(
                request, "dcp:latency", bucket_.vbucket(Vbid{vb}).checkpoints().cursors(),
                noBackfill_));
    }
    bucket_.listeners().add(this);
    thread_ = std::thread([this] { work(); });
    pthread_setname_np(thread_.native_handle(), "dcp_client");
}

BackgroundDcpClient::~BackgroundDcpClient() {
    bucket_.listeners().remove(this);
    stop_ = true;
    wake();
    thread_.join();
    // The bucket owns the items that the stream still holds.
    const BucketMemoryGuard guard(bucket_.memory());
    for (const auto& stream : producer_.streams()) {
        producer_.removeStream(stream->vbid());
    }
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
    begun_ = Clock::now();
    while (!stop_.load(std::memory_order_relaxed)) {
        if (unacknowledged_ > acknowledgeAbove_) {
            producer_.acknowledged(std::exchange(unacknowledged_, 0));
        }
        if (const auto message = producer_.step()) {
            if (!receive(*message)) {
                return;
            }
        } else if (mode_ == DcpMode::Notify) {
            sleep();
        }
    }
}

bool BackgroundDcpClient::receive(const dcp::Message& message) {
    const size_t bytes = message.wireSize();
    unacknowledged_ += bytes;
    counts_.bytes += bytes;
    ++counts_.messages;
    if (message.item) {
        documents_.store(++counts_.documents, std::memory_order_relaxed);
        if (counts_.documents == backlog_) {
            const auto transfer = Clock::now() - begun_;
            const std::scoped_lock lock(mutex_);
            transfer_ = transfer;
            condition_.notify_all();
        }
    } else if (message.kind == dcp::MessageKind::SnapshotMarker) {
        ++counts_.snapshots;
    } else {
        return streamEnded(static_cast<dcp::EndStatus>(message.detail));
    }
    return true;
}

bool BackgroundDcpClient::streamEnded(dcp::EndStatus status) {
    if (status == dcp::EndStatus::Ok && --openStreams_ != 0) {
        return true;
    }
    const std::scoped_lock lock(mutex_);
    ended_ = status;
    condition_.notify_all();
    return false;
}

std::optional<dcp::EndStatus> BackgroundDcpClient::waitForEnd(std::chrono::seconds limit) {
    std::unique_lock lock(mutex_);
    condition_.wait_for(lock, limit, [this] { return ended_.has_value(); });
    return ended_;
}

std::optional<std::chrono::nanoseconds> BackgroundDcpClient::waitForBacklog(
        std::chrono::seconds limit) {
    std::unique_lock lock(mutex_);
    condition_.wait_for(lock, limit, [this] { return transfer_ || ended_; });
    return transfer_;
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
