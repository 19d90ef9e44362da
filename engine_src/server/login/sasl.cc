#include "server/login/sasl.h"

#include <utility>

namespace kv::server {

namespace {

constexpr size_t kMaxNameLength = 1024;
constexpr size_t kServerNonceBytes = 18;

std::optional<crypto::Digest> scramDigest(std::string_view mechanism) {
    if (mechanism == "SCRAM-SHA512") {
        return crypto::Digest::Sha512;
    }
    if (mechanism == "SCRAM-SHA256") {
        return crypto::Digest::Sha256;
    }
    if (mechanism == "SCRAM-SHA1") {
        return crypto::Digest::Sha1;
    }
    return std::nullopt;
}

/// Parses "a=value," at the front of `rest` and returns the value; `rest` moves behind the comma
/// (or to the end).
std::optional<std::string_view> takeAttribute(std::string_view& rest, char name) {
    if (rest.size() < 2 || rest[0] != name || rest[1] != '=') {
        return std::nullopt;
    }
    const auto comma = rest.find(',');
    const auto value = rest.substr(2, comma == std::string_view::npos ? comma : comma - 2);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    return value;
}

/// SCRAM encodes ',' as =2C and '=' as =3D in names.
std::optional<std::string> unescapeName(std::string_view text) {
    std::string name;
    for (size_t at = 0; at < text.size(); ++at) {
        if (text[at] != '=') {
            name.push_back(text[at]);
        } else if (text.substr(at, 3) == "=2C") {
            name.push_back(',');
            at += 2;
        } else if (text.substr(at, 3) == "=3D") {
            name.push_back('=');
            at += 2;
        } else {
            return std::nullopt;
        }
    }
    if (name.empty() || name.size() > kMaxNameLength) {
        return std::nullopt;
    }
    return name;
}

std::string exclusiveOr(std::string left, std::string_view right) {
    for (size_t i = 0; i < left.size(); ++i) {
        left[i] = static_cast<char>(left[i] ^ right[i]);
    }
    return left;
}

}  // namespace

SaslAnswer SaslExchange::start(std::string_view mechanism, std::string_view message) {
    mechanism_.clear();
    if (mechanism == "PLAIN") {
        return plain(message);
    }
    const auto digest = scramDigest(mechanism);
    if (!digest) {
        return {};
    }
    auto answer = scramFirst(*digest, message);
    if (answer.status == SaslStatus::Continue) {
        mechanism_ = mechanism;
    }
    return answer;
}

SaslAnswer SaslExchange::step(std::string_view mechanism, std::string_view message) {
    if (mechanism_.empty() || std::exchange(mechanism_, {}) != mechanism) {
        return {};
    }
    return scramFinal(message);
}

SaslAnswer SaslExchange::plain(std::string_view message) {
    // [authzid] NUL authcid NUL password
    const auto first = message.find('\0');
    const auto second = first == std::string_view::npos ? first : message.find('\0', first + 1);
    if (second == std::string_view::npos) {
        return {};
    }
    const auto authzid = message.substr(0, first);
    user_ = message.substr(first + 1, second - first - 1);
    if (user_.empty() || user_.size() > kMaxNameLength || (!authzid.empty() && authzid != user_)) {
        return {};
    }
    return {users_.checkPassword(user_, message.substr(second + 1)) ? SaslStatus::Success
                                                                    : SaslStatus::Failure,
            {}};
}

SaslAnswer SaslExchange::scramFirst(crypto::Digest digest, std::string_view message) {
    // gs2-header = ("n" | "y") "," [a=authzid] ","; "p=" asks for channel binding, which is not
    // supported.
    if (!message.starts_with("n,") && !message.starts_with("y,")) {
        return {};
    }
    const auto headerEnd = message.find(',', 2);
    if (headerEnd == std::string_view::npos) {
        return {};
    }
    gs2Header_ = message.substr(0, headerEnd + 1);
    clientFirstBare_ = message.substr(headerEnd + 1);
    std::string_view rest = clientFirstBare_;
    const auto escaped = takeAttribute(rest, 'n');
    const auto clientNonce = takeAttribute(rest, 'r');
    const auto name = escaped ? unescapeName(*escaped) : std::nullopt;
    if (!name || !clientNonce || clientNonce->empty()) {
        return {};
    }
    user_ = *name;
    digest_ = digest;
    nonce_ = std::string(*clientNonce) + crypto::toBase64(crypto::randomBytes(kServerNonceBytes));
    serverFirst_ = "r=" + nonce_ + ",s=" + crypto::toBase64(users_.salt(digest, user_)) +
                   ",i=" + std::to_string(UserStore::kIterations);
    return {SaslStatus::Continue, serverFirst_};
}

SaslAnswer SaslExchange::scramFinal(std::string_view message) {
    const auto proofAt = message.rfind(",p=");
    if (proofAt == std::string_view::npos) {
        return {};
    }
    const auto withoutProof = message.substr(0, proofAt);
    const auto proof = crypto::fromBase64(message.substr(proofAt + 3));
    std::string_view rest = withoutProof;
    const auto binding = takeAttribute(rest, 'c');
    const auto nonce = takeAttribute(rest, 'r');
    if (!proof || !binding || *binding != crypto::toBase64(gs2Header_) || !nonce ||
        *nonce != nonce_) {
        return {};
    }
    const auto keys = users_.scramKeys(digest_, user_);
    const auto authMessage =
            clientFirstBare_ + "," + serverFirst_ + "," + std::string(withoutProof);
    const auto clientSignature = crypto::hmac(digest_, keys.storedKey, authMessage);
    if (proof->size() != clientSignature.size()) {
        return {};
    }
    const auto clientKey = exclusiveOr(*proof, clientSignature);
    if (!crypto::equalConstantTime(crypto::hash(digest_, clientKey), keys.storedKey)) {
        return {};
    }
    return {SaslStatus::Success,
            "v=" + crypto::toBase64(crypto::hmac(digest_, keys.serverKey, authMessage))};
}

}  // namespace kv::server
