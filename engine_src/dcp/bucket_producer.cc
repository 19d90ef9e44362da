#include "dcp/bucket_producer.h"

#include <utility>

namespace kv::dcp {

BucketProducer::BucketProducer(std::string name, Bucket& bucket, BackfillSource& source,
                               Executor& executor, std::chrono::nanoseconds snapshotInterval,
                               std::function<void()> wakeConnection)
    : bucket_(bucket),
      source_(source),
      producer_(std::move(name), bucket.vbucketCount(),
                {.wakeConnection = std::move(wakeConnection),
                 .wakeSnapshotTask = [this] { tasks_.wakeSnapshots(); },
                 .wakeBackfillTask = [this] { tasks_.wakeBackfills(); }}),
      tasks_(producer_, bucket.memory(), executor, snapshotInterval) {
    bucket_.addSeqnoListener(this);
}

BucketProducer::~BucketProducer() {
    bucket_.removeSeqnoListener(this);
}

bool BucketProducer::open(const StreamRequest& request) {
    if (producer_.findStream(request.vbid)) {
        return false;
    }
    // The number keeps a stream's cursor apart from that of the one before it, which a task may
    // still hold.
    std::string cursor = producer_.name() + "/" + std::to_string(request.vbid.get()) + "/" +
                         std::to_string(++opened_);
    return producer_.addStream(std::make_shared<ActiveStream>(
            request, std::move(cursor), bucket_.vbucket(request.vbid).checkpoints(), source_));
}

}  // namespace kv::dcp
