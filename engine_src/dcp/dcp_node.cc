#include "dcp/dcp_node.h"

#include <algorithm>

namespace kv::dcp {

namespace {
constexpr TaskTime kWatchPeriod = std::chrono::seconds(1);
/// Minimum time between two runs, however often writers report that memory is short; and the time
/// after a run that did not help.
constexpr TaskTime kWatchPause = std::chrono::milliseconds(10);
constexpr TaskTime kWatchPauseInVain = std::chrono::milliseconds(100);
/// Time until a retired producer is looked at again that another thread was using.
constexpr TaskTime kRetirePause = std::chrono::milliseconds(1);
}  // namespace

DcpNode::DcpNode(Bucket& bucket, Executor& executor, std::chrono::nanoseconds snapshotInterval,
                 const BackfillLimits& limits, const ConnectionLimits& connections)
    : bucket_(bucket),
      executor_(executor),
      snapshotInterval_(snapshotInterval),
      limits_(limits),
      connectionLimits_(connections),
      backfill_(bucket),
      watch_(backfill_, limits) {
    backfill_.slots().setMost(limits.perNode);
    bucket_.setCursorDropper(this);
    const bool onDisk = bucket.type() == BucketType::Persistent;
    watchTask_ = executor_.schedule("dcp_scan_watch", onDisk ? TaskPool::AuxIO : TaskPool::NonIO,
                                    kWatchPeriod, [this] { return watch(); });
    // In the backfills' pool: if that has only one thread, nothing has to be waited for.
    retireTask_ = executor_.schedule("dcp_retired", TaskPool::AuxIO, kNever, [this] {
        return destroyRetired() ? TaskResult::after(kRetirePause) : TaskResult::untilWoken();
    });
    bucket_.staleBudget().onSpent([this] { executor_.wake(watchTask_); });
}

DcpNode::~DcpNode() {
    bucket_.staleBudget().onSpent({});
    bucket_.setCursorDropper(nullptr);
    executor_.cancel(watchTask_);
    executor_.cancel(retireTask_);
    destroyRetired();
}

TaskResult DcpNode::watch() {
    const TaskTime now = executor_.now();
    if (now < notBefore_) {
        return TaskResult::after(notBefore_ - now);
    }
    // First, so that a notification from now on is not lost in this look.
    bucket_.staleBudget().rearm();
    watchScans();
    notBefore_ = now + (recoverMemory() ? kWatchPause : kWatchPauseInVain);
    return TaskResult::after(kWatchPeriod);
}

bool DcpNode::recoverMemory() {
    const size_t before = bucket_.memory().precise();
    if (before <= bucket_.highWatermarkBytes()) {
        return true;
    }
    bucket_.removeClosedCheckpoints(OpTime::now());
    constexpr size_t kWorthIt = 100;  // a share of what there is
    return bucket_.memory().precise() < before - before / kWorthIt;
}

void DcpNode::watchScans() {
    const BucketMemoryGuard guard(bucket_.memory());
    const auto all = living();  // outlives their streams
    ScanWatch::Streams streams;
    for (const auto& producer : all) {
        auto some = producer->producer().streams();
        streams.insert(streams.end(), std::make_move_iterator(some.begin()),
                       std::make_move_iterator(some.end()));
    }
    watch_.run(streams, executor_.now());
}

void DcpNode::retire(std::shared_ptr<BucketProducer> producer) noexcept {
    {
        const std::scoped_lock lock(mutex_);
        retired_.push_back(std::move(producer));
    }
    executor_.wake(retireTask_);
}

bool DcpNode::destroyRetired() {
    const BucketMemoryGuard guard(bucket_.memory());
    while (true) {
        std::shared_ptr<BucketProducer> producer;
        {
            const std::scoped_lock lock(mutex_);
            const auto unused =
                    std::find_if(retired_.begin(), retired_.end(), [this](const auto& retired) {
                        // Once it is not listed, its users become only fewer.
                        unlist(retired);
                        return retired.use_count() == 1;
                    });
            if (unused == retired_.end()) {
                return !retired_.empty();
            }
            producer = std::move(*unused);
            retired_.erase(unused);
        }
        producer.reset();
        ending_.fetch_sub(1, std::memory_order_release);
    }
}

void DcpNode::unlist(const std::shared_ptr<BucketProducer>& producer) {
    const auto removed = std::erase_if(producers_, [&producer](const auto& listed) {
        return !listed.owner_before(producer) && !producer.owner_before(listed);
    });
    ending_.fetch_add(removed, std::memory_order_release);
}

DcpNode::Loads DcpNode::loads(std::string_view user) const {
    const BucketMemoryGuard guard(bucket_.memory());
    Loads loads;
    for (const auto& producer : living()) {
        const Load load{1, producer->producer().streamCount()};
        for (Load* sum : {&loads.all, producer->user() == user ? &loads.user : nullptr}) {
            if (sum != nullptr) {
                sum->connections += load.connections;
                sum->streams += load.streams;
            }
        }
    }
    return loads;
}

bool DcpNode::mayConnect(std::string_view user) const {
    const Loads open = loads(user);
    return open.all.connections < connectionLimits_.perNode &&
           (user.empty() || open.user.connections < connectionLimits_.perUser);
}

bool DcpNode::mayStream(std::string_view user) const {
    constexpr size_t kShareOfQuota = 10;
    constexpr size_t kStreamsOfVBucket = 4;
    const size_t most = std::max(bucket_.memory().quota() / kShareOfQuota / kStreamBytes,
                                 kStreamsOfVBucket * bucket_.vbucketCount());
    const Loads open = loads(user);
    return open.all.streams < most && (user.empty() || open.user.streams < most / 2);
}

std::shared_ptr<BucketProducer> DcpNode::makeProducer(std::string_view name, std::string_view user,
                                                      std::function<void()> wakeConnection) {
    const BucketMemoryGuard guard(bucket_.memory());
    // Not make_shared: the list's weak pointer would keep the producer's memory until the next one.
    std::shared_ptr<BucketProducer> made = std::make_unique<BucketProducer>(
            std::string(name), bucket_, backfill_, executor_, snapshotInterval_,
            std::move(wakeConnection), limits_.perConnection);
    made->setUser(user);
    const std::scoped_lock lock(mutex_);
    // Under the bucket's guard: the remains of those that are gone were charged to it.
    std::erase_if(producers_, [](const auto& producer) { return producer.expired(); });
    const NonBucketGuard nobody;
    producers_.push_back(made);
    retired_.reserve(retired_.size() + producers_.size());
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
