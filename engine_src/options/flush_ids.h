// Build switch ENGINE_FLUSH_IDS: whether the store collects the ids of a transaction in a vector
// next to its requests, as the historic store did for an interface that no longer used them; none:
// it does not.
#pragma once

#include <string_view>
#include <vector>

namespace kv::options {

struct IdsVector {
    static constexpr std::string_view kName = "vector";
    /// The views point into the items, which the requests keep alive until clear().
    void add(std::string_view key) { ids_.push_back(key); }
    void clear() {
        ids_.clear();
        ids_.shrink_to_fit();
    }
    [[nodiscard]] size_t size() const { return ids_.size(); }

  private:
    std::vector<std::string_view> ids_;
};

struct NoIds {
    static constexpr std::string_view kName = "none";
    void add(std::string_view) {}
    void clear() {}
    [[nodiscard]] size_t size() const { return 0; }
};

}  // namespace kv::options
