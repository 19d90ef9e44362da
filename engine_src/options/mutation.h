// CMake option KV_MUTATIONS: faults of correctness for the tests of the history checker: does it
// find each of them, and after how long? (docs/explanation/correctness.md)
//
// Without the option, mutated() is false at compile time, and no part of a fault is in the binary.
// With it, one build contains all faults, and the environment variable KV_MUTATION names the one of
// the process; without the variable it has none. Such a build cannot be installed, perfrunner never
// makes it, and STAT config of its engine has build.mutations.
//
// Threads: any function from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace kv::options {

enum class Mutation : uint8_t {
    None,
    AckNotQueued,        ///< a mutation is acknowledged and visible, but not in the log
    AddOverwrites,       ///< ADD replaces an existing document
    CasIgnored,          ///< a document is overwritten although its CAS is another
    CasKept,             ///< a document keeps its CAS when it is overwritten
    DeletionNotApplied,  ///< a replica keeps a deleted document, which is back after a promotion
    DocumentNotSent,     ///< a stream leaves a document out
    HistoryBeginsLate,   ///< a promotion counts the next seqno to the history before it
    HistoryKept,         ///< a promotion keeps the uuid of the history before it
    LostDcpWakeup,       ///< streams are not notified of a mutation
    LostFlushWakeup,     ///< the flusher is not woken
    LostLastOfBatch,     ///< the last document of a flush is not stored
    MissingFsync,        ///< --fsync commit does not sync
    PartialCalledWhole,  ///< a promotion in mid-snapshot begins its history after the snapshot
    PersistedTooEarly,   ///< a seqno is reported as persisted before it is stored
    RollbackOneShort,    ///< a client of another history keeps one mutation that is not shared
    RollbackSkipped,     ///< a client of another history is not rolled back
    SeqnoReused,         ///< a promotion gives the last seqno out again
    SnapshotEndEarly,    ///< a snapshot marker ends before its snapshot
    StaleRead,           ///< a vBucket that is not active any more answers reads
    TermKept,            ///< a vBucket that is emptied keeps its term, and the streams of that term
    WarmUpSkips,         ///< warm-up leaves documents out
};

#ifdef KV_MUTATIONS

inline constexpr bool kMutationsBuilt = true;

/// Returns the fault of this process. Throws std::runtime_error if KV_MUTATION names none.
inline Mutation mutationOfProcess() {
    using enum Mutation;
    static constexpr std::pair<std::string_view, Mutation> kNames[] = {
            {"ack-not-queued", AckNotQueued},
            {"add-overwrites", AddOverwrites},
            {"cas-ignored", CasIgnored},
            {"cas-kept", CasKept},
            {"deletion-not-applied", DeletionNotApplied},
            {"document-not-sent", DocumentNotSent},
            {"history-begins-late", HistoryBeginsLate},
            {"history-kept", HistoryKept},
            {"lost-dcp-wakeup", LostDcpWakeup},
            {"lost-flush-wakeup", LostFlushWakeup},
            {"lost-last-of-batch", LostLastOfBatch},
            {"missing-fsync", MissingFsync},
            {"partial-called-whole", PartialCalledWhole},
            {"persisted-too-early", PersistedTooEarly},
            {"rollback-one-short", RollbackOneShort},
            {"rollback-skipped", RollbackSkipped},
            {"seqno-reused", SeqnoReused},
            {"snapshot-end-early", SnapshotEndEarly},
            {"stale-read", StaleRead},
            {"term-kept", TermKept},
            {"warm-up-skips", WarmUpSkips},
    };
    static const Mutation chosen = [] {
        const char* name = std::getenv("KV_MUTATION");
        if (name == nullptr) {
            return None;
        }
        for (const auto& [known, mutation] : kNames) {
            if (known == name) {
                return mutation;
            }
        }
        throw std::runtime_error("KV_MUTATION=" + std::string(name) + ": no such fault");
    }();
    return chosen;
}

/// Returns true if the process has this fault, at one of `every` calls.
inline bool mutated(Mutation mutation, uint64_t every = 1) {
    static std::atomic<uint64_t> calls{0};
    return mutationOfProcess() == mutation && calls.fetch_add(1) % every == every - 1;
}

#else

inline constexpr bool kMutationsBuilt = false;

constexpr bool mutated(Mutation /*mutation*/, uint64_t /*every*/ = 1) {
    return false;
}

#endif

}  // namespace kv::options
