#include "types/string_hash.h"

#include "types/key_hash.h"

namespace kv {

size_t StringHash::operator()(std::string_view text) const noexcept {
    return hashKey(text);
}

}  // namespace kv
