#include "server/login/sasl.h"

#include <gtest/gtest.h>

#include <string>

namespace kv::server {
namespace {

using crypto::Digest;

/// The client's half of SCRAM, written directly from RFC 5802.
class ScramClient {
  public:
    ScramClient(Digest digest, std::string user, std::string password)
        : digest_(digest), user_(std::move(user)), password_(std::move(password)) {}

    std::string first() const { return "n,," + bare(); }
    std::string final(const std::string& serverFirst) {
        const auto nonce = attribute(serverFirst, "r=");
        const auto salt = crypto::fromBase64(attribute(serverFirst, "s=")).value();
        const auto salted =
                crypto::pbkdf2(digest_, password_, salt, std::stoi(attribute(serverFirst, "i=")));
        const auto clientKey = crypto::hmac(digest_, salted, "Client Key");
        const std::string withoutProof = "c=biws,r=" + nonce;
        const auto message = bare() + "," + serverFirst + "," + withoutProof;
        auto proof = crypto::hmac(digest_, crypto::hash(digest_, clientKey), message);
        for (size_t i = 0; i < proof.size(); ++i) {
            proof[i] = static_cast<char>(proof[i] ^ clientKey[i]);
        }
        expected_ = "v=" + crypto::toBase64(crypto::hmac(
                                   digest_, crypto::hmac(digest_, salted, "Server Key"), message));
        return withoutProof + ",p=" + crypto::toBase64(proof);
    }
    /// The signature that the server must prove.
    const std::string& expected() const { return expected_; }

  private:
    std::string bare() const { return "n=" + user_ + ",r=clientnonce"; }
    static std::string attribute(const std::string& text, const std::string& name) {
        const auto from = text.find(name) + name.size();
        return text.substr(from, text.find(',', from) - from);
    }

