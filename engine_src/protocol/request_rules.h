// The shape that each request must have before its handler runs: the only table of lengths.
//
// A handler never checks a length again: extras have one of the listed sizes, a required key or
// value is there, a forbidden one is not. Pure functions over a FrameView; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "protocol/frame.h"

namespace kv::protocol {

/// Longest key of a document, bytes.
inline constexpr size_t kMaxKeyLength = 250;
/// Longest value of a document, bytes (a Couchbase document; a plain memcached connection has
/// kMaxMemcachedValue).
inline constexpr size_t kMaxValueLength = size_t{20} << 20;
inline constexpr size_t kMaxMemcachedValue = size_t{1} << 20;
/// Longest cluster config, bytes.
inline constexpr size_t kMaxConfigLength = size_t{1} << 20;
/// Longest value of all other requests, bytes: their handlers visit each byte, some several times.
inline constexpr size_t kMaxOtherValue = size_t{64} << 10;

enum class Part : uint8_t { Forbidden, Optional, Required };

/// The shape of one opcode's request.
struct RequestRule {
    uint64_t extras{0};  ///< bit n set: an extras length of n bytes (0..63) is allowed
    Part key{Part::Forbidden};
    Part value{Part::Forbidden};
    bool known{false};  ///< false: answer UnknownCommand
    Part cas{Part::Optional};
    uint8_t datatypes{Datatype::kJson};  ///< bits that the request may carry
    uint32_t longestValue{kMaxOtherValue};
};

enum class Violation : uint8_t {
    None,
    UnknownOpcode,
    ExtrasLength,
    KeyMissing,
    KeyUnexpected,
    KeyTooLong,
    ValueMissing,
    ValueUnexpected,
    ValueTooLong,
    Datatype,
    CasMissing,
    CasUnexpected,
};

/// Returns the rule of `opcode`; `known` is false for opcodes that this engine does not implement.
const RequestRule& ruleOf(Opcode opcode) noexcept;

/// Returns the first violation in `frame`, according to ruleOf(frame.header.opcode).
Violation validate(const FrameView& frame) noexcept;

/// Returns the text for the error's body, never empty.
std::string_view toString(Violation violation) noexcept;

}  // namespace kv::protocol
