// Follows a document from a producer over frames of the wire to a replica, its restart and its
// promotion, for every kind of bucket, residency (values leave a persistent bucket's memory, keys
// never do), value, and source (the checkpoints or a backfill).
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "bucket/persistent_bucket.h"
#include "dcp/consumer.h"
#include "dcp/dcp_node.h"
#include "executor/fake_executor.h"
#include "persistence/temp_dir.h"
#include "protocol/frame.h"
#include "server/replication/dcp_codec.h"

namespace kv::server {
namespace {

using namespace std::chrono_literals;

constexpr Vbid kVb{1};
constexpr uint32_t kOpaque = 7;

enum class Kind : uint8_t { Ephemeral, Persistent, ValuesEvicted };
enum class From : uint8_t { Memory, Backfill };

/// A bucket of one kind that can be restarted.
class Node {
  public:
    Node(Kind kind, VbState state) : kind_(kind) {
        open();
        bucket_->setVBucketState(kVb, state, OpTime::now());
    }
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;
    ~Node() { bucket_.reset(); }

    Bucket& bucket() { return *bucket_; }
    VBucket& vb() { return bucket_->vbucket(kVb); }
    FakeExecutor& executor() { return executor_; }

    /// Waits until everything is on disk, if there is a disk.
    void settle() {
        executor_.advance(1s);
        ASSERT_EQ(bucket_->itemsToPersist(), 0U);
        if (kind_ == Kind::ValuesEvicted) {
            const BucketMemoryGuard guard(bucket_->memory());
            HashTable& table = vb().hashTable();
            table.visit({}, [&](const HashIndex::Guard& guardOfLine, StoredValue& value) {
                table.update(guardOfLine, value, [](StoredValue& target) { target.evictValue(); });
                return true;
            });
        }
    }
    /// An ephemeral bucket has no disk to restart from.
    void restart() {
        if (kind_ != Kind::Ephemeral) {
            bucket_.reset();
            open();
        }
    }

  private:
    void open() {
        BucketConfig config;
        config.vbuckets = 2;
        if (kind_ == Kind::Ephemeral) {
            bucket_ = Bucket::createEphemeral(config);
            return;
        }
        PersistenceConfig persistence;
        persistence.dataDir = directory_.path();
        persistence.shards = 1;
        persistence.rocks = {.writeBufferBytes = 1 << 20, .blockCacheBytes = 1 << 20};
        auto bucket = std::make_unique<PersistentBucket>(config, persistence, executor_);
        bucket->warmUp();
        bucket->startFlushing();
        bucket_ = std::move(bucket);
    }

    const Kind kind_;
    const TempDir directory_;
    FakeExecutor executor_;
    std::unique_ptr<Bucket> bucket_;
};

/// Everything that can be read of a document.
struct Facts {
    OpStatus status{};
    bool deleted{false};
    std::string value;
    uint32_t flags{0};
    uint32_t exptime{0};
    uint8_t datatype{0};
    Cas cas;
    Seqno seqno;
    uint64_t revision{0};
    bool operator==(const Facts&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Facts& facts) {
    return out << toString(facts.status) << (facts.deleted ? " deleted" : "") << " '" << facts.value
               << "' flags " << facts.flags << " expiry " << facts.exptime << " datatype "
               << int{facts.datatype} << " cas " << facts.cas.get() << " seqno "
               << facts.seqno.get() << " revision " << facts.revision;
}

class DcpKinds : public testing::TestWithParam<std::tuple<Kind, uint8_t, From>> {
  protected:
    static constexpr const char* kKeys[] = {"document", "empty",   "overwritten", "counter",
                                            "removed",  "expired", "foreign",     "never"};

