// FlushTransaction: one flush of one vBucket as the store's client sees it: begin, set and del,
// end, callbacks.
//
// Holds the requests until the store's commit, then tells the TransactionContext about each of
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
    }
    BasicFlushTransaction(const BasicFlushTransaction&) = delete;
    BasicFlushTransaction& operator=(const BasicFlushTransaction&) = delete;
    ~BasicFlushTransaction() = default;

    /// What set() and del() will be called for, in this order.
    void expect(std::span<const ItemPtr> items) { store_.expect(items); }
    void set(typename Callback::Set request) { add(*itemOf(request), std::move(request)); }
    void del(typename Callback::Delete request) { add(*itemOf(request), std::move(request)); }

    /// Nothing more comes but the vBucket's state: the store's next commit is to store it all.
    void end(const PersistedVbState& state) { store_.end(state); }
    /// The store has answered that commit: runs every request's callback.
    void done(bool stored) const {
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
};

}  // namespace kv
