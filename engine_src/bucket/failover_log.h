// FailoverLog: the histories of a vBucket, newest first. A new entry is made each time the vBucket
// becomes active here.
//
// Threads: any (a mutex; the newest uuid, which every mutation's answer carries, is one atomic
// load).
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "persistence/stored_types.h"
#include "types/ids.h"

namespace kv {

class FailoverLog {
  public:
    static constexpr size_t kMaxEntries = 25;

    FailoverLog() = default;

    [[nodiscard]] VbUuid uuid() const { return VbUuid{uuid_.load(std::memory_order_acquire)}; }
    [[nodiscard]] std::vector<FailoverEntry> entries() const;
    /// Returns the oldest history that has `seqno` as this vBucket has it: anyone who shares a
    /// newer one shares that one as well.
    [[nodiscard]] VbUuid uuidOf(Seqno seqno) const;
    /// Does everything that may fail in begin(): reserves room and makes a new uuid.
    [[nodiscard]] VbUuid prepare();
    /// Begins a new history with a prepared uuid that owns the seqnos after `highSeqno`. Drops
    /// entries of histories whose seqnos never came into being; of too many entries, the oldest
    /// without a seqno of its own, or else the oldest.
    void begin(VbUuid uuid, Seqno highSeqno) noexcept;
    /// Takes over a stored or received log.
    void replace(std::vector<FailoverEntry> entries);

  private:
    mutable std::mutex mutex_;
    std::vector<FailoverEntry> entries_;
    std::atomic<uint64_t> uuid_{0};
};

}  // namespace kv
