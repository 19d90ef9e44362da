#pragma once

#include <stdexcept>

namespace kv::load {

/// The connection, the authentication or the protocol failed: the tool ends with exit status 1.
class LoadError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace kv::load
