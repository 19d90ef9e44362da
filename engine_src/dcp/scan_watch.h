// ScanWatch: closes the backfill scans that have been open for too long or that pin too much.
//
// A stream whose client does not read keeps its scan open, and with it old versions in memory or
// replaced files on disk. Closing the scan loses nothing: when the client has read the waiting
// messages, the stream opens another one at the same position. It closes scans that have not
// advanced for BackfillLimits::idleSeconds (or for a second, while another stream waits for a
// slot), scans older than ageSeconds, and the oldest ones while all together pin more than their
// source allows.
//
// Threads: run() by one task; stats() by any.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "dcp/active_stream.h"
#include "dcp/limits.h"
#include "executor/task.h"
#include "memory/bucket_memory.h"

namespace kv::dcp {

class ScanWatch {
  public:
    ScanWatch(BackfillSource& source, const BackfillLimits& limits)
        : source_(source), limits_(limits) {}
    ScanWatch(const ScanWatch&) = delete;
    ScanWatch& operator=(const ScanWatch&) = delete;

    using Streams = std::vector<std::shared_ptr<ActiveStream>>;
    /// Checks all streams of the node. The caller holds a BucketMemoryGuard of the bucket.
    void run(const Streams& streams, TaskTime now);

    struct Stats {
        size_t open{0};      ///< open scans
        TaskTime oldest{0};  ///< age of the oldest of them, at the last run
        size_t pinned{0};    ///< bytes that they pin, at the last run
        uint64_t closed{0};  ///< closed by this watch in total
    };
    [[nodiscard]] Stats stats() const;

  private:
    struct Seen {
        TaskTime opened{};
        TaskTime moved{};
        uint64_t reads{0};
    };
    struct Open {
        const std::shared_ptr<ActiveStream>* stream;
        TaskTime opened{};
    };
    /// Closes the scans that are due and returns those that stay open.
    std::vector<Open> closeDue(const Streams& streams, TaskTime now);
    void closeWhatPinsTooMuch(std::vector<Open>& open);
    bool close(ActiveStream& stream);

    BackfillSource& source_;
    const BackfillLimits limits_;
    std::unordered_map<uint64_t, Seen> seen_;  ///< by the scan's number
    BucketMemory* memory_{nullptr};            ///< the bucket's, while it runs
    uint64_t closed_{0};
    mutable std::mutex mutex_;
    Stats stats_;  ///< guarded by mutex_
};

}  // namespace kv::dcp
