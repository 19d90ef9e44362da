// A disk that does not answer: the front-end threads keep serving clients that do not need it, and
// release those that are closed while they wait.
#include <condition_variable>

#include "bucket/persistent_bucket.h"
#include "dcp/dcp_node.h"
#include "executor/thread_executor.h"
#include "persistence/faulty_store.h"
#include "persistence/forwarding_store.h"
#include "persistence/rocks_store.h"
#include "persistence/temp_dir.h"
#include "server/replication/dcp_producer_connection.h"
#include "server/server_fixture.h"

namespace kv::server {
namespace {

using protocol::Opcode;
using protocol::Status;
using namespace testing_support;
using namespace std::string_literals;

/// Blocks every thread that passes it while it is closed.
class Gate {
  public:
    void close() {
        const std::lock_guard lock(mutex_);
        closed_ = true;
    }
    void open() {
        const std::lock_guard lock(mutex_);
        closed_ = false;
        changed_.notify_all();
    }
    void pass() {
        std::unique_lock lock(mutex_);
        ++waiting_;
        changed_.notify_all();
        changed_.wait(lock, [this] { return !closed_; });
        --waiting_;
    }
    void waitUntilSomebodyWaits() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return waiting_ != 0; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool closed_{false};
    int waiting_{0};
};

/// A store whose reads from disk wait for a gate. It keeps nothing in memory.
class GatedStore final : public ForwardingStore {
  public:
    GatedStore(std::unique_ptr<KVStore> real, Gate& gate, std::atomic<int>& reads)
        : ForwardingStore(std::move(real)), gate_(gate), reads_(reads) {}

    std::unique_ptr<SeqnoScan> openSeqnoScan(Vbid vbid, Seqno from, Seqno to) override {
        gate_.pass();
        return ForwardingStore::openSeqnoScan(vbid, from, to);
    }

  protected:
    Lookup read(Vbid vbid, std::string_view key, Reads reads, std::string& buffer,
                StoredDoc& doc) override {
        if (reads == Reads::MemoryOnly) {
            return Lookup::NotInMemory;
        }
        ++reads_;
        gate_.pass();
        return ForwardingStore::read(vbid, key, reads, buffer, doc);
    }

  private:
    Gate& gate_;
    std::atomic<int>& reads_;
};

class SlowDisk : public testing::Test {
  protected:
    SlowDisk() {
        PersistenceConfig persistence;
        persistence.dataDir = dir_.path();
        persistence.shards = 1;
        bucket_ = std::make_unique<PersistentBucket>(
                BucketConfig{.vbuckets = 1}, persistence, executor_,
                [this](const std::string& path) {
                    auto store = std::make_unique<GatedStore>(
                            std::make_unique<RocksStore>(path, RocksConfig{}), gate_, reads_);
                    return std::make_unique<FaultyStore>(std::move(store), faults_);
                });
        bucket_->warmUp();
        bucket_->setVBucketState(Vbid{0}, VbState::Active, OpTime::now());
        bucket_->startFlushing();
    }
    ~SlowDisk() override {
        gate_.open();
        bucket_.reset();
    }
    void persist() {
        while (bucket_->itemsToPersist() + bucket_->statesToPersist() != 0) {
            std::this_thread::sleep_for(1ms);
        }
    }

    /// A version of the document "gone" that is older than its deletion.
    static Frame older(std::string value) {
        return {.opcode = Opcode::kSetWithMeta,
                .key = "gone",
                .value = std::move(value),
                .extras = std::string(8, '\0') + "\0\0\0\0\0\0\0\1"s + "\0\0\0\0\0\0\0\1"s};
    }
    static Frame getFrame(std::string key) {
        return {.opcode = Opcode::kGet, .key = std::move(key)};
    }
    /// Returns the answers to requests about "gone", which is deleted, after the disk has
    /// continued. Before that, it checks that others are served on the same thread.
    std::vector<Answer> askOfAStalledDisk(const std::vector<Frame>& requests) {
        Server server(Listener("127.0.0.1", 0), *bucket_, nullptr, {.threads = 1, .settings = {}});
        server.start();
        std::thread loop([&server] { server.run(); });
        std::vector<Answer> answers;
        {
            Client asking(server.port());
            Client other(server.port());
            other.send(setBytes("gone", "v") +
                       Frame{.opcode = Opcode::kDelete, .key = "gone"}.bytes());
            EXPECT_EQ(other.receive(2).size(), 2U);
            persist();
            gate_.close();
            for (const Frame& request : requests) {
                asking.send(request.bytes());
            }
            gate_.waitUntilSomebodyWaits();
            // The same key: no lock of it is held either.
            other.send(getBytes("gone") + setBytes("k", "v") + getBytes("k"));
            const auto served = other.receive(3);
            EXPECT_EQ(served.size(), 3U);
            if (served.size() == 3) {
                EXPECT_EQ(served[0].status, Status::kKeyEnoent);
                EXPECT_EQ(served[2].value, "v");
            }
            gate_.open();
            answers = asking.receive(requests.size());
        }
        server.requestStop();
        loop.join();
        server.stop();
        return answers;
    }