    void write() {
        const BucketMemoryGuard guard(source_.bucket().memory());
        const uint8_t datatype = std::get<1>(GetParam());
        const std::string value = datatype != 0 ? R"({"pn":"12"})" : std::string("\0\xff raw", 6);
        const auto set = [&](std::string_view key, std::string_view bytes, uint32_t exptime = 0) {
            const OpTime then = OpTime::fromNanos(now_.nanos - 10'000'000'000);
            ASSERT_TRUE(
                    source_.bucket()
                            .store(kVb, key, StoreMode::Set, bytes,
                                   {.flags = 0x0200'0006, .exptime = exptime, .datatype = datatype},
                                   then)
                            .ok());
        };
        set("document", value, now_.seconds + 1000);
        set("empty", "");
        set("overwritten", "old");
        set("overwritten", value);
        set("removed", value);
        set("expired", value, now_.seconds - 1);
        Bucket& bucket = source_.bucket();
        ASSERT_TRUE(
                bucket.arithmetic(kVb, "counter", {.initial = 41, .createIfMissing = true}, now_)
                        .ok());
        ASSERT_TRUE(bucket.remove(kVb, "removed", {}, now_).ok());
        ASSERT_EQ(bucket.expirePass(now_), 1U);
        ASSERT_TRUE(bucket.storeVersion(kVb, "foreign", "",
                                        {.deleted = true,
                                         .revSeqno = 40,
                                         .cas = Cas{50},
                                         .exptime = 1'600'000'000},
                                        now_)
                            .ok());
    }

    /// Values are compared if they are in memory.
    std::map<std::string, Facts> factsOf(Node& node) const {
        const BucketMemoryGuard guard(node.bucket().memory());
        std::map<std::string, Facts> all;
        for (const std::string key : kKeys) {
            const Bucket::Stored stored = node.bucket().readStored(kVb, key);
            const OpResult meta = node.bucket().getMeta(kVb, key, now_, &stored);
            const OpResult got = node.bucket().get(kVb, key, now_);
            all[key] = {meta.status, meta.deleted, std::string(got.value.view()),
                        meta.flags,  meta.exptime, meta.datatype,
                        meta.cas,    meta.seqno,   meta.number};
        }
        return all;
    }

    /// Streams until the replica has everything that the source has.
    void stream(dcp::BucketProducer& producer, dcp::Consumer& consumer) {
        for (int idle = 0; replica_.vb().highSeqno() < source_.vb().highSeqno();) {
            Output out;
            {
                const BucketMemoryGuard guard(source_.bucket().memory());
                while (const auto message = producer.producer().step()) {
                    appendDcpMessage(out, *message, source_.bucket().memory());
                }
            }
            idle = out.empty() ? idle + 1 : 0;
            ASSERT_LT(idle, 100) << "the stream makes no progress";
            source_.executor().advance(1ms);
            std::vector<iovec> pieces(out.size() + 1);
            pieces.resize(out.gather(pieces));
            std::string bytes;
            for (const iovec& piece : pieces) {
                bytes.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
            }
            const BucketMemoryGuard guard(replica_.bucket().memory());
            for (protocol::Bytes rest = protocol::asBytes(bytes); !rest.empty();) {
                const auto parsed = protocol::parseFrame(rest);
                ASSERT_EQ(parsed.outcome, protocol::ParseOutcome::kFrame);
                ASSERT_EQ(consumer.receive(toMessage(parsed.frame), now_), dcp::Applied::Ok);
                rest = rest.subspan(parsed.frame.size());
            }
        }
    }

    const Kind kind_{std::get<0>(GetParam())};
    Node source_{kind_, VbState::Active};
    Node replica_{kind_, VbState::Replica};
    const OpTime now_ = OpTime::now();
};

TEST_P(DcpKinds, ADocumentIsTheSameOnTheReplicaAndAfterItsRestart) {
    const From from = std::get<2>(GetParam());
    std::map<std::string, Facts> written;
    const auto writeAndLook = [&] {
        write();
        written = factsOf(source_);
    };
    if (from == From::Backfill) {
        writeAndLook();
        source_.settle();
        source_.restart();
        source_.settle();
    }
    {
        dcp::DcpNode dcp(source_.bucket(), source_.executor(), 0ns);
        dcp::Consumer consumer(replica_.bucket());
        std::shared_ptr<dcp::BucketProducer> producer;
        {
            const BucketMemoryGuard guard(source_.bucket().memory());
            producer = dcp.makeProducer("test", {}, [] {});
            ASSERT_TRUE(producer->open({.vbid = kVb,
                                        .opaque = kOpaque,
                                        .format = {.deleteTimes = true, .expirations = true}},
                                       dcp::BucketProducer::Seen(source_.vb())));
        }
        {
            const BucketMemoryGuard guard(replica_.bucket().memory());
            consumer.addStream(kVb, kOpaque);
        }
        if (from == From::Memory) {
            writeAndLook();
            source_.settle();
        }
        stream(*producer, consumer);
        const auto stats = producer->producer().findStream(kVb)->stats();
        EXPECT_EQ(stats.backfilled != 0, from == From::Backfill);
        EXPECT_EQ(stats.fromMemory != 0, from == From::Memory);
        {
            const BucketMemoryGuard guard(replica_.bucket().memory());
            consumer.closeStream(kVb);
        }
        const BucketMemoryGuard guard(source_.bucket().memory());
        producer.reset();
    }
    replica_.executor().advance(1s);
    replica_.restart();
    replica_.bucket().setVBucketState(kVb, VbState::Active, OpTime::now());
    const auto arrived = factsOf(replica_);
    for (const auto& [key, facts] : written) {
        Facts expected = facts;
        if (expected.deleted) {
            expected.flags = 0;  // DCP carries no flags for deletions
        }
        Facts found = arrived.at(key);
        if (found.deleted) {
            found.flags = 0;
        }
        EXPECT_EQ(found, expected) << key;
    }
    EXPECT_EQ(written.at("document").datatype, std::get<1>(GetParam()));
    EXPECT_EQ(written.at("counter").datatype, 1U);
    EXPECT_TRUE(written.at("expired").deleted);
    EXPECT_EQ(written.at("foreign").revision, 40U);
    EXPECT_EQ(written.at("never").status, OpStatus::KeyNotFound);
}

std::string nameOf(const testing::TestParamInfo<DcpKinds::ParamType>& info) {
    constexpr const char* kKinds[] = {"Ephemeral", "Persistent", "ValuesEvicted"};
    const auto& [kind, datatype, from] = info.param;
    return std::string(kKinds[static_cast<size_t>(kind)]) + (datatype != 0 ? "Json" : "Raw") +
           (from == From::Memory ? "Memory" : "Backfill");
}
INSTANTIATE_TEST_SUITE_P(Every, DcpKinds,
                         testing::Combine(testing::Values(Kind::Ephemeral, Kind::Persistent,
                                                          Kind::ValuesEvicted),
                                          testing::Values(uint8_t{0}, uint8_t{1}),
                                          testing::Values(From::Memory, From::Backfill)),
                         nameOf);

TEST(DcpCodec, LargeValuesAreSharedAndArriveAsTheyAre) {
    BucketMemory memory(size_t{1} << 30);
    const BucketMemoryGuard guard(memory);
    for (const size_t size : {Output::kShareFrom - 1, Output::kShareFrom, 3 * Output::kShareFrom}) {
        const std::string value(size, 'v');
        auto message = std::make_optional(dcp::Message::document(
                kOpaque, Item::create(kVb, ItemOp::Mutation, "key",
                                      {.cas = Cas{5}, .seqno = Seqno{1}}, Blob::create(value))));
        const size_t bytes = message->wireSize();
        Output out;
        appendDcpMessage(out, *message, memory);
        message.reset();  // as after a step of the producer
        EXPECT_EQ(out.size(), bytes);
        EXPECT_EQ(out.pinned(), size < Output::kShareFrom ? 0 : size);
        std::vector<iovec> pieces(2);
        pieces.resize(out.gather(pieces));
        std::string sent;
        for (const iovec& piece : pieces) {
            sent.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
        }
        const auto parsed = protocol::parseFrame(protocol::asBytes(sent));
        ASSERT_EQ(parsed.outcome, protocol::ParseOutcome::kFrame);
        const dcp::Message received = toMessage(parsed.frame);
        EXPECT_EQ(received.item->key(), "key");
        EXPECT_EQ(received.item->cas(), Cas{5});
        EXPECT_TRUE(received.item->value() == value);
    }
}

}  // namespace
}  // namespace kv::server
