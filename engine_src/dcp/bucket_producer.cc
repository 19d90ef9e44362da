#include "dcp/bucket_producer.h"

#include <utility>

namespace kv::dcp {

BucketProducer::BucketProducer(std::string name, Bucket& bucket, BackfillSource& source,
                               Executor& executor, std::chrono::nanoseconds snapshotInterval,
                               std::function<void()> wakeConnection, size_t mostScans)
    : bucket_(bucket),
      source_(source),
      slots_(mostScans, &source.slots()),
      producer_(std::move(name), bucket.vbucketCount(),
                {.wakeConnection = std::move(wakeConnection),
                 .wakeSnapshotTask = [this] { tasks_.wakeSnapshots(); },
                 .wakeBackfillTask = [this] { tasks_.wakeBackfills(); }}),
      tasks_(producer_, bucket.memory(), executor, snapshotInterval) {
    bucket_.listeners().add(this);
}

BucketProducer::~BucketProducer() {
    bucket_.listeners().remove(this);
}

bool BucketProducer::open(const StreamRequest& request, const Seen& seen) {
    if (producer_.findStream(request.vbid)) {
        return false;
    }
    // The number distinguishes a stream's cursor from that of its predecessor, which a task may
    // still hold.
    std::string cursor = producer_.name() + "/" + std::to_string(request.vbid.get()) + "/" +
                         std::to_string(++opened_);
    VBucket& vbucket = bucket_.vbucket(request.vbid);
    const bool added = producer_.addStream(std::make_shared<ActiveStream>(
            request, std::move(cursor), vbucket.checkpoints().cursors(), source_, &slots_));
    // This stream was not notified of changes between the check of the request and now.
    if (added && vbucket.clears() != seen.clears) {
        producer_.endStream(request.vbid, EndStatus::Rollback);
    } else if (added && (vbucket.state() != seen.state || vbucket.term() != seen.term ||
                         vbucket.failoverLog().uuid() != seen.uuid)) {
        producer_.endStream(request.vbid, EndStatus::StateChanged);
    }
    return added;
}

}  // namespace kv::dcp
