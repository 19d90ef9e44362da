// StoreError: the data on disk cannot be read, cannot be written, or is not this engine's.
#pragma once

#include <stdexcept>

namespace kv {

class StoreError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Files were changed or are missing: trying again is useless.
class DamageError : public StoreError {
    using StoreError::StoreError;
};

}  // namespace kv
