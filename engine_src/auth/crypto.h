// The primitives that SASL needs, over OpenSSL: digests, HMAC, PBKDF2, base64, random bytes,
// constant-time comparison. Threads: any. Except randomBytes all functions are pure. Errors: a
// failure inside OpenSSL throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kv::crypto {

enum class Digest : uint8_t { Sha1, Sha256, Sha512 };

/// Returns the raw digest of `data`.
std::string hash(Digest digest, std::string_view data);
std::string hmac(Digest digest, std::string_view key, std::string_view data);
/// Hi() of RFC 5802: PBKDF2 with one block of the digest's length. Takes milliseconds at thousands
/// of iterations.
std::string pbkdf2(Digest digest, std::string_view password, std::string_view salt, int iterations);

std::string toBase64(std::string_view bytes);
/// Returns nothing if `text` is not canonical base64 with padding.
std::optional<std::string> fromBase64(std::string_view text);

/// Returns `count` unpredictable bytes.
std::string randomBytes(size_t count);

/// Compares the content; the time depends only on the lengths.
bool equalConstantTime(std::string_view left, std::string_view right);

}  // namespace kv::crypto
