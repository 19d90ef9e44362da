#include "auth/crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <stdexcept>

namespace kv::crypto {

namespace {

const EVP_MD* evp(Digest digest) {
    switch (digest) {
        case Digest::Sha1:
            return EVP_sha1();
        case Digest::Sha256:
            return EVP_sha256();
        case Digest::Sha512:
            return EVP_sha512();
    }
    throw std::invalid_argument("unknown digest");
}

const unsigned char* raw(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

unsigned char* raw(std::string& text) {
    return reinterpret_cast<unsigned char*>(text.data());
}

void require(bool ok, const char* what) {
    if (!ok) {
        throw std::runtime_error(std::string("OpenSSL: ") + what + " failed");
    }
}

}  // namespace

std::string hash(Digest digest, std::string_view data) {
    std::string out(EVP_MAX_MD_SIZE, '\0');
    unsigned length = 0;
    require(EVP_Digest(data.data(), data.size(), raw(out), &length, evp(digest), nullptr) == 1,
            "digest");
    out.resize(length);
    return out;
}

std::string hmac(Digest digest, std::string_view key, std::string_view data) {
    std::string out(EVP_MAX_MD_SIZE, '\0');
    unsigned length = 0;
    require(HMAC(evp(digest), key.data(), static_cast<int>(key.size()), raw(data), data.size(),
                 raw(out), &length) != nullptr,
            "HMAC");
    out.resize(length);
    return out;
}

std::string pbkdf2(Digest digest, std::string_view password, std::string_view salt,
                   int iterations) {
    std::string out(static_cast<size_t>(EVP_MD_size(evp(digest))), '\0');
    require(PKCS5_PBKDF2_HMAC(password.data(), static_cast<int>(password.size()), raw(salt),
                              static_cast<int>(salt.size()), iterations, evp(digest),
                              static_cast<int>(out.size()), raw(out)) == 1,
            "PBKDF2");
    return out;
}

std::string toBase64(std::string_view bytes) {
    std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');  // EVP also writes a terminator
    const int length = EVP_EncodeBlock(raw(out), raw(bytes), static_cast<int>(bytes.size()));
    out.resize(static_cast<size_t>(length));
    return out;
}

std::optional<std::string> fromBase64(std::string_view text) {
    if (text.empty()) {
        return std::string{};
    }
    if (text.size() % 4 != 0) {
        return std::nullopt;
    }
    std::string out(text.size() / 4 * 3, '\0');
    if (EVP_DecodeBlock(raw(out), raw(text), static_cast<int>(text.size())) < 0) {
        return std::nullopt;
    }
    const size_t padding = text.ends_with("==") ? 2 : (text.ends_with('=') ? 1 : 0);
    out.erase(out.size() - padding);
    // EVP tolerates white space and stray bits, so only text that encodes back to itself is
    // accepted.
    if (toBase64(out) != text) {
        return std::nullopt;
    }
    return out;
}

std::string randomBytes(size_t count) {
    std::string out(count, '\0');
    require(RAND_bytes(raw(out), static_cast<int>(count)) == 1, "random generator");
    return out;
}

bool equalConstantTime(std::string_view left, std::string_view right) {
    return left.size() == right.size() &&
           CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

}  // namespace kv::crypto
