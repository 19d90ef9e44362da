// ClusterFence: prevents a restarted node from serving vBuckets that another node may serve now.
//
// The revision of the newest cluster config that was published here is stored in a file. A start
// that finds the file raises the fence: vBuckets that were active become pending, those that were
// never stored stay dead, and SET_VBUCKET to active makes a vBucket pending. The first config that
// is at least as new as the stored one lowers the fence: pending vBuckets that it lists as active
// here become active. Without a stored config there is no fence.
//
// Threads: any; only publish() waits for the disk, and nobody waits for that. Ownership: the bucket
// outlives it.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>

#include "bucket/bucket.h"
#include "protocol/extras.h"
#include "server/replication/cluster_config.h"
#include "server/stats/key_values.h"
#include "types/fd.h"

namespace kv::server {

class ClusterFence {
  public:
    /// Reads the file and raises the fence if there is one. Throws StoreError, also if another
    /// node uses the file.
    ClusterFence(Bucket& bucket, std::filesystem::path file);
    ClusterFence(const ClusterFence&) = delete;
    ClusterFence& operator=(const ClusterFence&) = delete;

    [[nodiscard]] bool isUp() const;
    /// As Bucket::setVBucketState, except for vBuckets that must not become active yet.
    OpStatus setVBucketState(Vbid vbid, VbState state, const OpTime& now, Bucket::IfBusy ifBusy);
    /// Stores the config's revision and makes the config current. Returns KeyExists without any
    /// change if the config is not newer than the current one, or is older than the stored one;
    /// TmpFail if the revision cannot be stored. Throws std::bad_alloc if some vBuckets could not
    /// become active: the fence stays up, and publishing the config again activates the rest.
    OpStatus publish(const std::shared_ptr<const ClusterConfig>& config, PublishedConfig& inForce);
    [[nodiscard]] KeyValues stats() const;

  private:
    void store(protocol::ConfigVersion version);
    void lower(const ClusterConfig& config);

    Bucket& bucket_;
    const std::filesystem::path file_;
    Fd lock_;                   ///< held while the file is that of this node
    std::mutex publishing_;     ///< guards the file and its lock; taken before mutex_
    mutable std::mutex mutex_;  ///< guards everything below, and changes that depend on it
    std::optional<protocol::ConfigVersion> stored_;
    bool up_{false};
};

}  // namespace kv::server
