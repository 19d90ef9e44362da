#include "auth/scram_client.h"

#include <gtest/gtest.h>

namespace kv::auth {
namespace {

// RFC 5802 §5
TEST(Scram, Sha1ExampleOfTheRfc) {
    ScramClient client("SCRAM-SHA1", "user", "pencil", "fyko+d2lbbFgONRv9qkxdawL");
    EXPECT_EQ(client.firstMessage(), "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL");
    EXPECT_EQ(client.finalMessage(
                      "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096"),
              "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=");
    EXPECT_NO_THROW(client.verify("v=rmF9pqV8S7suAoZWja4dJRkFsKQ="));
    EXPECT_THROW(client.verify("v=rmF9pqV8S7suAoZWja4dJRkFsKA="), AuthError);
    EXPECT_THROW(client.verify("e=other-error"), AuthError);
}

// RFC 7677 §3
TEST(Scram, Sha256ExampleOfTheRfc) {
    ScramClient client("SCRAM-SHA256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO");
    EXPECT_EQ(client.finalMessage("r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
                                  "s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"),
              "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
              "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
    EXPECT_NO_THROW(client.verify("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
}

TEST(Scram, VerifyBeforeTheFinalMessageFails) {
    ScramClient client("SCRAM-SHA512", "user", "pencil");
    EXPECT_THROW(client.verify("v="), AuthError);
    EXPECT_THROW(client.verify("v=AAAA"), AuthError);
}

TEST(Scram, RefusesHostileServerMessages) {
    ScramClient client("SCRAM-SHA512", "u", "p", "nonce");
    EXPECT_THROW(client.finalMessage(""), AuthError);
    EXPECT_THROW(client.finalMessage("r=other,s=AAAA,i=4096"), AuthError);
    EXPECT_THROW(client.finalMessage("r=nonce,s=AAAA,i=4096"), AuthError);  // nothing added
    EXPECT_THROW(client.finalMessage("r=nonceX,s=AAA,i=4096"), AuthError);  // bad base64
    EXPECT_THROW(client.finalMessage("r=nonceX,s=,i=4096"), AuthError);
    EXPECT_THROW(client.finalMessage("r=nonceX,s=AAAA,i=0"), AuthError);
    EXPECT_THROW(client.finalMessage("r=nonceX,s=AAAA,i=1000"), AuthError);  // easy to guess from
    EXPECT_THROW(client.finalMessage("r=nonceX,s=AAAA,i=99999999999"), AuthError);
    EXPECT_THROW(client.finalMessage("r=nonceX,s=AAAA,i=4096x"), AuthError);
    EXPECT_NO_THROW(client.finalMessage("r=nonceX,s=AAAA,i=4096"));
}

TEST(Scram, EscapesTheNameAndDrawsNonces) {
    EXPECT_EQ(ScramClient("SCRAM-SHA1", "a,b=c", "p", "n").firstMessage(), "n,,n=a=2Cb=3Dc,r=n");
    EXPECT_NE(ScramClient("SCRAM-SHA1", "u", "p").firstMessage(),
              ScramClient("SCRAM-SHA1", "u", "p").firstMessage());
    EXPECT_THROW(ScramClient("PLAIN", "u", "p"), AuthError);
    EXPECT_THROW(ScramClient("SCRAM-NOSUCH", "u", "p"), AuthError);
}

TEST(Sasl, ChoosesTheStrongestKnown) {
    EXPECT_EQ(bestMechanism("PLAIN SCRAM-SHA1 SCRAM-SHA512 SCRAM-SHA256"), "SCRAM-SHA512");
    EXPECT_EQ(bestMechanism("PLAIN SCRAM-SHA1"), "SCRAM-SHA1");
    EXPECT_EQ(bestMechanism("OAUTHBEARER PLAIN"), "") << "a password is never sent as it is";
    EXPECT_EQ(bestMechanism("SCRAM-SHA5120"), "");
    EXPECT_EQ(bestMechanism(""), "");
}

}  // namespace
}  // namespace kv::auth
