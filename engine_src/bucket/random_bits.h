// Random numbers that differ between all starts of the process, for values that must not repeat
// although nothing is stored. Threads: any.
#pragma once

#include <cstdint>

namespace kv {

[[nodiscard]] uint64_t randomBits();

}  // namespace kv
