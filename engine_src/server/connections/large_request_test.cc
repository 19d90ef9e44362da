#include "server/connections/large_request.h"

#include <gtest/gtest.h>

#include "server/commands/op_target.h"
#include "server/test_support.h"

namespace kv::server {
namespace {

using protocol::Opcode;
using protocol::Status;
using namespace testing_support;
using namespace std::string_literals;

constexpr size_t kSize = 100'000;

std::string value(char fill = 'v') {
    return std::string(kSize, fill);
}

Frame storeFrame(Opcode opcode, std::string key = "k", char fill = 'v') {
    return {.opcode = opcode,
            .key = std::move(key),
            .value = value(fill),
            .extras = std::string(8, '\0')};
}

/// Sends the frame in two pieces and returns the answer.
Answer askInTwo(Bench& bench, const Frame& frame, size_t first = 60'000) {
    const auto bytes = frame.bytes();
    bench.feed(std::string_view(bytes).substr(0, first));
    bench.feed(std::string_view(bytes).substr(first));
    auto found = bench.answers();
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? Answer{} : found.front();
}

/// A client whose large values are read into their Blobs.
class LargeRequestTest : public testing::Test {
  protected:
    LargeRequestTest() { bench_.largeFrom = 64 << 10; }
    /// Returns whether the frame is read that way when its first `first` bytes have arrived.
    bool starts(const Frame& frame, size_t first = 60'000) { return starts(bench_, frame, first); }
    static bool starts(const Bench& bench, const Frame& frame, size_t first) {
        const auto bytes = frame.bytes();
        return static_cast<bool>(
                LargeRequest::start(bench.server, bench.session,
                                    protocol::asBytes(std::string_view(bytes).substr(0, first))));
    }

    Bench bench_;
};

TEST_F(LargeRequestTest, TheValueIsTheBlobThatWasReadInto) {
    const auto bytes = storeFrame(Opcode::kSet).bytes();
    bench_.feed(std::string_view(bytes).substr(0, 60'000));
    ASSERT_TRUE(bench_.large);
    EXPECT_EQ(bench_.large.missing(), bytes.size() - 60'000);
    const auto* end = bench_.large.room() + bench_.large.missing();
    bench_.feed(std::string_view(bytes).substr(60'000));
    EXPECT_EQ(bench_.answers().at(0).status, Status::kSuccess);
    const BucketMemoryGuard guard(bench_.bucket->memory());
    const auto stored = bench_.bucket->get(vbucketOfKey("k", 4), "k", OpTime::now());
    EXPECT_EQ(reinterpret_cast<const uint8_t*>(stored.value.view().data() + kSize), end);
    EXPECT_TRUE(stored.value.view() == value());
}

TEST_F(LargeRequestTest, IsAnsweredLikeAnyOther) {
    Bench plain;
    using enum Opcode;
    for (const auto& [opcode, key] : std::vector<std::pair<Opcode, std::string>>{
                 {kReplace, "k"}, {kSet, "k"}, {kAdd, "k"}, {kAdd, "n"}, {kReplace, "n"}}) {
        const auto frame = storeFrame(opcode, key);
        EXPECT_TRUE(starts(frame)) << toString(opcode);
        EXPECT_EQ(askInTwo(bench_, frame).status, askInTwo(plain, frame).status)
                << toString(opcode) << ' ' << key;
    }
    auto wrongCas = storeFrame(kSet);
    wrongCas.cas = 5;
    EXPECT_EQ(askInTwo(bench_, wrongCas).status, Status::kKeyEexists);
    auto addWithCas = storeFrame(kAdd, "new");
    addWithCas.cas = 5;
    EXPECT_EQ(askInTwo(bench_, addWithCas).status, Status::kEinval);
    auto wrongExtras = storeFrame(kSet);
    wrongExtras.extras = "abc";
    EXPECT_EQ(askInTwo(bench_, wrongExtras).status, Status::kEinval);
    auto flexible = storeFrame(kSet);
    flexible.magic = protocol::Magic::kAltClientRequest;
    flexible.framing = "\x50"s;  // preserve the expiry time
    EXPECT_TRUE(starts(flexible));
    EXPECT_EQ(askInTwo(bench_, flexible).status, Status::kSuccess);
    for (const char* key : {"k", "n"}) {
        bench_.feed(getBytes(key));
        EXPECT_TRUE(bench_.answers().at(0).value == value()) << key;
    }
}

TEST_F(LargeRequestTest, TheBucketGetsItsMemoryBackInEveryCase) {
    auto& memory = bench_.bucket->memory();
    ASSERT_EQ(askInTwo(bench_, storeFrame(Opcode::kSet)).status, Status::kSuccess);
    // Makes the allocations that only the first request needs.
    askInTwo(bench_, storeFrame(Opcode::kAdd));
    const size_t before = memory.precise();
    EXPECT_EQ(askInTwo(bench_, storeFrame(Opcode::kAdd)).status, Status::kKeyEexists);
    EXPECT_EQ(memory.precise(), before) << "refused";
    const auto bytes = storeFrame(Opcode::kSet).bytes();
    bench_.feed(std::string_view(bytes).substr(0, 60'000));
    EXPECT_GE(memory.precise(), before + kSize) << "charged while it comes";
    EXPECT_GE(bench_.large.held(), kSize);
    bench_.large = {};
    EXPECT_EQ(memory.precise(), before) << "dropped in mid-value";
}

TEST_F(LargeRequestTest, OnlyRequestsThatMayBeStoredBegin) {
    EXPECT_FALSE(starts(storeFrame(Opcode::kSet), 20)) << "no whole header";
    EXPECT_FALSE(starts(storeFrame(Opcode::kSet), 32)) << "no key";
    EXPECT_TRUE(starts(storeFrame(Opcode::kSet), 33)) << "no value yet";
    EXPECT_FALSE(starts(storeFrame(Opcode::kSet), 1 << 20)) << "complete";
    EXPECT_FALSE(starts({.opcode = Opcode::kAppend, .key = "k", .value = value()}));
    EXPECT_FALSE(starts(storeFrame(Opcode::kSetWithMeta))) << "it may wait for the disk";
    EXPECT_FALSE(starts(storeFrame(static_cast<Opcode>(0x77))));
    auto answer = storeFrame(Opcode::kSet);
    answer.magic = protocol::Magic::kServerResponse;
    EXPECT_FALSE(starts(answer));

    const UserStore users(std::map<std::string, User>{{"reader", {"p", Role::ReadOnly}},
                                                      {"writer", {"p", Role::ReadWrite}}});
    Bench known(&users);
    EXPECT_FALSE(starts(known, storeFrame(Opcode::kSet), 60'000)) << "before login";
    for (const auto& [name, allowed] : {std::pair{"reader"s, false}, {"writer"s, true}}) {
        known.ask({.opcode = Opcode::kSaslAuth, .key = "PLAIN", .value = "\0"s + name + "\0p"s});
        EXPECT_EQ(starts(known, storeFrame(Opcode::kSet), 60'000), allowed) << name;
    }
}

TEST_F(LargeRequestTest, MemoryDependsOnTheReceivedBytes) {
    auto frame = storeFrame(Opcode::kSet);
    frame.value.resize(1 << 20);
    EXPECT_TRUE(starts(frame, 60));
    frame.value.resize((1 << 20) + 1);
    EXPECT_FALSE(starts(frame, 1 << 20)) << "too long for a plain memcached client";
    bench_.becomeCouchbase();
    EXPECT_FALSE(starts(frame, 60));
    EXPECT_TRUE(starts(frame, (1 << 19) + 100));
    frame.value.resize(20 << 20);
    EXPECT_FALSE(starts(frame, 10 << 20));
    EXPECT_TRUE(starts(frame, (10 << 20) + 100));
    frame.value.resize((20 << 20) + 1);
    EXPECT_FALSE(starts(frame, 15 << 20));
}

TEST_F(LargeRequestTest, IncompleteRequestsLeaveRoomForOthers) {
    bench_.bucket->memory().setQuota(bench_.bucket->memory().precise() + 5 * kSize);
    std::vector<LargeRequest> halves;
    const auto bytes = storeFrame(Opcode::kSet).bytes();
    const auto half = protocol::asBytes(std::string_view(bytes).substr(0, 60'000));
    while (auto next = LargeRequest::start(bench_.server, bench_.session, half)) {
        halves.push_back(std::move(next));
        ASSERT_LT(halves.size(), 6U);
    }
    EXPECT_LT(bench_.bucket->memory().precise(), bench_.bucket->highWatermarkBytes() + kSize);
    EXPECT_EQ(bench_.ask({.opcode = Opcode::kSet,
                          .key = "small",
                          .value = "v",
                          .extras = std::string(8, '\0')})
                      .status,
              Status::kSuccess);
}

}  // namespace
}  // namespace kv::server
