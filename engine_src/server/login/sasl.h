// The server side of one SASL login: SCRAM-SHA512, SCRAM-SHA256, SCRAM-SHA1 (RFC 5802, without
// channel binding) and PLAIN.
//
// Ownership: one SaslExchange belongs to one connection and one attempt; it does no I/O. The user
// store outlives it. Names and passwords are compared as bytes: SASLprep is not applied, which
// differs only outside ASCII.
#pragma once

#include <string>
#include <string_view>

#include "server/login/user_store.h"

namespace kv::server {

/// In the order of preference in which SASL_LIST_MECHS answers.
inline constexpr std::string_view kSaslMechanisms = "SCRAM-SHA512 SCRAM-SHA256 SCRAM-SHA1 PLAIN";
/// The mechanisms for a client on a network, where others could read a password.
inline constexpr std::string_view kSaslMechanismsRemote = "SCRAM-SHA512 SCRAM-SHA256 SCRAM-SHA1";

enum class SaslStatus : uint8_t {
    Continue,  ///< `message` is the challenge; the client answers with a step
    Success,   ///< logged in as user(); `message` is the server's signature (SCRAM)
    Failure,   ///< wrong name, password or message; the exchange is over
};

struct SaslAnswer {
    SaslStatus status{SaslStatus::Failure};
    std::string message;
};

class SaslExchange {
  public:
    explicit SaslExchange(const UserStore& users) : users_(users) {}

    SaslAnswer start(std::string_view mechanism, std::string_view message);
    /// Call it only after start() answered Continue, with the same mechanism.
    SaslAnswer step(std::string_view mechanism, std::string_view message);

    /// The name that the client claims; it is proven only after Success.
    [[nodiscard]] const std::string& user() const { return user_; }

  private:
    SaslAnswer plain(std::string_view message);
    SaslAnswer scramFirst(crypto::Digest digest, std::string_view message);
    SaslAnswer scramFinal(std::string_view message);

    const UserStore& users_;
    std::string user_;
    std::string mechanism_;  ///< empty unless a step is expected
    crypto::Digest digest_{crypto::Digest::Sha512};
    std::string gs2Header_;
    std::string nonce_;
    std::string clientFirstBare_;
    std::string serverFirst_;
};

}  // namespace kv::server
