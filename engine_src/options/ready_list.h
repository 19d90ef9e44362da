// The common part of the ready lists of DCP producers: the outcome of a pop, and a ring of
// vBuckets. The designs are in dcp_ready_*.h; dcp_ready.h describes their contract and chooses one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "types/ids.h"

namespace kv::options {

enum class Pop : uint8_t { Ready, Empty, Full };

struct PopResult {
    Pop outcome{Pop::Empty};
    Vbid vbid{};
};

/// First in, first out, with as many places as vBuckets: allocates nothing after construction. Not
/// thread-safe.
class VbidRing {
  public:
    explicit VbidRing(size_t vbuckets) : places_(vbuckets == 0 ? 1 : vbuckets) {}

    [[nodiscard]] size_t size() const { return size_; }
    /// Searches from the front.
    [[nodiscard]] bool contains(Vbid vbid) const {
        for (size_t i = 0; i < size_; ++i) {
            if (places_[(first_ + i) % places_.size()] == vbid) {
                return true;
            }
        }
        return false;
    }
    void push(Vbid vbid) { places_[(first_ + size_++) % places_.size()] = vbid; }
    Vbid pop() {
        const Vbid vbid = places_[first_];
        first_ = first_ + 1 == places_.size() ? 0 : first_ + 1;
        --size_;
        return vbid;
    }

  private:
    std::vector<Vbid> places_;
    size_t first_{0};
    size_t size_{0};
};

}  // namespace kv::options
