// Two nodes in this process with all the threads of real ones: front ends, flushers, checkpoint
// removal, DCP producers, a replicator. It is a test for TSan; at the end both nodes have the same
// documents.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>
#include <tuple>

#include "dcp/dcp_node.h"
#include "executor/thread_executor.h"
#include "persistence/temp_dir.h"
#include "server/engine_bucket.h"
#include "server/replication/replicator.h"
#include "server/server.h"
#include "server/stats/figures.h"

namespace kv::server {
namespace {

using namespace std::chrono_literals;

constexpr uint16_t kVBuckets = 4;
constexpr int kKeys = 60;

CommandLine lineOf(const TempDir& dir, BucketType type, uint16_t source) {
    CommandLine line;
    line.bucketType = type;
    line.dataDir = dir.root();
    line.params.bucket.vbuckets = kVBuckets;
    line.params.bucket.htSize = 3;
    line.params.bucket.htLocks = 3;
    line.params.bucket.checkpoint.maxItems = 20;
    line.params.bucket.checkpoint.period = 1ms;
    line.params.flusher.interval = 0ms;
    if (source != 0) {
        line.replicateFrom.host = "127.0.0.1";
        line.replicateFrom.port = source;
    }
    return line;
}

/// A node assembled as main() does it.
class Node {
  public:
    explicit Node(BucketType type, uint16_t source = 0)
        : line_(lineOf(dir_, type, source)),
          bucket_(line_, executor_),
          dcp_(bucket_.get(), executor_, 0us, line_.params.backfills),
          server_(Listener("127.0.0.1", 0), bucket_.get(), nullptr,
                  {.threads = 2, .settings = {}}) {
        bucket_.startBackground({.expiry = 5ms,
                                 .hashResize = 5ms,
                                 .tombstonePurge = 5ms,
                                 .checkpointRemoval = 1ms,
                                 .checkpointMemoryWatch = 1ms});
        bucket_.addStats(server_.context());
        server_.context().dcp = &dcp_;
        server_.start();
        loop_ = std::thread([this] { server_.run(); });
    }
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;
    ~Node() {
        leaveSource();
        server_.requestStop();
        loop_.join();
        server_.stop();
        EXPECT_TRUE(bucket_.persistAll());
    }

    Bucket& bucket() { return bucket_.get(); }
    dcp::DcpNode& dcp() { return dcp_; }
    [[nodiscard]] uint16_t port() const { return server_.port(); }
    /// Leaves the present source first: two replicators would apply the same mutations at a time.
    void follow() {
        leaveSource();
        replicator_ = std::make_unique<Replicator>(bucket(), executor_, line_.replicateFrom);
    }
    void leaveSource() { replicator_.reset(); }
    [[nodiscard]] KeyValues replicationStats() const { return replicator_->stats(); }

    /// Returns CAS and value of every document.
    std::map<std::string, std::tuple<uint64_t, std::string>> documents() {
        const BucketMemoryGuard guard(bucket().memory());
        std::map<std::string, std::tuple<uint64_t, std::string>> found;
        for (uint16_t vb = 0; vb < kVBuckets; ++vb) {
            bucket().vbucket(Vbid{vb}).hashTable().visit({}, [&](const auto&, StoredValue& stored) {
                if (!stored.isDeleted()) {
                    found[std::to_string(vb) + " " + std::string(stored.key())] = {
                            stored.cas().get(), std::string(stored.value().view())};
                }
                return true;
            });
        }
        return found;
    }

  private:
    const TempDir dir_;
    const CommandLine line_;
    ThreadExecutor executor_{{.writers = 2, .auxIo = 1, .nonIo = 1}};
    EngineBucket bucket_;
    dcp::DcpNode dcp_;
    Server server_;
    std::thread loop_;
    std::unique_ptr<Replicator> replicator_;
};

void writeMany(Bucket& bucket, unsigned seed, int operations) {
    const BucketMemoryGuard guard(bucket.memory());
    for (int i = 0; i < operations; ++i) {
        seed = seed * 1103515245U + 12345U;
        const Vbid vbid{static_cast<uint16_t>((seed >> 8U) % kVBuckets)};
        const std::string key = std::to_string((seed >> 10U) % kKeys);
        const OpTime now = OpTime::now();
        switch ((seed >> 24U) % 8) {
            case 0:
                bucket.remove(vbid, key, {}, now);
                break;
            case 1:
                bucket.concat(vbid, key, Concat::Append, "+", {}, now);
                break;
            case 2:
                bucket.store(vbid, key, StoreMode::Set, "old", {.exptime = now.seconds - 1}, now);
                break;
            default:
                bucket.store(vbid, key, StoreMode::Set, std::to_string(seed), {}, now);
        }
    }
}

class NodeStress : public testing::TestWithParam<BucketType> {};

TEST_P(NodeStress, AReplicaThatComesAndGoesHasTheSameDocumentsInTheEnd) {
    Node source(GetParam());
    Node replica(GetParam(), source.port());
    std::atomic<int> writing{3};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 3; ++t) {
        threads.emplace_back([&, t] {
            writeMany(source.bucket(), t + 1, 3000);
            --writing;
        });
    }
    threads.emplace_back([&] {
        while (writing != 0) {
            static_cast<void>(dcpStats(source.dcp()));
            static_cast<void>(source.bucket().stats());
            static_cast<void>(replica.bucket().stats());
            std::this_thread::sleep_for(1ms);
        }
    });
    do {
        replica.follow();
        std::this_thread::sleep_for(20ms);
        static_cast<void>(replica.replicationStats());
    } while (writing != 0);
    for (auto& thread : threads) {
        thread.join();
    }
    replica.follow();
    const auto isLevel = [&] {
        for (uint16_t vb = 0; vb < kVBuckets; ++vb) {
            if (source.bucket().vbucket(Vbid{vb}).highSeqno() !=
                replica.bucket().vbucket(Vbid{vb}).highSeqno()) {
                return false;
            }
        }
        return true;
    };
    // Expired documents keep being deleted, so the nodes must be equal for the duration of the
    // comparison.
    const auto patience = std::chrono::steady_clock::now() + 5min;
    while (!isLevel() || source.documents() != replica.documents()) {
        ASSERT_LT(std::chrono::steady_clock::now(), patience);
        std::this_thread::sleep_for(5ms);
    }
    EXPECT_FALSE(source.documents().empty());
}

INSTANTIATE_TEST_SUITE_P(BothTypes, NodeStress,
                         testing::Values(BucketType::Persistent, BucketType::Ephemeral),
                         [](const auto& type) { return std::string(toString(type.param)); });

}  // namespace
}  // namespace kv::server
