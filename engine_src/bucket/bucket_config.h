// The settings of a bucket. Immutable while it lives, except the quota (Bucket::setQuota).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/checkpoint_config.h"

namespace kv {

enum class BucketType : uint8_t { Persistent, Ephemeral };

constexpr std::string_view toString(BucketType type) {
    return type == BucketType::Persistent ? "persistent" : "ephemeral";
}

struct BucketConfig {
    std::string name{"default"};
    size_t quotaBytes{size_t{1024} << 20};
    uint16_t vbuckets{1024};
    uint32_t htSize{47};   ///< initial (and smallest) number of hash buckets of a vBucket
    uint32_t htLocks{47};  ///< bucket locks of a vBucket
    uint32_t maxKeyBytes{250};
    uint32_t maxValueBytes{20u << 20};
    uint32_t ephemeralPurgeAgeS{60};           ///< ephemeral: older tombstones may be removed
    uint32_t persistentPurgeAgeS{3 * 86'400};  ///< persistent: the same for tombstones on disk
    double lowWatermark{0.75};
    double highWatermark{0.85};
    double mutationThreshold{0.93};  ///< above it mutations get TmpFail or NoMemory
    CheckpointConfig checkpoint{};
};

}  // namespace kv
