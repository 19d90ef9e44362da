#include "load/scram.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <charconv>
#include <vector>

#include "load/load_error.h"

namespace kv::load {

namespace {

constexpr int kMaxIterations = 10'000'000;  // a hostile server must not keep us hashing for hours

const unsigned char* bytes(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

int length(std::string_view text) {
    return static_cast<int>(text.size());
}

const EVP_MD* digest(const std::string& name) {
    const EVP_MD* md = EVP_get_digestbyname(name.c_str());
    if (md == nullptr) {
        throw LoadError("OpenSSL has no digest " + name);
    }
    return md;
}

std::string hmac(const EVP_MD* md, std::string_view key, std::string_view data) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
    unsigned size = 0;
    if (HMAC(md, key.data(), length(key), bytes(data), data.size(), out.data(), &size) == nullptr) {
        throw LoadError("HMAC failed");
    }
    return {reinterpret_cast<char*>(out.data()), size};
}

std::string hash(const EVP_MD* md, std::string_view data) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
    unsigned size = 0;
    if (EVP_Digest(data.data(), data.size(), out.data(), &size, md, nullptr) != 1) {
        throw LoadError("digest failed");
    }
    return {reinterpret_cast<char*>(out.data()), size};
}

std::string encode64(std::string_view data) {
    std::string out(4 * ((data.size() + 2) / 3) + 1, '\0');
    const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()), bytes(data),
                                     length(data));
    out.resize(static_cast<std::size_t>(size));
    return out;
}

std::string decode64(std::string_view text) {
    std::string out(text.size(), '\0');
    const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()), bytes(text),
                                     length(text));
    if (size < 0 || text.empty() || text.size() % 4 != 0) {
        throw LoadError("SCRAM: the server sent bad base64");
    }
    std::size_t padding = 0;  // EVP_DecodeBlock counts the padding as zero bytes
    while (padding < 2 && text[text.size() - 1 - padding] == '=') {
        ++padding;
    }
    out.resize(static_cast<std::size_t>(size) - padding);
    return out;
}

/// The attribute `name` of "a=..,b=..".
std::string_view attribute(std::string_view message, char name) {
    while (!message.empty()) {
        const auto comma = message.find(',');
        const auto part = message.substr(0, comma);
        if (part.size() >= 2 && part[0] == name && part[1] == '=') {
            return part.substr(2);
        }
        message = comma == std::string_view::npos ? std::string_view{} : message.substr(comma + 1);
    }
    throw LoadError(std::string("SCRAM: the server's message lacks '") + name + "='");
}

std::string escaped(std::string_view user) {
    std::string out;
    for (const char c : user) {
        if (c == ',') {
            out += "=2C";
        } else if (c == '=') {
            out += "=3D";
        } else {
            out += c;
        }
    }
    return out;
}

std::string randomNonce() {
    std::array<unsigned char, 18> raw{};
    if (RAND_bytes(raw.data(), static_cast<int>(raw.size())) != 1) {
        throw LoadError("OpenSSL gave no random bytes");
    }
    return encode64({reinterpret_cast<char*>(raw.data()), raw.size()});
}

}  // namespace

std::string bestMechanism(std::string_view offered) {
    const std::string padded = " " + std::string(offered) + " ";
    for (const char* name : {"SCRAM-SHA512", "SCRAM-SHA256", "SCRAM-SHA1", "PLAIN"}) {
        if (padded.find(std::string(" ") + name + " ") != std::string::npos) {
            return name;
        }
    }
    return {};
}

std::string plainMessage(std::string_view user, std::string_view password) {
    std::string out(1, '\0');
    out.append(user).append(1, '\0').append(password);
    return out;
}

ScramClient::ScramClient(std::string_view mechanism, std::string_view user,
                         std::string_view password, std::string_view nonce)
    : user_(escaped(user)), password_(password), nonce_(nonce.empty() ? randomNonce() : nonce) {
    constexpr std::string_view kPrefix = "SCRAM-";
    if (!mechanism.starts_with(kPrefix)) {
        throw LoadError("not a SCRAM mechanism: " + std::string(mechanism));
    }
    digestName_ = mechanism.substr(kPrefix.size());  // SHA1, SHA256, SHA512: OpenSSL's names too
    digest(digestName_);
}

std::string ScramClient::firstMessage() const {
    return "n,,n=" + user_ + ",r=" + nonce_;
}

std::string ScramClient::finalMessage(std::string_view serverFirst) {
    const auto nonce = attribute(serverFirst, 'r');
    const auto salt = decode64(attribute(serverFirst, 's'));
    const auto iterationText = attribute(serverFirst, 'i');
    int iterations = 0;
    const auto [end, error] = std::from_chars(
            iterationText.data(), iterationText.data() + iterationText.size(), iterations);
    if (error != std::errc{} || end != iterationText.data() + iterationText.size() ||
        iterations < 1 || iterations > kMaxIterations) {
        throw LoadError("SCRAM: bad iteration count");
    }
    if (!nonce.starts_with(nonce_) || nonce.size() == nonce_.size()) {
        throw LoadError("SCRAM: the server did not extend our nonce");
    }

    const EVP_MD* md = digest(digestName_);
    std::string salted(static_cast<std::size_t>(EVP_MD_get_size(md)), '\0');
    if (PKCS5_PBKDF2_HMAC(password_.data(), length(password_), bytes(salt), length(salt),
                          iterations, md, length(salted),
                          reinterpret_cast<unsigned char*>(salted.data())) != 1) {
        throw LoadError("PBKDF2 failed");
    }
    const std::string withoutProof = "c=biws,r=" + std::string(nonce);  // biws = base64("n,,")
    const std::string authMessage =
            "n=" + user_ + ",r=" + nonce_ + "," + std::string(serverFirst) + "," + withoutProof;
    const auto clientKey = hmac(md, salted, "Client Key");
    auto proof = hmac(md, hash(md, clientKey), authMessage);
    for (std::size_t i = 0; i < proof.size(); ++i) {
        proof[i] = static_cast<char>(proof[i] ^ clientKey[i]);
    }
    serverSignature_ = hmac(md, hmac(md, salted, "Server Key"), authMessage);
    return withoutProof + ",p=" + encode64(proof);
}

void ScramClient::verify(std::string_view serverFinal) const {
    const auto signature = decode64(attribute(serverFinal, 'v'));
    if (serverSignature_.empty() || signature.size() != serverSignature_.size() ||
        CRYPTO_memcmp(signature.data(), serverSignature_.data(), signature.size()) != 0) {
        throw LoadError("SCRAM: the server's signature is wrong: it does not know the password");
    }
}

}  // namespace kv::load
