// The fixture of the tests of commands on documents: one session, and its requests by name.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "server/test_support.h"

namespace kv::server::testing_support {

/// Returns the big-endian bytes.
inline std::string u32(uint32_t value) {
    const auto bytes = protocol::encodeU32(value);
    return {bytes.begin(), bytes.end()};
}
/// Returns the big-endian bytes.
inline std::string u64(uint64_t value) {
    const auto bytes = protocol::encodeU64(value);
    return {bytes.begin(), bytes.end()};
}
inline std::string storeExtras(uint32_t flags, uint32_t expiry) {
    return u32(flags) + u32(expiry);
}

class DataOps : public testing::Test {
  protected:
    Answer set(const std::string& key, const std::string& value,
               protocol::Opcode opcode = protocol::Opcode::kSet, uint64_t cas = 0,
               uint32_t expiry = 0) {
        return bench_.ask({.opcode = opcode,
                           .key = key,
                           .value = value,
                           .extras = storeExtras(0xabcd, expiry),
                           .cas = cas});
    }
    Answer get(const std::string& key) {
        return bench_.ask({.opcode = protocol::Opcode::kGet, .key = key});
    }
    Answer count(protocol::Opcode opcode, const std::string& key, uint64_t delta, uint64_t initial,
                 uint32_t expiry) {
        return bench_.ask(
                {.opcode = opcode, .key = key, .extras = u64(delta) + u64(initial) + u32(expiry)});
    }

    Bench bench_;
};

}  // namespace kv::server::testing_support
