// The client's side of SCRAM (RFC 5802, 7677) and PLAIN. No I/O: it turns the server's messages
// into ours. One object per authentication, used by one thread.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "auth/crypto.h"

namespace kv::auth {

/// The server's messages are malformed, hostile, or prove that it does not know the password.
class AuthError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// The best mechanism of a space-separated list: SCRAM-SHA512, SCRAM-SHA256, SCRAM-SHA1, PLAIN.
/// Empty when none of the list is known here.
std::string bestMechanism(std::string_view offered);

/// "\0user\0password".
std::string plainMessage(std::string_view user, std::string_view password);

class ScramClient {
  public:
    /// `mechanism` is one of the three SCRAM names; throws AuthError otherwise.
    /// `nonce` is empty (a random one is drawn) except in tests.
    ScramClient(std::string_view mechanism, std::string_view user, std::string_view password,
                std::string_view nonce = {});

    /// "n,,n=user,r=nonce"
    [[nodiscard]] std::string firstMessage() const;
    /// Takes "r=..,s=..,i=.."; gives "c=biws,r=..,p=..". Throws AuthError if it is malformed, does
    /// not extend our nonce, or asks for an absurd number of iterations.
    std::string finalMessage(std::string_view serverFirst);
    /// Takes "v=.."; throws AuthError unless the server has shown that it knows the password.
    void verify(std::string_view serverFinal) const;

  private:
    crypto::Digest digest_;
    std::string user_;
    std::string password_;
    std::string nonce_;
    std::string serverSignature_;
};

}  // namespace kv::auth
