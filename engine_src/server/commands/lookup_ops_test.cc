#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "protocol/extras.h"
#include "server/test_support.h"

namespace kv::server {
namespace {

using protocol::Opcode;
using protocol::Status;
using namespace testing_support;
using Json = nlohmann::json;

constexpr uint8_t kXattr = 0x04;

std::string u16(uint16_t value) {
    return {static_cast<char>(value >> 8U), static_cast<char>(value & 0xffU)};
}

std::string path(Opcode opcode, const std::string& path, uint8_t flags = kXattr) {
    return std::string{static_cast<char>(opcode), static_cast<char>(flags)} +
           u16(static_cast<uint16_t>(path.size())) + path;
}

const std::string kWholeDocument = path(Opcode::kGet, "", 0);

struct PathResult {
    Status status;
    std::string value;
};

std::vector<PathResult> resultsOf(const Answer& answer) {
    std::vector<PathResult> results;
    protocol::Bytes rest = protocol::asBytes(answer.value);
    while (rest.size() >= 6) {
        const auto size = loadBig<uint32_t>(rest.data() + 2);
        results.push_back({static_cast<Status>(loadBig<uint16_t>(rest.data())),
                           std::string(protocol::asText(rest.subspan(6, size)))});
        rest = rest.subspan(6 + size);
    }
    EXPECT_TRUE(rest.empty());
    return results;
}

class LookupOps : public testing::Test {
  protected:
    Answer set(const std::string& value, uint32_t expiry) {
        const auto flags = protocol::encodeU32(0xabcd);
        const auto seconds = protocol::encodeU32(expiry);
        return bench_.ask({.opcode = Opcode::kSet,
                           .key = "key",
                           .value = value,
                           .extras = std::string(flags.begin(), flags.end()) +
                                     std::string(seconds.begin(), seconds.end())});
    }
    Answer lookUp(const std::string& paths, const std::string& extras = "") {
        return bench_.ask({.opcode = Opcode::kSubdocMultiLookup,
                           .key = "key",
                           .value = paths,
                           .extras = extras});
    }
    Json virtualAttribute(const std::string& name) {
        const auto results = resultsOf(lookUp(path(Opcode::kSubdocGet, name)));
        return results.size() == 1 ? Json::parse(results[0].value) : Json();
    }

