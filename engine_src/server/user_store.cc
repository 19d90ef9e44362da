#include "server/user_store.h"

#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace kv::server {

namespace {

constexpr std::array kDigests{crypto::Digest::Sha1, crypto::Digest::Sha256, crypto::Digest::Sha512};

}  // namespace

std::map<std::string, std::string> readUserFile(const std::filesystem::path& file) {
    struct stat info {};
    if (::stat(file.c_str(), &info) != 0) {
        throw UserFileError("users file " + file.string() + ": cannot be read");
    }
    if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        throw UserFileError("users file " + file.string() +
                            ": readable by others; chmod 600 it first");
    }
    std::ifstream in(file);
    const auto json = nlohmann::json::parse(in, nullptr, false);
    if (!json.is_object() || json.empty()) {
        throw UserFileError("users file " + file.string() +
                            R"(: expected a JSON object {"name": "password"})");
    }
    std::map<std::string, std::string> passwords;
    for (const auto& [name, password] : json.items()) {
        if (name.empty() || !password.is_string() ||
            password.get_ref<const std::string&>().empty()) {
            throw UserFileError("users file " + file.string() + ": user '" + name +
                                "' needs a non-empty name and a non-empty string as password");
        }
        passwords.emplace(name, password.get<std::string>());
    }
    return passwords;
}

UserStore UserStore::load(const std::filesystem::path& file) {
    return UserStore(readUserFile(file));
}

UserStore::UserStore(const std::map<std::string, std::string>& passwords)
    : secret_(crypto::randomBytes(32)) {
    for (const auto& [name, password] : passwords) {
        Entry entry;
        for (const auto digest : kDigests) {
            const auto salted = crypto::pbkdf2(digest, password, salt(digest, name), kIterations);
            entry.scram[static_cast<size_t>(digest)] = {
                    crypto::hash(digest, crypto::hmac(digest, salted, "Client Key")),
                    crypto::hmac(digest, salted, "Server Key")};
        }
        entry.passwordMac = mac("plain", name, password);
        users_.emplace(name, std::move(entry));
    }
}

std::string UserStore::mac(std::string_view purpose, std::string_view name,
                           std::string_view data) const {
    std::string message(purpose);
    message.append(1, '\0').append(name).append(1, '\0').append(data);
    return crypto::hmac(crypto::Digest::Sha256, secret_, message);
}

std::string UserStore::salt(crypto::Digest digest, std::string_view name) const {
    return mac("salt", name, std::to_string(static_cast<int>(digest))).substr(0, 16);
}

ScramKeys UserStore::scramKeys(crypto::Digest digest, std::string_view name) const {
    // Computed for everybody, so that a known name is not answered faster.
    const auto decoy = crypto::hmac(digest, secret_, name);
    const auto found = users_.find(name);
    return found == users_.end() ? ScramKeys{decoy, decoy}
                                 : found->second.scram[static_cast<size_t>(digest)];
}

bool UserStore::checkPassword(std::string_view name, std::string_view password) const {
    const auto offered = mac("plain", name, password);
    const auto decoy = mac("nobody", name, password);
    const auto found = users_.find(name);
    return crypto::equalConstantTime(found == users_.end() ? decoy : found->second.passwordMac,
                                     offered);
}

}  // namespace kv::server
