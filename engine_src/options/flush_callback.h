// Build switch ENGINE_FLUSH_CALLBACK: how the flusher learns the outcome of each request.
//
// item: every request has a callback object (one of two std::functions). Its closure holds the item
// and its CAS and is on the heap, because it is not trivially copyable. transaction: the
// transaction's context has one virtual callback, and a request is just the item. The calls that
// reach the TransactionContext are the same.
#pragma once

#include <functional>
#include <string_view>
#include <utility>
#include <variant>

#include "persistence/transaction_context.h"
#include "types/item.h"

namespace kv::options {

struct ItemCallback {
    static constexpr std::string_view kName = "item";

    using SetFunction = std::function<void(TransactionContext&, PersistSetStatus)>;
    using DeleteFunction = std::function<void(TransactionContext&, PersistDeleteStatus)>;

    /// The argument of KVStore::set.
    struct Set {
        const Item& item;
        SetFunction callback;
    };
    struct Delete {
        const Item& item;
        DeleteFunction callback;
    };

    /// The part of a request that the store keeps until commit.
    class Request {
      public:
        explicit Request(Set&& set) : item_(&set.item), callback_(std::move(set.callback)) {}
        explicit Request(Delete&& del) : item_(&del.item), callback_(std::move(del.callback)) {}
        [[nodiscard]] bool isDelete() const { return callback_.index() == 1; }
        [[nodiscard]] std::string_view key() const { return item_->key(); }
        void done(TransactionContext& context, PersistSetStatus status) const {
            std::get<0>(callback_)(context, status);
        }
        void done(TransactionContext& context, PersistDeleteStatus status) const {
            std::get<1>(callback_)(context, status);
        }

      private:
        const Item* item_;  ///< kept alive by the closure
        std::variant<SetFunction, DeleteFunction> callback_;
    };

    /// The closure: knows the version for which it was made.
    struct PersistenceCallback {
        ItemPtr item;
        Cas cas;
        void operator()(TransactionContext& context, PersistSetStatus status) const {
            context.setCallback(*item, status);
        }
        void operator()(TransactionContext& context, PersistDeleteStatus status) const {
            context.deleteCallback(*item, status);
        }
    };

    static Set makeSet(const ItemPtr& item) {
        return {*item, PersistenceCallback{item, item->cas()}};
    }
    static Delete makeDelete(const ItemPtr& item) {
        return {*item, PersistenceCallback{item, item->cas()}};
    }
};

struct TransactionCallback {
    static constexpr std::string_view kName = "transaction";

    struct Set {
        ItemPtr item;
    };
    struct Delete {
        ItemPtr item;
    };

    class Request {
      public:
        explicit Request(Set&& set) : item_(std::move(set.item)) {}
        explicit Request(Delete&& del) : item_(std::move(del.item)) {}
        [[nodiscard]] bool isDelete() const { return item_->isDeletion(); }
        [[nodiscard]] std::string_view key() const { return item_->key(); }
        void done(TransactionContext& context, PersistSetStatus status) const {
            context.setCallback(*item_, status);
        }
        void done(TransactionContext& context, PersistDeleteStatus status) const {
            context.deleteCallback(*item_, status);
        }

      private:
        ItemPtr item_;
    };

    static Set makeSet(const ItemPtr& item) { return {item}; }
    static Delete makeDelete(const ItemPtr& item) { return {item}; }
};

}  // namespace kv::options
