#pragma once

// The protocols that the load generators speak, by their names in flags.

#include <cstdint>
#include <optional>
#include <string_view>

namespace kv::load {

enum class Protocol : std::uint8_t {
    kCouchbase,  // memcached binary with sessions: HELLO, SASL, bucket, vBucket map
    kBinary,     // memcached binary
    kText,       // memcached text: get, set
    kMeta,       // memcached meta: mg, ms, in quiet mode
    kResp2,      // Redis
    kResp3,
    kAuto,  // ask the server
};

inline constexpr std::string_view kProtocolNames = "couchbase|binary|text|meta|resp2|resp3|auto";

constexpr std::string_view toString(Protocol protocol) noexcept {
    switch (protocol) {
        case Protocol::kCouchbase:
            return "couchbase";
        case Protocol::kBinary:
            return "binary";
        case Protocol::kText:
            return "text";
        case Protocol::kMeta:
            return "meta";
        case Protocol::kResp2:
            return "resp2";
        case Protocol::kResp3:
            return "resp3";
        case Protocol::kAuto:
            return "auto";
    }
    return "unknown";
}

constexpr std::optional<Protocol> parseProtocol(std::string_view name) noexcept {
    for (const auto protocol :
         {Protocol::kCouchbase, Protocol::kBinary, Protocol::kText, Protocol::kMeta,
          Protocol::kResp2, Protocol::kResp3, Protocol::kAuto}) {
        if (toString(protocol) == name) {
            return protocol;
        }
    }
    return std::nullopt;
}

/// True if keys are words of a line: printable ASCII without blanks.
constexpr bool hasLines(Protocol protocol) noexcept {
    return protocol == Protocol::kText || protocol == Protocol::kMeta;
}

/// True if a password needs no user.
constexpr bool isResp(Protocol protocol) noexcept {
    return protocol == Protocol::kResp2 || protocol == Protocol::kResp3;
}

}  // namespace kv::load
