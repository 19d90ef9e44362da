// StoreError: what is on disk cannot be read, written, or is not this engine's.
#pragma once

#include <stdexcept>

namespace kv {

class StoreError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace kv
