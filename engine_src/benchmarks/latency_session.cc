#include "benchmarks/latency_session.h"

#include <stdexcept>

#include "bucket/persistent_bucket.h"

namespace kv::bench {

namespace {

/// Returns an error about a client that did not get everything.
std::runtime_error incomplete(const std::string& why) {
    return std::runtime_error("the DCP client did not get everything: " + why);
}

std::unique_ptr<Bucket> makeBucket(const LatencyOptions& options, Executor& executor,
                                   const std::string& dataDir) {
    BucketConfig config;
    config.vbuckets = options.vbuckets;
    if (options.htSize != 0) {
        config.htSize = options.htSize;
    }
    // Everything stays in the checkpoints, so the quota must never be reached.
    config.quotaBytes = size_t{1} << 40;
    config.checkpoint.maxItems = options.checkpointItems;
    config.checkpoint.maxCheckpoints = options.maxCheckpoints;
    std::unique_ptr<Bucket> bucket;
    if (options.bucket == BucketType::Ephemeral) {
        bucket = Bucket::createEphemeral(config);
    } else {
        auto persistent = std::make_unique<PersistentBucket>(
                config,
                PersistenceConfig{.dataDir = dataDir, .shards = 1, .rocks = {}, .flusher = {}},
                executor);
        persistent->warmUp();
        bucket = std::move(persistent);
    }
    const auto documents = options.documentsByVbucket();
    for (uint16_t vb = 0; vb < options.vbuckets; ++vb) {
        bucket->setVBucketState(Vbid{vb}, VbState::Active, OpTime::now());
        if (options.htSize == 0) {
            HashTable& table = bucket->vbucket(Vbid{vb}).hashTable();
            table.resize(table.preferredSize(documents[vb]));
        }
    }
    return bucket;
}

}  // namespace

LatencySession::LatencySession(const LatencyOptions& options)
    : options_(options),
      // No writer: the flusher is notified of every mutation, as in the server, and never runs.
      executor_({.writers = 0, .auxIo = 1, .nonIo = 0}),
      bucket_(makeBucket(options_, executor_,
                         options_.dataDir.empty() ? scratch_.emplace().path() : options_.dataDir)),
      phases_(*bucket_, options_, [this] { return transfer(); }) {}

std::span<const uint64_t> LatencySession::advance(size_t count) {
    const bool due = options_.backlog == Backlog::None || phases_.added();
    if (!client_ && due && options_.dcp != DcpMode::None) {
        client_ = std::make_unique<BackgroundDcpClient>(*bucket_, executor_, options_);
    }
    const std::string phase = phases_.current();
    const auto times = phases_.advance(count);
    if (client_ && (phases_.done() || phases_.current() != phase)) {
        received_.emplace_back(phase, client_->documents());
    }
    return times;
}

std::chrono::nanoseconds LatencySession::transfer() {
    const auto taken = client_->waitForBacklog(std::chrono::seconds(options_.drainSeconds));
    if (!taken) {
        throw incomplete("not every document came in time");
    }
    return *taken;
}

LatencyReport LatencySession::finish() {
    LatencyReport report{options_, {}, {}, {}, {}};
    if (client_) {
        const auto end = client_->waitForEnd(std::chrono::seconds(options_.drainSeconds));
        if (end != dcp::EndStatus::Ok) {
            throw incomplete(end ? "a stream ended early, status " +
                                             std::to_string(static_cast<unsigned>(*end))
                                 : "time-out");
        }
        report.dcp = client_->counts();
        report.received = std::move(received_);
        client_.reset();
    }
    for (PhaseTimes& phase : phases_.take()) {
        if (phase.name == kTransfer) {
            report.itemsPerSecond = static_cast<double>(options_.items) * 1e9 /
                                    static_cast<double>(phase.nanos.front());
            continue;
        }
        report.phases.emplace_back(phase.name, summarise(std::move(phase.nanos)));
    }
    return report;
}

}  // namespace kv::bench
