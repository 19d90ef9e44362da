#include "dcp/dcp_node.h"

#include <algorithm>

namespace kv::dcp {

DcpNode::DcpNode(Bucket& bucket, Executor& executor, std::chrono::nanoseconds snapshotInterval)
    : bucket_(bucket), executor_(executor), snapshotInterval_(snapshotInterval), backfill_(bucket) {
    bucket_.setCursorDropper(this);
}

DcpNode::~DcpNode() {
    bucket_.setCursorDropper(nullptr);
}

std::shared_ptr<BucketProducer> DcpNode::makeProducer(std::string_view name,
                                                      std::function<void()> wakeConnection) {
    const BucketMemoryGuard guard(bucket_.memory());
    // Not make_shared: the list's weak pointer would keep the producer's memory until the next one.
    std::shared_ptr<BucketProducer> made =
            std::make_unique<BucketProducer>(std::string(name), bucket_, backfill_, executor_,
                                             snapshotInterval_, std::move(wakeConnection));
    const std::scoped_lock lock(mutex_);
    // Under the bucket's guard: what is left of those that are gone was charged to it.
    std::erase_if(producers_, [](const auto& producer) { return producer.expired(); });
    const NonBucketGuard nobody;
    producers_.push_back(made);
    return made;
}

std::vector<std::shared_ptr<BucketProducer>> DcpNode::living() const {
    std::vector<std::shared_ptr<BucketProducer>> all;
    const std::scoped_lock lock(mutex_);
    for (const auto& producer : producers_) {
        if (auto alive = producer.lock()) {
            all.push_back(std::move(alive));
        }
    }
    return all;
}

void DcpNode::endStreams(Vbid vbid) {
    const BucketMemoryGuard guard(bucket_.memory());
    // Without a list of them, since this must not fail. From the last one on: those that are taken
    // out meanwhile move the ones behind them, which were here already.
    for (size_t at = SIZE_MAX; at != 0;) {
        std::shared_ptr<BucketProducer> producer;
        {
            const std::scoped_lock lock(mutex_);
            at = std::min(at, producers_.size());
            if (at != 0) {
                producer = producers_[--at].lock();
            }
        }
        if (producer) {
            producer->producer().endStream(vbid, EndStatus::StateChanged);
        }
    }
}

bool DcpNode::dropCursor(Vbid vbid, const CursorPtr& cursor) {
    const BucketMemoryGuard guard(bucket_.memory());
    const auto all = living();
    return std::any_of(all.begin(), all.end(), [&](const auto& producer) {
        return producer->producer().dropCursor(vbid, cursor);
    });
}

std::vector<DcpNode::ProducerLine> DcpNode::producers() const {
    const BucketMemoryGuard guard(bucket_.memory());
    std::vector<ProducerLine> lines;
    for (const auto& producer : living()) {
        const NonBucketGuard nobody;
        ProducerLine line{producer->producer().name(), producer->producer().stats(), {}};
        for (const auto& stream : producer->producer().streams()) {
            line.streams.emplace_back(stream->vbid(), stream->stats());
        }
        lines.push_back(std::move(line));
    }
    return lines;
}

}  // namespace kv::dcp