    Bench bench_;
};

TEST_F(LookupOps, TheExpiryTimeAndTheDocumentComeTogether) {
    const uint32_t end = bench_.now.seconds + 40 * 86'400;  // absolute
    const auto stored = set("value", end);
    const auto answer = lookUp(path(Opcode::kSubdocGet, "$document.exptime") + kWholeDocument);
    EXPECT_EQ(answer.status, Status::kSuccess);
    EXPECT_EQ(answer.cas, stored.cas);
    const auto results = resultsOf(answer);
    ASSERT_EQ(results.size(), 2U);
    EXPECT_EQ(results[0].value, std::to_string(end));
    EXPECT_EQ(results[1].value, "value");
}

TEST_F(LookupOps, DocumentTellsWhatOtherCommandsTell) {
    set("old", 0);
    const auto stored = set("value", 0);
    const Json about = virtualAttribute("$document");
    EXPECT_EQ(std::stoull(about["CAS"].get<std::string>(), nullptr, 16), stored.cas);
    EXPECT_EQ(about["flags"], 0xabcd);
    EXPECT_EQ(about["exptime"], 0);
    EXPECT_EQ(about["value_bytes"], 5);
    EXPECT_EQ(about["deleted"], false);
    EXPECT_EQ(about["revid"], "2");
    EXPECT_EQ(std::stoull(about["seqno"].get<std::string>(), nullptr, 16), 2U);
    EXPECT_EQ(about["last_modified"], std::to_string(stored.cas / 1'000'000'000));
    EXPECT_EQ(about["datatype"], Json::array({"raw"}));
    const auto meta = bench_.ask({.opcode = Opcode::kGetMeta, .key = "key"});
    EXPECT_EQ(meta.extras.substr(12), (std::string{'\0', '\0', '\0', '\0', '\0', '\0', '\0', 2}));
}

TEST_F(LookupOps, OtherVirtualAttributes) {
    set("value", 0);
    EXPECT_EQ(virtualAttribute("$XTOC"), Json::array());
    EXPECT_EQ(virtualAttribute("$vbucket.HLC.now"), std::to_string(bench_.now.seconds));
    EXPECT_EQ(lookUp(path(Opcode::kSubdocGet, "$unknown")).status,
              Status::kSubdocXattrUnknownVattr);
}

TEST_F(LookupOps, ALockedDocumentHidesItsCas) {
    set("value", 0);
    bench_.ask({.opcode = Opcode::kGetLocked, .key = "key"});
    const Json about = virtualAttribute("$document");
    EXPECT_EQ(about["CAS"], "0xffffffffffffffff");
    EXPECT_FALSE(about.contains("last_modified"));
}

TEST_F(LookupOps, EachPathHasAStatus) {
    set("value", 0);
    const auto answer = lookUp(path(Opcode::kSubdocExists, "$document.flags") +
                               path(Opcode::kSubdocGet, "$document.none") +
                               path(Opcode::kSubdocGet, "mine.attribute") +
                               path(Opcode::kSubdocGetCount, "$document.datatype") +
                               path(Opcode::kSubdocGet, "$document.datatype[0]") +
                               path(Opcode::kSubdocGet, "$document.datatype[7]") +
                               path(Opcode::kSubdocGet, "$document.flags[0]") +
                               path(Opcode::kSubdocGet, "$document.flags.none") +
                               path(Opcode::kSubdocGetCount, "$document.flags"));
    EXPECT_EQ(answer.status, Status::kSubdocMultiPathFailure);
    const auto results = resultsOf(answer);
    ASSERT_EQ(results.size(), 9U);
    EXPECT_EQ(results[0].status, Status::kSuccess);
    EXPECT_EQ(results[0].value, "");
    EXPECT_EQ(results[1].status, Status::kSubdocPathEnoent);
    EXPECT_EQ(results[2].status, Status::kSubdocPathEnoent) << "no document has attributes";
    EXPECT_EQ(results[3].value, "1");
    EXPECT_EQ(results[4].value, "\"raw\"");
    EXPECT_EQ(results[5].status, Status::kSubdocPathEnoent);
    EXPECT_EQ(results[6].status, Status::kSubdocPathMismatch);
    EXPECT_EQ(results[7].status, Status::kSubdocPathMismatch);
    EXPECT_EQ(results[8].status, Status::kSubdocPathMismatch);
}

TEST_F(LookupOps, PathsThatAreNoneAreRefused) {
    set("value", 0);
    for (const std::string bad : {".", "$document.", "$document..flags", "$document[",
                                  "$document[x]", "$document.datatype[0", "[0]", "$document[0]]"}) {
        const auto results = resultsOf(lookUp(path(Opcode::kSubdocGet, bad)));
        ASSERT_EQ(results.size(), 1U) << bad;
        EXPECT_NE(results[0].status, Status::kSuccess) << bad;
    }
    EXPECT_EQ(lookUp(path(Opcode::kSubdocGet, "")).status, Status::kSubdocPathEinval);
}

TEST_F(LookupOps, MalformedRequestsAreRefused) {
    set("value", 0);
    const auto one = path(Opcode::kSubdocGet, "$document");
    EXPECT_EQ(lookUp(one.substr(0, 3)).status, Status::kEinval);
    EXPECT_EQ(lookUp(one.substr(0, one.size() - 1)).status, Status::kEinval);
    EXPECT_EQ(lookUp(path(Opcode::kSubdocGet, "$document", 0x80)).status, Status::kEinval);
    EXPECT_EQ(lookUp(path(Opcode::kSubdocGet, std::string(1025, 'p'))).status, Status::kEinval);
    std::string many;
    for (int i = 0; i < 16; ++i) {
        many += one;
    }
    EXPECT_EQ(lookUp(many).status, Status::kSuccess);
    EXPECT_EQ(lookUp(many + one).status, Status::kEinval);
    EXPECT_EQ(lookUp(one, std::string(1, '\0')).status, Status::kSuccess);
    EXPECT_EQ(lookUp(one, "\x04").status, Status::kNotSupported) << "deleted documents";
}

TEST_F(LookupOps, TheDocumentComesOnceAndNothingIsLookedForInIt) {
    set("{\"name\": 1}", 0);
    EXPECT_EQ(lookUp(kWholeDocument + kWholeDocument).status, Status::kSubdocInvalidCombo);
    EXPECT_EQ(lookUp(path(Opcode::kGet, "", kXattr)).status, Status::kSubdocInvalidCombo);
    EXPECT_EQ(lookUp(path(Opcode::kSet, "$document")).status, Status::kSubdocInvalidCombo);
    EXPECT_EQ(lookUp(path(Opcode::kSubdocGet, "name", 0)).status, Status::kNotSupported);
}

TEST_F(LookupOps, AMissingDocumentIsNotFound) {
    EXPECT_EQ(lookUp(path(Opcode::kSubdocGet, "$document")).status, Status::kKeyEnoent);
}

}  // namespace
}  // namespace kv::server
