#include "server/replication/cluster_fence.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "logging/log.h"
#include "persistence/checked_file.h"
#include "persistence/store_error.h"

namespace kv::server {

namespace {

/// Its revision is that of one node. A bucket without a disk locks no directory.
Fd lockFor(const std::filesystem::path& file) {
    return lockFile(file.parent_path() / "cluster.lock");
}

std::optional<protocol::ConfigVersion> readStored(const std::filesystem::path& file) {
    try {
        const auto line = readChecked(file);
        if (!line) {
            return std::nullopt;
        }
        const auto stored = nlohmann::json::parse(*line);
        return protocol::ConfigVersion{stored.at("revEpoch").get<int64_t>(),
                                       stored.at("rev").get<int64_t>()};
    } catch (const DamageError& error) {
        throw DamageError(std::string(error.what()) +
                          ": the cluster config under which this node served is unknown. "
                          "Remove the file if no other node serves its vBuckets");
    }
}

}  // namespace

ClusterFence::ClusterFence(Bucket& bucket, std::filesystem::path file)
    : bucket_(bucket),
      file_(std::move(file)),
      lock_(std::filesystem::exists(file_) ? lockFor(file_) : Fd()),
      stored_(readStored(file_)),
      up_(stored_.has_value()) {
    if (!up_) {
        return;
    }
    size_t held = 0;
    const auto now = OpTime::now();
    for (uint16_t id = 0; id < bucket_.vbucketCount(); ++id) {
        if (bucket_.vbucket(Vbid{id}).state() == VbState::Active) {
            bucket_.setVBucketState(Vbid{id}, VbState::Pending, now);
            ++held;
        }
    }
    log::warn(
            "this node served under the cluster config {}:{}: {} vBuckets that were active are "
            "pending until this config or a newer one is published",
            stored_->epoch, stored_->revision, held);
}

bool ClusterFence::isUp() const {
    const std::lock_guard lock(mutex_);
    return up_;
}

OpStatus ClusterFence::setVBucketState(Vbid vbid, VbState state, const OpTime& now,
                                       Bucket::IfBusy ifBusy) {
    const std::lock_guard lock(mutex_);
    const bool early = up_ && state == VbState::Active;
    return bucket_.setVBucketState(vbid, early ? VbState::Pending : state, now, ifBusy);
}

OpStatus ClusterFence::publish(const std::shared_ptr<const ClusterConfig>& config,
                               PublishedConfig& inForce) {
    const std::lock_guard publishing(publishing_);  // nobody else changes stored_
    const auto version = config->version();
    const auto current = inForce.current()->version();
    // Behind the fence, the current config was not applied to every vBucket: it is accepted again.
    const bool isOld = isUp() ? version < current : version <= current;
    if (isOld || (stored_ && version < *stored_)) {
        return OpStatus::KeyExists;
    }
    if (stored_ != version) {
        try {
            store(version);
        } catch (const StoreError& error) {
            log::error("cluster config {}:{}: {}", version.epoch, version.revision, error.what());
            return OpStatus::TmpFail;
        }
    }
    const std::lock_guard lock(mutex_);
    stored_ = version;
    // Before vBuckets become active: operations on them depend on the config.
    inForce.publish(config);
    if (up_) {
        lower(*config);
        up_ = false;
    }
    return OpStatus::Ok;
}

void ClusterFence::store(protocol::ConfigVersion version) {
    std::error_code error;
    // If it fails, so does the next step, which reports the error.
    std::filesystem::create_directories(file_.parent_path(), error);
    if (!lock_) {
        lock_ = lockFor(file_);
    }
    writeChecked(file_,
                 nlohmann::json({{"revEpoch", version.epoch}, {"rev", version.revision}}).dump());
}

void ClusterFence::lower(const ClusterConfig& config) {
    const auto now = OpTime::now();
    size_t active = 0;
    size_t elsewhere = 0;
    for (uint16_t id = 0; id < bucket_.vbucketCount(); ++id) {
        if (bucket_.vbucket(Vbid{id}).state() == VbState::Pending) {
            if (config.isActiveHere(id)) {
                bucket_.setVBucketState(Vbid{id}, VbState::Active, now);
                ++active;
            } else {
                ++elsewhere;
            }
        }
    }
    log::info("cluster config {}:{}: {} pending vBuckets are active again", config.version().epoch,
              config.version().revision, active);
    if (elsewhere != 0) {
        log::warn("{} vBuckets stay pending: the cluster config names other nodes as active",
                  elsewhere);
    }
}

KeyValues ClusterFence::stats() const {
    const std::lock_guard lock(mutex_);
    return {{"ep_cluster_config_stored",
             stored_ ? fmt::format("{}:{}", stored_->epoch, stored_->revision) : "none"},
            {"ep_cluster_fence", up_ ? "up" : "down"}};
}

}  // namespace kv::server
