// The client's side of SCRAM (RFC 5802, 7677). It does no I/O: it turns the server's messages into
// ours. Threads: one object per authentication, used by one thread. PLAIN is missing on purpose: a
// program that takes over the server's port could offer only PLAIN and receive the password.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "auth/crypto.h"

namespace kv::auth {

/// The server's messages are malformed or hostile, or show that it does not know the password.
class AuthError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// Returns the best known mechanism of a space-separated list: SCRAM-SHA512, SCRAM-SHA256,
/// SCRAM-SHA1. Empty if none is known.
std::string bestMechanism(std::string_view offered);

class ScramClient {
  public:
    /// `mechanism` is one of the three SCRAM names; throws AuthError otherwise. `nonce` is empty (a
    /// random one is used) except in tests.
    ScramClient(std::string_view mechanism, std::string_view user, std::string_view password,
                std::string_view nonce = {});

    /// "n,,n=user,r=nonce"
    [[nodiscard]] std::string firstMessage() const;
    /// Takes "r=..,s=..,i=.." and returns "c=biws,r=..,p=..". Throws AuthError if the message is
    /// malformed, does not extend our nonce, or asks for an excessive number of iterations.
    std::string finalMessage(std::string_view serverFirst);
    /// Takes "v=.."; throws AuthError unless the server has proved that it knows the password.
    void verify(std::string_view serverFinal) const;

  private:
    crypto::Digest digest_;
    std::string user_;
    std::string password_;
    std::string nonce_;
    std::string serverSignature_;
};

}  // namespace kv::auth
