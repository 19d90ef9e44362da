// A scan of one vBucket by seqno, from RocksDB's snapshot at the time when it was opened.
//
// ThreadSanitizer cannot see how RocksDB publishes the bytes that a scan reads, so tests/tsan.supp
// leaves this file out: keep all other code out of it.
#pragma once

#include <memory>

#include "persistence/kvstore.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
class Snapshot;
}  // namespace rocksdb

namespace kv::rocks {

/// Opens a scan of the documents of `vbid` whose seqnos are `from` to `to`, both included.
/// `family` is the one of documents by seqno, `state` what scan->state() returns. The snapshot is
/// needed during the call only. Throws StoreError.
std::unique_ptr<SeqnoScan> openScan(rocksdb::DB& db, const rocksdb::Snapshot* snapshot,
                                    rocksdb::ColumnFamilyHandle* family, PersistedVbState state,
                                    Vbid vbid, Seqno from, Seqno to);

}  // namespace kv::rocks
