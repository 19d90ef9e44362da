// TaggedPointer: the address of a StoredValue with 16 bits of its key's hash, in one word.
#pragma once

#include <cstdint>

namespace kv {

class StoredValue;

/// The tag uses the bits that user addresses of x86-64 and variant64 leave free. Empty: no
/// StoredValue.
class TaggedPointer {
  public:
    TaggedPointer() = default;
    TaggedPointer(StoredValue* target, uint16_t tag)
        : bits_(reinterpret_cast<uint64_t>(target) | (static_cast<uint64_t>(tag) << kAddressBits)) {
    }
    [[nodiscard]] StoredValue* get() const {
        // NOLINTNEXTLINE(performance-no-int-to-ptr): a tagged pointer is what this class is
        return reinterpret_cast<StoredValue*>(bits_ & kAddressMask);
    }
    [[nodiscard]] uint16_t tag() const { return static_cast<uint16_t>(bits_ >> kAddressBits); }
    explicit operator bool() const { return bits_ != 0; }

  private:
    static constexpr unsigned kAddressBits = 48;
    static constexpr uint64_t kAddressMask = (uint64_t{1} << kAddressBits) - 1;
    uint64_t bits_{0};
};

}  // namespace kv
