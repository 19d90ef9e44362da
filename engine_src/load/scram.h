#pragma once

// The client's side of SCRAM (RFC 5802, 7677) and PLAIN, by OpenSSL. No I/O: it turns the server's
// messages into ours. One object per authentication, used by one thread.

#include <string>
#include <string_view>

namespace kv::load {

/// The best mechanism of a space-separated list: SCRAM-SHA512, SCRAM-SHA256, SCRAM-SHA1, PLAIN.
/// Empty when none of the list is known here.
std::string bestMechanism(std::string_view offered);

/// "\0user\0password".
std::string plainMessage(std::string_view user, std::string_view password);

class ScramClient {
  public:
    /// `mechanism` is one of the three SCRAM names; throws LoadError otherwise.
    /// `nonce` is empty (a random one is drawn) except in tests.
    ScramClient(std::string_view mechanism, std::string_view user, std::string_view password,
                std::string_view nonce = {});

    /// "n,,n=user,r=nonce"
    std::string firstMessage() const;
    /// Takes "r=..,s=..,i=.."; gives "c=biws,r=..,p=..". Throws LoadError if it is malformed, does
    /// not extend our nonce, or asks for an absurd number of iterations.
    std::string finalMessage(std::string_view serverFirst);
    /// Takes "v=.."; throws LoadError unless the server has shown that it knows the password.
    void verify(std::string_view serverFinal) const;

  private:
    std::string digestName_;
    std::string user_;
    std::string password_;
    std::string nonce_;
    std::string serverSignature_;
};

}  // namespace kv::load
