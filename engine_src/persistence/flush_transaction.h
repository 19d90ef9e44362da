// FlushTransaction: one flush of one vBucket as the store's client sees it: begin, set and del,
// end, callbacks.
//
// It holds the requests until the store's commit, then reports each of them to the
// TransactionContext. The flush switches determine the size of a request: see
// options/flush_callback.h, flush_ids.h, flush_dedup.h. Ownership: owns context and requests; the
// store outlives it. Threads: one.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <utility>

#include "options/selected/flush_callback.h"
#include "options/selected/flush_dedup.h"
#include "options/selected/flush_free.h"
#include "options/selected/flush_ids.h"
#include "persistence/kvstore.h"
#include "persistence/transaction_context.h"

namespace kv {

/// The four flush switches as one type, so that a store, a flusher and a test have one parameter.
template <class CallbackPolicy, class IdsPolicy, class FreePolicy, class DedupPolicy>
struct FlushOptions {
    using Callback = CallbackPolicy;
    using Ids = IdsPolicy;
    using Free = FreePolicy;
    using Dedup = DedupPolicy;
};

using SelectedFlushOptions = FlushOptions<options::SelectedFlushCallback, options::SelectedFlushIds,
                                          options::SelectedFlushFree, options::SelectedFlushDedup>;

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

    /// Announces the items for which set() and del() will be called, in this order.
    void expect(std::span<const ItemPtr> items) { store_.expect(items); }
    void set(typename Callback::Set request) { add(*itemOf(request), std::move(request)); }
    void del(typename Callback::Delete request) { add(*itemOf(request), std::move(request)); }

    /// Announces that only the vBucket's state is missing: the store's next commit stores
    /// everything.
    void end(const PersistedVbState& state) { store_.end(state); }
    /// Runs every request's callback after the store has answered that commit.
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
