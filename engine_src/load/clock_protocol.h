#pragma once

// What `kvctl clock-server` and its clients say to each other. Integers are big-endian.
//
//   server: magic, 32 random bytes (the nonce)
//   client: HMAC-SHA256(password, magic + nonce)              wrong: the server closes
//   server: u32 number of processes, then the u32 pid of each
//   client: u32 index of a process                            as often as it likes
//   server: u64 CPU time of that process in ns; if the process has ended or the index is wrong the
//           server closes

#include <cstddef>
#include <string>
#include <string_view>

#include "auth/crypto.h"

namespace kv::load {

inline constexpr std::string_view kClockMagic = "kvclock1";
inline constexpr std::size_t kClockNonceSize = 32;
inline constexpr std::size_t kClockProofSize = 32;
inline constexpr std::size_t kClockMaxPids = 1024;

inline std::string clockProof(std::string_view password, std::string_view nonce) {
    return crypto::hmac(crypto::Digest::Sha256, password,
                        std::string(kClockMagic) + std::string(nonce));
}

}  // namespace kv::load
