// Arguments and results of a CheckpointManager: plain data, no locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/cursor.h"
#include "types/ids.h"
#include "types/item.h"

namespace kv {

enum class GenerateSeqno : bool { No, Yes };  ///< No: a replica, the item carries its seqno
enum class GenerateCas : bool { No, Yes };    ///< No: a replica, the item carries its CAS

enum class QueueStatus : uint8_t {
    NewItem,       ///< the key had no entry in the open checkpoint
    ExistingItem,  ///< an unpersisted entry of the key was replaced: nothing more to persist
    PersistAgain,  ///< an entry of the key was replaced that persistence had already taken
};

struct QueueResult {
    Seqno seqno{};
    Cas cas{};
    QueueStatus status{QueueStatus::NewItem};
};

/// The starting point of a manager: all zero for a new vBucket, the persisted state after a
/// restart.
struct CheckpointStart {
    Seqno highSeqno{};
    SnapshotRange snapshot{};
    Cas maxCas{};
};

/// One checkpoint's part of the items that a cursor read.
struct CursorRange {
    SnapshotRange
            snapshot{};  ///< the checkpoint's; consistent once all of its items have been received
    CheckpointType type{CheckpointType::Memory};
    size_t items{0};  ///< number of CursorItems::items that belong to it
};

struct CursorItems {
    std::vector<ItemPtr> items;       ///< ascending seqnos
    std::vector<CursorRange> ranges;  ///< ascending; empty if there was nothing to read
    bool more{false};                 ///< a limit stopped the read
};

struct CursorRegistration {
    CursorPtr cursor;
    Seqno nextSeqno{};  ///< the first seqno the cursor can deliver (an existing or a future one)
    bool needsBackfill{
            false};  ///< seqnos between what the reader has and nextSeqno may exist outside memory
};

struct CheckpointStats {
    CheckpointId openId{};
    Seqno highSeqno{};
    SnapshotRange openSnapshot{};
    Cas maxCas{};
    size_t checkpoints{0};
    size_t openItems{0};
    size_t cursors{0};
    size_t memory{0};
    size_t unpersisted{0};
};

}  // namespace kv
