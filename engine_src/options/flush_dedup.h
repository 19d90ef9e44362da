// Build switch ENGINE_FLUSH_DEDUP: how the store remembers, until the callbacks run, which keys of
// a transaction were live documents before it. map: every key with a flag. set: only the keys that
// were live, so inserts cost nothing.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>

#include "types/string_hash.h"

namespace kv::options {

struct DedupMap {
    static constexpr std::string_view kName = "map";
    void add(std::string_view key, bool wasLive) { keys_.emplace(key, wasLive); }
    [[nodiscard]] bool wasLive(std::string_view key) const {
        const auto found = keys_.find(key);
        return found != keys_.end() && found->second;
    }
    void clear() { keys_.clear(); }

  private:
    std::map<std::string, bool, std::less<>> keys_;
};

struct DedupSet {
    static constexpr std::string_view kName = "set";
    void add(std::string_view key, bool wasLive) {
        if (wasLive) {
            keys_.emplace(key);
        }
    }
    [[nodiscard]] bool wasLive(std::string_view key) const { return keys_.contains(key); }
    void clear() { decltype(keys_)().swap(keys_); }

  private:
    std::unordered_set<std::string, StringHash, std::equal_to<>> keys_;
};

}  // namespace kv::options
