// SeqnoListeners: the DCP producers that are notified of a bucket's new seqnos.
//
// Threads: any. A notification takes no lock while nobody listens.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "bucket/read_mostly_mutex.h"
#include "types/ids.h"

namespace kv {

/// Receives every new seqno after the hash-bucket lock has been released. The calls must be quick
/// and must not call back into the bucket. The listener must outlive its registration.
class SeqnoListener {
  public:
    virtual ~SeqnoListener() = default;
    virtual void onSeqno(Vbid vbid, Seqno seqno) noexcept = 0;
    /// A replica rolled back: seqnos that it had are no longer part of its history.
    virtual void onRolledBack(Vbid) noexcept {}
    /// From here on the vBucket has another state, or a replica follows another history. A new
    /// state is reported with every hash-bucket lock of the vBucket held: what was opened before
    /// receives no seqno of the new history.
    virtual void onStateChanged(Vbid) noexcept {}
};

class SeqnoListeners {
  public:
    void add(SeqnoListener* listener);
    /// Returns when no call to the listener is running and none will follow.
    void remove(SeqnoListener* listener);

    void notify(Vbid vbid, Seqno seqno) noexcept {
        if (count_.load(std::memory_order_acquire) != 0) [[unlikely]] {
            notifyAll(vbid, seqno);
        }
    }
    void notifyRolledBack(Vbid vbid) noexcept;
    void notifyStateChanged(Vbid vbid) noexcept;

  private:
    void notifyAll(Vbid vbid, Seqno seqno) noexcept;

    std::atomic<size_t> count_{0};
    ReadMostlyMutex mutex_;  ///< guards listeners_; read with every mutation
    std::vector<SeqnoListener*> listeners_;
};

}  // namespace kv
