#include "benchmarks/latency_session.h"

#include <filesystem>
#include <random>
#include <stdexcept>

#include "bucket/persistent_bucket.h"

namespace kv::bench {

namespace {

/// Seqnos a run makes: add, replace and delete of every item.
constexpr uint64_t kSeqnosPerItem = 3;

std::unique_ptr<Bucket> makeBucket(const LatencyOptions& options, Executor& executor,
                                   const std::string& dataDir) {
    BucketConfig config;
    config.vbuckets = 1;
    if (options.htSize != 0) {
        config.htSize = options.htSize;
    }
    // Everything stays in the checkpoints: the quota must never speak.
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
    bucket->setVBucketState(Vbid{0}, VbState::Active, OpTime::now());
    if (options.htSize == 0) {
        HashTable& table = bucket->vbucket(Vbid{0}).hashTable();
        table.resize(table.preferredSize(options.items));
    }
    return bucket;
}

}  // namespace

ScratchDir::ScratchDir(const std::string& asked)
    : path_(asked.empty() ? (std::filesystem::temp_directory_path() /
                             ("front_end_latency-" + std::to_string(std::random_device{}())))
                                    .string()
                          : asked),
      own_(asked.empty()) {
    std::filesystem::create_directories(path_);
}

ScratchDir::~ScratchDir() {
    if (own_) {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
}

LatencySession::LatencySession(const LatencyOptions& options)
    : options_(options),
      dir_(options.dataDir),
      // No writer: the flusher is told of every mutation, as in the server, and never runs.
      executor_({.writers = 0, .auxIo = 1, .nonIo = 0}),
      bucket_(makeBucket(options_, executor_, dir_.path())),
      phases_(*bucket_, options_) {}

std::span<const uint64_t> LatencySession::advance(size_t count) {
    if (!started_ && options_.dcp != DcpMode::None) {
        client_ = std::make_unique<BackgroundDcpClient>(*bucket_, executor_, options_,
                                                        Seqno{kSeqnosPerItem * options_.items});
    }
    started_ = true;
    return phases_.advance(count);
}

LatencyReport LatencySession::finish() {
    LatencyReport report{options_, {}, {}};
    if (client_) {
        const auto end = client_->waitForEnd(std::chrono::seconds(options_.drainSeconds));
        if (end != dcp::EndStatus::Ok) {
            throw std::runtime_error(std::string("the DCP client did not get everything: ") +
                                     (end ? "its stream ended early" : "time-out"));
        }
        report.dcp = client_->counts();
        client_.reset();
    }
    for (PhaseTimes& phase : phases_.take()) {
        report.phases.emplace_back(phase.name, summarise(std::move(phase.nanos)));
    }
    return report;
}

}  // namespace kv::bench
