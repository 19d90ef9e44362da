#include <gtest/gtest.h>

#include "protocol/extras.h"
#include "server/test_support.h"

namespace kv::server {
namespace {

using protocol::Opcode;
using protocol::Status;
using namespace testing_support;

template <class Number>
std::string bigEndian(Number value) {
    std::string bytes(sizeof value, '\0');
    storeBig(bytes.data(), value);
    return bytes;
}

struct Version {
    uint64_t revision{1};
    uint64_t cas{100};
    uint32_t expiry{0};
    uint32_t flags{0};
    uint32_t options{0};
};

class VersionOps : public testing::Test {
  protected:
    Answer send(Opcode opcode, const Version& version, const std::string& value = "theirs",
                uint64_t expected = 0) {
        std::string extras = bigEndian(version.flags) + bigEndian(version.expiry) +
                             bigEndian(version.revision) + bigEndian(version.cas);
        if (version.options != 0) {
            extras += bigEndian(version.options);
        }
        const bool brings = opcode != Opcode::kDeleteWithMeta;
        return bench_.ask({.opcode = opcode,
                           .key = "key",
                           .value = brings ? value : "",
                           .extras = extras,
                           .cas = expected});
    }
    Answer set(const Version& version, uint64_t expected = 0) {
        return send(Opcode::kSetWithMeta, version, "theirs", expected);
    }
    Answer setHere(const std::string& value = "ours") {
        return bench_.ask({.opcode = Opcode::kSet,
                           .key = "key",
                           .value = value,
                           .extras = std::string(8, '\0')});
    }
    Answer get() { return bench_.ask({.opcode = Opcode::kGet, .key = "key"}); }
    Answer meta() { return bench_.ask({.opcode = Opcode::kGetMeta, .key = "key"}); }

