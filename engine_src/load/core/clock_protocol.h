#pragma once

// The messages between `kvctl clock-server` and its clients. Integers are big-endian.
//
//   server: magic, 32 random bytes (the nonce)
//   client: HMAC-SHA256(password, magic + nonce)              wrong: the server closes
//   server: u32 number of processes, then the u32 pid of each
//   client: one byte, the question                            as often as it likes
//   server: for each process the u64 CPU time in ns, all ones if the process has ended

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "auth/crypto.h"

namespace kv::load {

inline constexpr std::string_view kClockMagic = "kvclock2";
inline constexpr std::size_t kClockNonceSize = 32;
inline constexpr std::size_t kClockProofSize = 32;
inline constexpr std::size_t kClockMaxPids = 1024;
inline constexpr char kClockQuestion = '?';
inline constexpr std::uint64_t kClockEnded = std::numeric_limits<std::uint64_t>::max();

inline std::string clockProof(std::string_view password, std::string_view nonce) {
    return crypto::hmac(crypto::Digest::Sha256, password,
                        std::string(kClockMagic) + std::string(nonce));
}

}  // namespace kv::load