    Digest digest_;
    std::string user_;
    std::string password_;
    std::string expected_;
};

struct Mechanism {
    const char* name;
    Digest digest;
};

class Scram : public testing::TestWithParam<Mechanism> {
  protected:
    UserStore users_{std::map<std::string, std::string>{{"ann", "secret"}, {"b,o=b", "pass"}}};
    SaslExchange exchange_{users_};
};

TEST_P(Scram, RightPasswordLogsInAndTheServerProvesItself) {
    ScramClient client(GetParam().digest, "ann", "secret");
    const auto challenge = exchange_.start(GetParam().name, client.first());
    ASSERT_EQ(challenge.status, SaslStatus::Continue);
    const auto done = exchange_.step(GetParam().name, client.final(challenge.message));
    EXPECT_EQ(done.status, SaslStatus::Success);
    EXPECT_EQ(done.message, client.expected());
    EXPECT_EQ(exchange_.user(), "ann");
}

TEST_P(Scram, EscapedNamesAreDecoded) {
    ScramClient client(GetParam().digest, "b=2Co=3Db", "pass");
    const auto challenge = exchange_.start(GetParam().name, client.first());
    EXPECT_EQ(exchange_.step(GetParam().name, client.final(challenge.message)).status,
              SaslStatus::Success);
    EXPECT_EQ(exchange_.user(), "b,o=b");
}

TEST_P(Scram, WrongPasswordAndUnknownUserLookAlike) {
    for (const char* user : {"ann", "nobody"}) {
        ScramClient client(GetParam().digest, user, "wrong");
        const auto challenge = exchange_.start(GetParam().name, client.first());
        ASSERT_EQ(challenge.status, SaslStatus::Continue) << user;
        EXPECT_NE(challenge.message.find(",i=16384"), std::string::npos);
        const auto done = exchange_.step(GetParam().name, client.final(challenge.message));
        EXPECT_EQ(done.status, SaslStatus::Failure) << user;
        EXPECT_TRUE(done.message.empty());
    }
    // The salt of an unknown name is as constant as that of a known one.
    EXPECT_EQ(users_.salt(GetParam().digest, "nobody"), users_.salt(GetParam().digest, "nobody"));
    EXPECT_EQ(users_.salt(GetParam().digest, "nobody").size(),
              users_.salt(GetParam().digest, "ann").size());
}

TEST_P(Scram, AProofIsGoodForOneChallengeOnly) {
    ScramClient client(GetParam().digest, "ann", "secret");
    const auto challenge = exchange_.start(GetParam().name, client.first());
    const auto proof = client.final(challenge.message);
    ASSERT_EQ(exchange_.step(GetParam().name, proof).status, SaslStatus::Success);
    EXPECT_EQ(exchange_.step(GetParam().name, proof).status, SaslStatus::Failure) << "replayed";
    SaslExchange another(users_);
    another.start(GetParam().name, client.first());
    EXPECT_EQ(another.step(GetParam().name, proof).status, SaslStatus::Failure) << "other nonce";
}

TEST_P(Scram, BrokenMessagesFail) {
    for (const char* first : {"", "n", "n,", "n,,", "n,,n=ann", "n,,n=,r=x", "n,,r=x,n=ann",
                              "p=tls-unique,,n=ann,r=x", "n,,n=a=2Xn,r=x", "n,,n=ann,r="}) {
        EXPECT_EQ(SaslExchange(users_).start(GetParam().name, first).status, SaslStatus::Failure)
                << first;
    }
    for (const char* final : {"", "c=biws", "c=biws,r=x,p=AAAA", ",p=", "c=,r=,p=AAAA",
                              "c=biws,r=clientnonce,p=!!!!"}) {
        SaslExchange exchange(users_);
        exchange.start(GetParam().name, "n,,n=ann,r=clientnonce");
        EXPECT_EQ(exchange.step(GetParam().name, final).status, SaslStatus::Failure) << final;
    }
}

INSTANTIATE_TEST_SUITE_P(All, Scram,
                         testing::Values(Mechanism{"SCRAM-SHA512", Digest::Sha512},
                                         Mechanism{"SCRAM-SHA256", Digest::Sha256},
                                         Mechanism{"SCRAM-SHA1", Digest::Sha1}));

TEST(Sasl, Plain) {
    const UserStore users(std::map<std::string, std::string>{{"ann", "secret"}});
    const auto login = [&users](std::string_view message) {
        return SaslExchange(users).start("PLAIN", message).status;
    };
    using namespace std::string_literals;
    EXPECT_EQ(login("\0ann\0secret"s), SaslStatus::Success);
    EXPECT_EQ(login("ann\0ann\0secret"s), SaslStatus::Success);
    EXPECT_EQ(login("bob\0ann\0secret"s), SaslStatus::Failure) << "acting for another";
    EXPECT_EQ(login("\0ann\0secre"s), SaslStatus::Failure);
    EXPECT_EQ(login("\0ann\0"s), SaslStatus::Failure);
    EXPECT_EQ(login("\0nobody\0secret"s), SaslStatus::Failure);
    EXPECT_EQ(login("annsecret"s), SaslStatus::Failure);
    EXPECT_EQ(login(""s), SaslStatus::Failure);
}

TEST(Sasl, UnknownMechanismsAndStrayStepsFail) {
    const UserStore users(std::map<std::string, std::string>{{"ann", "secret"}});
    EXPECT_EQ(SaslExchange(users).start("CRAM-MD5", "x").status, SaslStatus::Failure);
    EXPECT_EQ(SaslExchange(users).step("SCRAM-SHA1", "x").status, SaslStatus::Failure);
    SaslExchange exchange(users);
    exchange.start("SCRAM-SHA1", "n,,n=ann,r=x");
    EXPECT_EQ(exchange.step("SCRAM-SHA256", "x").status, SaslStatus::Failure)
            << "changed mechanism";
}

}  // namespace
}  // namespace kv::server
