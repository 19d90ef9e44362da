// UserStore: who may log in and do what, from a JSON file that only its owner can read:
// {"name": "password"} for an administrator, {"name": {"password": "...", "role": "read-only"}} for
// others ("read-write", "admin").
//
// Immutable after load(), so any thread may ask at any time. Passwords are not kept: per user there
// are the SCRAM keys of each mechanism and one keyed hash for PLAIN. Names that do not exist get
// credentials that look and cost the same and never match, so that an answer does not tell whether
// a user exists.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

#include "auth/crypto.h"

namespace kv::server {

/// What the server keeps of a password for one SCRAM mechanism (RFC 5802).
struct ScramKeys {
    std::string storedKey;
    std::string serverKey;
};

/// The file is missing, readable by others, not JSON, or not a non-empty object of users.
class UserFileError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// What a user may do; each may also do what those before it may.
enum class Role : uint8_t {
    ReadOnly,   ///< read documents and statistics, follow them by DCP
    ReadWrite,  ///< change documents
    Admin,      ///< flush, states of vBuckets, verbosity, reset of statistics
};

struct User {
    std::string password;
    Role role{Role::Admin};
};

/// The users of such a file; throws UserFileError.
std::map<std::string, User> readUsers(const std::filesystem::path& file);
/// Only their passwords.
std::map<std::string, std::string> readUserFile(const std::filesystem::path& file);

class UserStore {
  public:
    static constexpr int kIterations = 4096;

    static UserStore load(const std::filesystem::path& file);
    explicit UserStore(const std::map<std::string, User>& users);
    /// Administrators.
    explicit UserStore(const std::map<std::string, std::string>& passwords);

    /// Salt of `name` under `digest`: the same at every call in this process, whether the user
    /// exists or not.
    [[nodiscard]] std::string salt(crypto::Digest digest, std::string_view name) const;
    /// Keys of `name`; of an unknown name keys that no proof matches.
    [[nodiscard]] ScramKeys scramKeys(crypto::Digest digest, std::string_view name) const;
    /// Role of a user who has logged in; read-only for an unknown name.
    [[nodiscard]] Role role(std::string_view name) const;
    /// Constant-time check for PLAIN.
    [[nodiscard]] bool checkPassword(std::string_view name, std::string_view password) const;

  private:
    struct Entry {
        std::array<ScramKeys, 3> scram;
        std::string passwordMac;
        Role role{Role::ReadOnly};
    };

    [[nodiscard]] std::string mac(std::string_view purpose, std::string_view name,
                                  std::string_view data) const;

    std::string secret_;  ///< random per process: keys the salts, the PLAIN hashes and the decoys
    std::map<std::string, Entry, std::less<>> users_;
};

}  // namespace kv::server
