#include "server/login/user_store.h"

#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

namespace kv::server {

namespace {

constexpr std::array kDigests{crypto::Digest::Sha1, crypto::Digest::Sha256, crypto::Digest::Sha512};

constexpr std::pair<std::string_view, Role> kRoles[] = {
        {"read-only", Role::ReadOnly}, {"read-write", Role::ReadWrite}, {"admin", Role::Admin}};

/// Returns the text if it is not empty, otherwise nothing.
std::optional<std::string> textOf(const nlohmann::json& json) {
    if (!json.is_string() || json.get_ref<const std::string&>().empty()) {
        return std::nullopt;
    }
    return json.get<std::string>();
}

std::optional<User> userOf(const nlohmann::json& json) {
    if (auto password = textOf(json)) {
        return User{*password, Role::Admin};
    }
    if (!json.is_object() || json.size() != 2 || !json.contains("password") ||
        !json.contains("role")) {
        return std::nullopt;
    }
    const auto password = textOf(json["password"]);
    const auto role = textOf(json["role"]);
    for (const auto& [name, value] : kRoles) {
        if (password && role == name) {
            return User{*password, value};
        }
    }
    return std::nullopt;
}

}  // namespace

std::map<std::string, User> readUsers(const std::filesystem::path& file) {
    struct stat info {};
    if (::stat(file.c_str(), &info) != 0) {
        throw UserFileError("users file " + file.string() + ": cannot be read");
    }
    if (S_ISDIR(info.st_mode)) {
        throw UserFileError("users file " + file.string() + ": is a directory");
    }
    if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        throw UserFileError("users file " + file.string() +
                            ": readable by others; chmod 600 it first");
    }
    std::ifstream in(file);
    std::set<std::string> names;
    const auto once = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
        if (depth == 1 && event == nlohmann::json::parse_event_t::key &&
            !names.insert(parsed.get<std::string>()).second) {
            throw UserFileError("users file " + file.string() + ": user '" +
                                parsed.get<std::string>() + "' has two entries");
        }
        return true;
    };
    const auto json = nlohmann::json::parse(in, once, false);
    if (!json.is_object() || json.empty()) {
        throw UserFileError("users file " + file.string() +
                            R"(: expected a JSON object {"name": "password"})");
    }
    std::map<std::string, User> users;
    for (const auto& [name, entry] : json.items()) {
        auto user = userOf(entry);
        if (name.empty() || !user) {
            throw UserFileError(
                    "users file " + file.string() + ": user '" + name +
                    "' needs a non-empty name and a non-empty password, or "
                    R"({"password": "...", "role": "read-only", "read-write" or "admin"})");
        }
        users.emplace(name, *std::move(user));
    }
    return users;
}

std::map<std::string, std::string> readUserFile(const std::filesystem::path& file) {
    std::map<std::string, std::string> passwords;
    for (auto& [name, user] : readUsers(file)) {
        passwords.emplace(name, user.password);
    }
    return passwords;
}

UserStore UserStore::load(const std::filesystem::path& file) {
    return UserStore(readUsers(file));
}

namespace {

std::map<std::string, User> administrators(const std::map<std::string, std::string>& passwords) {
    std::map<std::string, User> users;
    for (const auto& [name, password] : passwords) {
        users.emplace(name, User{password, Role::Admin});
    }
    return users;
}

}  // namespace

UserStore::UserStore(const std::map<std::string, std::string>& passwords)
    : UserStore(administrators(passwords)) {}

UserStore::UserStore(const std::map<std::string, User>& users) : secret_(crypto::randomBytes(32)) {
    for (const auto& [name, user] : users) {
        Entry entry;
        for (const auto digest : kDigests) {
            const auto salted =
                    crypto::pbkdf2(digest, user.password, salt(digest, name), kIterations);
            entry.scram[static_cast<size_t>(digest)] = {
                    crypto::hash(digest, crypto::hmac(digest, salted, "Client Key")),
                    crypto::hmac(digest, salted, "Server Key")};
        }
        entry.passwordMac = mac("plain", name, user.password);
        entry.role = user.role;
        users_.emplace(name, std::move(entry));
    }
}

Role UserStore::role(std::string_view name) const {
    const auto found = users_.find(name);
    return found == users_.end() ? Role::ReadOnly : found->second.role;
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
    // Computed for every name, so that a known name is not answered faster.
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
