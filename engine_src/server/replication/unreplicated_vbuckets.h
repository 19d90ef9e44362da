// UnreplicatedVBuckets: the replica vBuckets that a ReplicationSession does not replicate, with the
// reason of each, for STAT replication. There are two reasons: the source refused the stream, or
// the replica keeps its copy because the source has another history.
//
// A reason is valid in the term of the vBucket in which it was recorded: a vBucket that has been
// promoted or emptied since then is not reported.
//
// Threads: one thread uses it, but addStats() may run on any. Ownership: the bucket outlives it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <variant>

#include "bucket/bucket.h"
#include "protocol/status.h"
#include "server/stats/key_values.h"

namespace kv::server {

/// Returns the number of documents of a vBucket, without deleted ones.
uint64_t documentsIn(const VBucket& vbucket);

class UnreplicatedVBuckets {
  public:
    struct KeptCopy {
        Seqno sourceHigh;
        bool forGood;  ///< the source was active: its history can never become this one
    };

    explicit UnreplicatedVBuckets(const Bucket& bucket) : bucket_(bucket) {}

    /// Records that the source refused the stream. Returns false if it did so with this status
    /// before.
    bool addRefusal(Vbid vbid, uint64_t term, protocol::Status status);
    /// Records that the copy is kept. Returns false if it was kept before.
    bool addKeptCopy(Vbid vbid, uint64_t term, const KeptCopy& copy);
    /// Call it when the vBucket is replicated, or is not to be replicated any more.
    void remove(Vbid vbid);
    [[nodiscard]] bool isKeptForGood(Vbid vbid) const;

    /// Appends the number of vBuckets with each reason, and one figure for each such vBucket.
    void addStats(KeyValues& stats) const;

  private:
    struct Entry {
        uint64_t term;
        std::variant<KeptCopy, protocol::Status> reason;
    };

    const Bucket& bucket_;
    mutable std::mutex mutex_;  ///< guards entries_, which only the session's thread changes
    std::map<Vbid, Entry> entries_;
};

}  // namespace kv::server
