// TransactionContext: receives the outcome of each request of a transaction when it is stored or
// has failed.
//
// Ownership: given to the store at begin(), which destroys it after the last callback of commit().
// Threads: all calls come from the thread that commits.
#pragma once

#include <cstdint>

#include "types/ids.h"
#include "types/item.h"

namespace kv {

enum class PersistSetStatus : uint8_t {
    Insert,  ///< the key was not in the store, or was a tombstone there
    Update,  ///< a live document was replaced
    Failed,  ///< nothing of the transaction was stored
};
enum class PersistDeleteStatus : uint8_t {
    Success,      ///< a live document was replaced by the tombstone
    DocNotFound,  ///< the tombstone was stored; there was no live document
    Failed,
};

class TransactionContext {
  public:
    explicit TransactionContext(Vbid id) : vbid(id) {}
    TransactionContext(const TransactionContext&) = delete;
    TransactionContext& operator=(const TransactionContext&) = delete;
    virtual ~TransactionContext() = default;

    virtual void setCallback(const Item& /*item*/, PersistSetStatus /*status*/) {}
    virtual void deleteCallback(const Item& /*item*/, PersistDeleteStatus /*status*/) {}

    const Vbid vbid;
};

}  // namespace kv
