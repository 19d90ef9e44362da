// front_end_latency: how long a front-end thread's Add, Get, Replace and Delete take, alone or
// beside a background DCP client. One process, one pass over the items: one replicate.
//
// The historic set-up ("Latency [With background DCP]"): one vBucket, 100 000 items of 100 bytes,
// persistence stopped, one front-end thread. Where it differs: the flow control works in every
// build; the hash table has the size that the engine's resizer gives it (--ht-size); and the number
// of vBuckets is the producer's only (--producer-slots), since the historic engine makes a
// vBucket's hash table when it is first used and ours at once. The variants under test (dcp_ready,
// dcp_snapshot_queue, dcp_snapshot_yield) are chosen when this program is built; "build" in its
// JSON reads them back.
//
// Exit: 0 done, 1 an operation failed or the client did not get everything, 2 usage.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <random>

#include "benchmarks/background_dcp_client.h"
#include "benchmarks/latency_options.h"
#include "benchmarks/latency_phases.h"
#include "benchmarks/latency_report.h"
#include "bucket/persistent_bucket.h"
#include "executor/thread_executor.h"

namespace {

using namespace kv;
using namespace kv::bench;

/// Seqnos a run makes: add, replace and delete of every item.
constexpr uint64_t kSeqnosPerItem = 3;

/// A directory that is gone when the run is over.
class ScratchDir {
  public:
    explicit ScratchDir(const std::string& asked)
        : path_(asked.empty()
                        ? std::filesystem::temp_directory_path() /
                                  ("front_end_latency-" + std::to_string(std::random_device{}()))
                        : std::filesystem::path(asked)),
          own_(asked.empty()) {
        std::filesystem::create_directories(path_);
    }
    ScratchDir(const ScratchDir&) = delete;
    ScratchDir& operator=(const ScratchDir&) = delete;
    ~ScratchDir() {
        if (own_) {
            std::error_code ignored;
            std::filesystem::remove_all(path_, ignored);
        }
    }
    [[nodiscard]] std::string path() const { return path_.string(); }

  private:
    std::filesystem::path path_;
    bool own_;
};

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

int run(const LatencyOptions& options) {
    const ScratchDir dir(options.dataDir);
    // No writer: the flusher is told of every mutation, as in the server, and never runs.
    ThreadExecutor executor({.writers = 0, .auxIo = 1, .nonIo = 0});
    const auto bucket = makeBucket(options, executor, dir.path());
    LatencyReport report{options, {}, {}};
    std::vector<PhaseTimes> phases;
    bool complete = true;
    {
        std::unique_ptr<BackgroundDcpClient> client;
        if (options.dcp != DcpMode::None) {
            client = std::make_unique<BackgroundDcpClient>(*bucket, executor, options,
                                                           Seqno{kSeqnosPerItem * options.items});
        }
        phases = runPhases(*bucket, options);
        if (client) {
            const auto end = client->waitForEnd(std::chrono::seconds(options.drainSeconds));
            complete = end == dcp::EndStatus::Ok;
            if (complete) {
                report.dcp = client->counts();
            } else {
                std::fprintf(stderr, "error: the DCP client did not get everything (%s)\n",
                             end ? "its stream ended early" : "time-out");
            }
        }
    }
    if (!complete) {
        return 1;
    }
    for (PhaseTimes& phase : phases) {
        report.phases.emplace_back(phase.name, summarise(std::move(phase.nanos)));
    }
    std::fputs(latencyTable(report).c_str(), stderr);
    std::puts(latencyJson(report).c_str());
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    int exitCode = 0;
    const auto options = parseLatencyOptions(argc, argv, exitCode);
    if (!options) {
        return exitCode;
    }
    try {
        return run(*options);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}