    TempDir dir_;
    Gate gate_;
    std::atomic<int> reads_{0};  ///< from disk
    const std::shared_ptr<StoreFaults> faults_{std::make_shared<StoreFaults>()};
    ThreadExecutor executor_{{.writers = 1, .auxIo = 1, .nonIo = 1}};
    std::unique_ptr<PersistentBucket> bucket_;
};

TEST_F(SlowDisk, OthersOfTheThreadAreServedWhileATombstoneIsRead) {
    const auto answers = askOfAStalledDisk(
            {{.opcode = Opcode::kGetMeta, .key = "gone"}, older("older"), getFrame("gone")});
    ASSERT_EQ(answers.size(), 3U);
    EXPECT_EQ(answers[0].status, Status::kSuccess);
    EXPECT_EQ(answers[0].extras.substr(0, 4), "\0\0\0\1"s) << "it is deleted";
    EXPECT_EQ(answers[1].status, Status::kKeyEexists) << "the deletion is newer";
    EXPECT_EQ(answers[2].status, Status::kKeyEnoent);
    EXPECT_EQ(reads_, 2) << "the front-end thread read nothing again";
}

TEST_F(SlowDisk, OthersOfTheThreadAreServedWhileALargeVersionWaits) {
    const auto answers = askOfAStalledDisk({older(std::string(300'000, 'v'))});
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers[0].status, Status::kKeyEexists) << "the deletion is newer";
    EXPECT_EQ(reads_, 1);
}

TEST_F(SlowDisk, AChangeFromActiveIsAnsweredWhenItIsStored) {
    persist();
    Server server(Listener("127.0.0.1", 0), *bucket_, nullptr, {.threads = 1, .settings = {}});
    server.start();
    std::thread loop([&server] { server.run(); });
    {
        Client client(server.port());
        const auto answerTo = [&client](const Frame& frame) {
            client.send(frame.bytes());
            const auto answers = client.receive(1);
            return answers.empty() ? Answer{} : answers.front();
        };
        const auto change = [&](std::string state) {
            return answerTo({.opcode = Opcode::kSetVBucket, .extras = std::move(state)}).status;
        };
        constexpr int kAlways = 1'000'000;
        for (const std::string state : {"\x02", "\x04"}) {
            ASSERT_EQ(change("\x01"), Status::kSuccess);
            persist();
            faults_->failStates = kAlways;
            EXPECT_EQ(change("\x01"), Status::kSuccess) << "this takes nothing from another node";
            EXPECT_EQ(change(state), Status::kEtmpfail);
            EXPECT_EQ(answerTo({.opcode = Opcode::kGetVBucket}).value, "\0\0\0"s + state);
            EXPECT_EQ(change(state), Status::kEtmpfail) << "it is in force, but still not stored";
            faults_->failStates = 0;
            EXPECT_EQ(change(state), Status::kSuccess);
            const auto stored = bucket_->storeOf(Vbid{0}).loadVbState(Vbid{0});
            ASSERT_TRUE(stored);
            EXPECT_EQ(stored->state, state[0]);
        }
    }
    server.requestStop();
    loop.join();
    server.stop();
}

TEST_F(SlowDisk, AConnectionEndsWithoutWaitingForItsBackfill) {
    {
        const BucketMemoryGuard guard(bucket_->memory());
        ASSERT_TRUE(bucket_->store(Vbid{0}, "k", StoreMode::Set, "v", {}, OpTime::now()).ok());
    }
    persist();
    dcp::DcpNode dcp(*bucket_, executor_, 0ns);
    gate_.close();
    auto connection = std::make_unique<DcpProducerConnection>(
            DcpProducerConnection::Client{"client"}, dcp, std::make_shared<Waker>(), 0);
    const auto opened = connection->openStream(
            Vbid{0}, 1, {.flags = protocol::dcp_stream::kDiskOnly, .end = UINT64_MAX});
    ASSERT_TRUE(std::holds_alternative<std::vector<FailoverEntry>>(opened));
    Output out;
    connection->produce(out, 1 << 20);
    gate_.waitUntilSomebodyWaits();
    connection.reset();  // hangs here if it waits for the disk
    gate_.open();
    while (!dcp.producers().empty()) {
        std::this_thread::sleep_for(1ms);
    }
}

}  // namespace
}  // namespace kv::server
