#include "auth/scram_client.h"

#include <array>
#include <charconv>
#include <utility>

namespace kv::auth {

namespace {

/// As many as Couchbase Server had at least. A hostile server that asks for few could try many
/// passwords against our proof.
constexpr int kMinIterations = 4000;
constexpr int kMaxIterations = 10'000'000;  // a hostile server must not keep us hashing for hours
constexpr size_t kNonceBytes = 18;
/// Strongest first.
constexpr std::array kScram{std::pair{"SCRAM-SHA512", crypto::Digest::Sha512},
                            std::pair{"SCRAM-SHA256", crypto::Digest::Sha256},
                            std::pair{"SCRAM-SHA1", crypto::Digest::Sha1}};

crypto::Digest digestOf(std::string_view mechanism) {
    for (const auto& [name, digest] : kScram) {
        if (mechanism == name) {
            return digest;
        }
    }
    throw AuthError("not a SCRAM mechanism: " + std::string(mechanism));
}

std::string decode64(std::string_view text) {
    auto bytes = crypto::fromBase64(text);
    if (!bytes || bytes->empty()) {
        throw AuthError("SCRAM: the server sent bad base64");
    }
    return *std::move(bytes);
}

/// Returns the attribute `name` of "a=..,b=..".
std::string_view attribute(std::string_view message, char name) {
    while (!message.empty()) {
        const auto comma = message.find(',');
        const auto part = message.substr(0, comma);
        if (part.size() >= 2 && part[0] == name && part[1] == '=') {
            return part.substr(2);
        }
        message = comma == std::string_view::npos ? std::string_view{} : message.substr(comma + 1);
    }
    throw AuthError(std::string("SCRAM: the server's message lacks '") + name + "='");
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

int iterationsOf(std::string_view text) {
    int iterations = 0;
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, iterations);
    if (parsed.ec != std::errc{} || parsed.ptr != end || iterations < kMinIterations ||
        iterations > kMaxIterations) {
        throw AuthError("SCRAM: bad iteration count");
    }
    return iterations;
}

}  // namespace

std::string bestMechanism(std::string_view offered) {
    const std::string padded = " " + std::string(offered) + " ";
    const auto isOffered = [&padded](std::string_view name) {
        return padded.find(" " + std::string(name) + " ") != std::string::npos;
    };
    for (const auto& [name, digest] : kScram) {
        if (isOffered(name)) {
            return name;
        }
    }
    return {};
}

ScramClient::ScramClient(std::string_view mechanism, std::string_view user,
                         std::string_view password, std::string_view nonce)
    : digest_(digestOf(mechanism)),
      user_(escaped(user)),
      password_(password),
      nonce_(nonce.empty() ? crypto::toBase64(crypto::randomBytes(kNonceBytes)) : nonce) {}

std::string ScramClient::firstMessage() const {
    return "n,,n=" + user_ + ",r=" + nonce_;
}

std::string ScramClient::finalMessage(std::string_view serverFirst) {
    const auto nonce = attribute(serverFirst, 'r');
    const auto salt = decode64(attribute(serverFirst, 's'));
    const int iterations = iterationsOf(attribute(serverFirst, 'i'));
    if (!nonce.starts_with(nonce_) || nonce.size() == nonce_.size()) {
        throw AuthError("SCRAM: the server did not extend our nonce");
    }

    const auto salted = crypto::pbkdf2(digest_, password_, salt, iterations);
    const std::string withoutProof = "c=biws,r=" + std::string(nonce);  // biws = base64("n,,")
    const std::string authMessage =
            "n=" + user_ + ",r=" + nonce_ + "," + std::string(serverFirst) + "," + withoutProof;
    const auto clientKey = crypto::hmac(digest_, salted, "Client Key");
    auto proof = crypto::hmac(digest_, crypto::hash(digest_, clientKey), authMessage);
    for (size_t i = 0; i < proof.size(); ++i) {
        proof[i] = static_cast<char>(proof[i] ^ clientKey[i]);
    }
    serverSignature_ =
            crypto::hmac(digest_, crypto::hmac(digest_, salted, "Server Key"), authMessage);
    return withoutProof + ",p=" + crypto::toBase64(proof);
}

void ScramClient::verify(std::string_view serverFinal) const {
    const auto signature = decode64(attribute(serverFinal, 'v'));
    if (serverSignature_.empty() || !crypto::equalConstantTime(signature, serverSignature_)) {
        throw AuthError("SCRAM: the server's signature is wrong: it does not know the password");
    }
}

}  // namespace kv::auth
