// UserStore: the users and their roles, from a JSON file that only its owner can read: {"name":
// "password"} for an administrator, {"name": {"password": "...", "role": "read-only"}} for others
// ("read-write", "admin").
//
// Threads: immutable after load(), so any thread may read it at any time. Passwords are not kept:
// each user has the SCRAM keys of each mechanism and one keyed hash for PLAIN. Unknown names get
// credentials that look and cost the same and never match, so an answer does not reveal whether a
// user exists.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

#include "auth/crypto.h"

namespace kv::server {

/// The part of a password that the server keeps for one SCRAM mechanism (RFC 5802).
struct ScramKeys {
    std::string storedKey;
    std::string serverKey;
};

/// The file is missing, readable by others, not JSON, or not a non-empty object of users.
class UserFileError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// The rights of a user; each role includes those before it.
enum class Role : uint8_t {
    ReadOnly,   ///< read documents and statistics, follow them by DCP
    ReadWrite,  ///< change documents
    Admin,      ///< flush, states of vBuckets, verbosity, reset of statistics
};

struct User {
    std::string password;
    Role role{Role::Admin};
};

/// Reads the users of a file. Throws UserFileError.
std::map<std::string, User> readUsers(const std::filesystem::path& file);
/// Reads only the passwords of a file. Throws UserFileError.
std::map<std::string, std::string> readUserFile(const std::filesystem::path& file);

class UserStore {
  public:
    static constexpr int kIterations = 16'384;

    static UserStore load(const std::filesystem::path& file);
    explicit UserStore(const std::map<std::string, User>& users);
    /// Makes all users administrators.
    explicit UserStore(const std::map<std::string, std::string>& passwords);

    /// The salt of `name` under `digest`: the same at every call in this process, for known and
    /// unknown names.
    [[nodiscard]] std::string salt(crypto::Digest digest, std::string_view name) const;
    /// The keys of `name`; for an unknown name, keys that no proof matches.
    [[nodiscard]] ScramKeys scramKeys(crypto::Digest digest, std::string_view name) const;
    /// The role of a user who has logged in; read-only for an unknown name.
    [[nodiscard]] Role role(std::string_view name) const;
    /// Checks a PLAIN password in constant time.
    [[nodiscard]] bool checkPassword(std::string_view name, std::string_view password) const;

  private:
    struct Entry {
        std::array<ScramKeys, 3> scram;
        std::string passwordMac;
        Role role{Role::ReadOnly};
    };

    [[nodiscard]] std::string mac(std::string_view purpose, std::string_view name,
                                  std::string_view data) const;

    std::string secret_;  ///< random per process; keys the salts, the PLAIN hashes and the decoys
    std::map<std::string, Entry, std::less<>> users_;
};

}  // namespace kv::server