    Bench bench_;
};

TEST_F(VersionOps, KeepsCasAndRevisionOfTheOtherCluster) {
    const auto stored = set({.revision = 7, .cas = 1234, .expiry = 2'000'000'000, .flags = 9});
    EXPECT_EQ(stored.status, Status::kSuccess);
    EXPECT_EQ(stored.cas, 1234U);
    EXPECT_EQ(get().cas, 1234U);
    EXPECT_EQ(get().value, "theirs");
    EXPECT_EQ(meta().extras, bigEndian(uint32_t{0}) + bigEndian(uint32_t{9}) +
                                     bigEndian(uint32_t{2'000'000'000}) + bigEndian(uint64_t{7}));
}

TEST_F(VersionOps, TheNewerVersionWins) {
    const Version here{.revision = 5, .cas = 100, .expiry = 2'000'000'000, .flags = 5};
    EXPECT_EQ(set(here).status, Status::kSuccess);
    EXPECT_EQ(set(here).status, Status::kKeyEexists) << "the same again changes nothing";
    for (Version older : {Version{4, 200, 2'000'000'001, 6}, Version{5, 99, 2'000'000'001, 6},
                          Version{5, 100, 1'999'999'999, 6}, Version{5, 100, 2'000'000'000, 4}}) {
        EXPECT_EQ(set(older).status, Status::kKeyEexists);
    }
    for (Version newer : {Version{5, 100, 2'000'000'000, 6}, Version{5, 100, 2'000'000'001, 0},
                          Version{5, 101, 0, 0}, Version{6, 1, 0, 0}}) {
        EXPECT_EQ(set(newer).status, Status::kSuccess);
    }
}

TEST_F(VersionOps, ADeletionIsAVersionLikeAnyOther) {
    set({.revision = 5});
    EXPECT_EQ(send(Opcode::kDeleteWithMeta, {.revision = 4, .cas = 500}).status,
              Status::kKeyEexists);
    EXPECT_EQ(send(Opcode::kDeleteWithMeta, {.revision = 6, .cas = 7}).status, Status::kSuccess);
    EXPECT_EQ(get().status, Status::kKeyEnoent);
    EXPECT_EQ(meta().extras.substr(0, 4), bigEndian(uint32_t{1}));
    EXPECT_EQ(meta().cas, 7U);
    EXPECT_EQ(set({.revision = 5, .cas = 900}).status, Status::kKeyEexists)
            << "a document that was deleted later stays deleted";
    EXPECT_EQ(set({.revision = 7}).status, Status::kSuccess);
}

TEST_F(VersionOps, OptionsOverruleAndRenew) {
    set({.revision = 5, .cas = 500});
    EXPECT_EQ(set({.revision = 1, .cas = 1, .options = protocol::kSkipConflictResolution}).status,
              Status::kSuccess);
    EXPECT_EQ(get().cas, 1U);
    const auto renewed =
            set({.revision = 1,
                 .cas = 1,
                 .options = protocol::kSkipConflictResolution | protocol::kRegenerateCas});
    EXPECT_GT(renewed.cas, 500U);
    EXPECT_EQ(get().cas, renewed.cas);
}

TEST_F(VersionOps, ADocumentHereMayBeRequired) {
    const auto ours = setHere();
    EXPECT_EQ(set({.revision = 9}, ours.cas + 1).status, Status::kKeyEexists);
    EXPECT_EQ(send(Opcode::kAddWithMeta, {.revision = 9}).status, Status::kKeyEexists);
    EXPECT_EQ(set({.revision = 9}, ours.cas).status, Status::kSuccess);
    send(Opcode::kDeleteWithMeta, {.revision = 10});
    EXPECT_EQ(set({.revision = 11}, 100).status, Status::kKeyEnoent);
    EXPECT_EQ(send(Opcode::kAddWithMeta, {.revision = 11}).status, Status::kSuccess);
}

TEST_F(VersionOps, ALockedDocumentIsItsHolders) {
    bench_.becomeCouchbase(std::string("\0\x07\0\x08", 4));
    setHere();
    const auto locked = bench_.ask({.opcode = Opcode::kGetLocked, .key = "key"});
    EXPECT_EQ(set({.revision = 9}).status, Status::kLocked);
    EXPECT_EQ(set({.revision = 9}, locked.cas).status, Status::kSuccess);
    EXPECT_EQ(setHere().status, Status::kSuccess) << "the lock is open";
}

TEST_F(VersionOps, OurNextCasIsAboveTheirs) {
    const uint64_t future = bench_.now.nanos + 1'000'000'000'000ULL;
    set({.cas = future});
    EXPECT_GT(setHere().cas, future);
}

TEST_F(VersionOps, TheHighestOfTheirsLeavesRoomForOurs) {
    constexpr uint64_t kCas = (uint64_t{1} << 62U) - 1;
    constexpr uint64_t kRevision = (uint64_t{1} << 47U) - 1;
    EXPECT_EQ(set({.revision = kRevision, .cas = kCas}).status, Status::kSuccess);
    EXPECT_EQ(setHere().cas, kCas + 1);
    EXPECT_EQ(meta().extras.substr(12), bigEndian(kRevision + 1));
    EXPECT_EQ(set({.revision = kRevision, .cas = kCas}).status, Status::kKeyEexists)
            << "ours is the newer one";
}

TEST_F(VersionOps, TheTimeOfADeletionIsItsArrival) {
    const uint32_t age = bench_.bucket->config().ephemeralPurgeAgeS;
    const auto later = [this](uint32_t seconds) {
        bench_.now = OpTime::fromNanos(bench_.now.nanos + uint64_t{seconds} * 1'000'000'000);
        return bench_.bucket->purgeTombstones(bench_.now);
    };
    for (const uint32_t theirs : {0U, 1U, 0xffff'ffffU}) {
        const uint32_t came = bench_.now.seconds;
        const Version deletion{.revision = came, .expiry = theirs};
        EXPECT_EQ(send(Opcode::kDeleteWithMeta, deletion).status, Status::kSuccess);
        EXPECT_EQ(meta().extras.substr(8, 4), bigEndian(came));
        EXPECT_EQ(later(age - 1), 0U) << theirs;
        EXPECT_EQ(send(Opcode::kDeleteWithMeta, deletion).status, Status::kKeyEexists)
                << "the same again changes nothing";
        EXPECT_EQ(later(1), 1U) << theirs;
    }
}

TEST_F(VersionOps, ADeletionHasNoDatatype) {
    const std::string extras = bigEndian(uint32_t{0}) + bigEndian(uint32_t{77}) +
                               bigEndian(uint64_t{2}) + bigEndian(uint64_t{100});
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kDeleteWithMeta,
                          .key = "key",
                          .extras = extras,
                          .datatype = protocol::Datatype::kJson})
                      .status,
              Status::kSuccess);
    const auto meta =
            bench_.ask({.opcode = Opcode::kGetMeta, .key = "key", .extras = std::string(1, 2)});
    EXPECT_EQ(meta.extras, bigEndian(uint32_t{1}) + bigEndian(uint32_t{0}) +
                                   bigEndian(bench_.now.seconds) + bigEndian(uint64_t{2}) +
                                   std::string(1, '\0'));
}

TEST_F(VersionOps, NonsenseIsRefused) {
    for (const Version& nonsense :
         {Version{.cas = 0}, Version{.cas = ~uint64_t{0}}, Version{.cas = uint64_t{1} << 62U},
          Version{.revision = uint64_t{1} << 47U}, Version{.options = 0x8000},
          Version{.options = protocol::kRegenerateCas},
          Version{.options = protocol::kIsExpiration}}) {
        EXPECT_EQ(set(nonsense).status, Status::kEinval);
    }
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kSetWithMeta,
                          .key = "key",
                          .extras = std::string(26, 'x')})
                      .status,
              Status::kEinval);
    EXPECT_EQ(get().status, Status::kKeyEnoent);
}

}  // namespace
}  // namespace kv::server
