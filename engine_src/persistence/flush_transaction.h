// FlushTransaction: one flush of one vBucket as the store's client sees it: begin, set and del,
// commit, callbacks.
//
// Holds the requests until the store has answered, then tells the TransactionContext about each of
// them. What a request weighs is what the flush switches decide: see options/flush_callback.h,
// flush_ids.h, flush_dedup.h. Ownership: owns context and requests; the store must outlive it.
// Thread rules: one thread.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <utility>

#include "persistence/flush_options.h"
#include "persistence/kvstore.h"
#include "persistence/transaction_context.h"

namespace kv {

template <class Options>
class BasicFlushTransaction {
  public:
    using Callback = typename Options::Callback;

    BasicFlushTransaction(KVStore& store, std::unique_ptr<TransactionContext> context,
                          size_t bytesHint)
        : store_(store), context_(std::move(context)) {
        store_.begin(context_->vbid, bytesHint);
        open_ = true;
    }
    BasicFlushTransaction(const BasicFlushTransaction&) = delete;
    BasicFlushTransaction& operator=(const BasicFlushTransaction&) = delete;
    ~BasicFlushTransaction() {
        if (open_) {
            store_.abandon();
        }
    }

    /// What set() and del() will be called for, in this order.
    void expect(std::span<const ItemPtr> items) { store_.expect(items); }
    void set(typename Callback::Set request) { add(*itemOf(request), std::move(request)); }
    void del(typename Callback::Delete request) { add(*itemOf(request), std::move(request)); }

    /// Stores everything and runs every request's callback, also when storing failed. True when it
    /// is stored.
    bool commit(const PersistedVbState& state) {
        open_ = false;
        const bool stored = store_.commit(state);
        for (const Request& request : requests_) {
            const bool wasLive = stored && liveBefore_.wasLive(request.key());
            if (request.isDelete()) {
                request.done(*context_, !stored   ? PersistDeleteStatus::Failed
                                        : wasLive ? PersistDeleteStatus::Success
                                                  : PersistDeleteStatus::DocNotFound);
            } else {
                request.done(*context_, !stored   ? PersistSetStatus::Failed
                                        : wasLive ? PersistSetStatus::Update
                                                  : PersistSetStatus::Insert);
            }
        }
        return stored;
    }

    [[nodiscard]] size_t size() const { return requests_.size(); }

  private:
    using Request = typename Callback::Request;

    template <class R>
    static const Item* itemOf(const R& request) {
        if constexpr (std::is_reference_v<decltype(request.item)>) {
            return &request.item;
        } else {
            return request.item.get();
        }
    }

    template <class R>
    void add(const Item& item, R&& request) {
        liveBefore_.add(item.key(), store_.put(item));
        ids_.add(item.key());
        requests_.emplace_back(std::forward<R>(request));
    }

    KVStore& store_;
    std::unique_ptr<TransactionContext> context_;
    std::deque<Request> requests_;
    typename Options::Ids ids_;
    typename Options::Dedup liveBefore_;
    bool open_{false};
};

}  // namespace kv
