// Random numbers that no other start of the process draws: for what must not repeat, where nothing
// is remembered. Any thread.
#pragma once

#include <cstdint>

namespace kv {

[[nodiscard]] uint64_t randomBits();

}  // namespace kv
