#pragma once

#include <stdexcept>
#include <string>

namespace kv::load {

/// The connection, the authentication or the protocol failed: the tool ends with exit status 1.
class LoadError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// Runs `action` and prefixes a LoadError of it with the server's name.
template <typename Action>
auto about(const std::string& server, const Action& action) {
    try {
        return action();
    } catch (const LoadError& error) {
        throw LoadError(server + ": " + error.what());
    }
}

}  // namespace kv::load
