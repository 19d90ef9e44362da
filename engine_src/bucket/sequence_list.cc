#include "bucket/sequence_list.h"

#include <algorithm>

namespace kv {

namespace {

/// Documents that one call of a reader visits.
constexpr size_t kMostVisits = 2048;

size_t bytesOf(const StoredValue& value) {
    const Blob* blob = value.value().get();
    return value.metaBytes() + (blob != nullptr ? Blob::allocationSize(blob->size()) : 0);
}

}  // namespace

SequenceList::~SequenceList() {
    clear(lock());
}

void SequenceList::append(const Guard&, StoredValue& value) {
    high_ = value.seqno();
    value.links() = {last_, nullptr};
    (last_ != nullptr ? last_->links().next : first_) = &value;
    last_ = &value;
    ++size_;
}

void SequenceList::unlink(const Guard&, StoredValue& value) {
    for (SequenceReader* reader : readers_) {
        if (reader->next_ == &value) [[unlikely]] {
            reader->advance();  // it has not found its beginning yet
        }
    }
    const OrderedLinks links = value.links();
    (links.previous != nullptr ? links.previous->links().next : first_) = links.next;
    (links.next != nullptr ? links.next->links().previous : last_) = links.previous;
    --size_;
}

void SequenceList::moveToEnd(const Guard& guard, StoredValue& value) {
    unlink(guard, value);
    append(guard, value);
}

bool SequenceList::isCovered(const Guard&, const StoredValue& value) const {
    return std::any_of(readers_.begin(), readers_.end(),
                       [&](const SequenceReader* reader) { return reader->covers(value); });
}

bool SequenceList::mustKeep(const Guard& guard, const StoredValue& value) {
    if (!isCovered(guard, value)) {
        return false;
    }
    if (budget_ == nullptr || !budget_->isSpent()) {
        return true;
    }
    // The readers free their versions when they end, so that no writer waits for it.
    for (SequenceReader* reader : readers_) {
        reader->endEarly(SequenceReader::End::GivenUp);
    }
    budget_->notifySpent();
    return false;
}

SequenceList::StaleSlot SequenceList::reserveStaleSlot(const Guard&) {
    StaleSlot slot;
    decltype(stale_) node;
    node.emplace(nullptr, Seqno{});
    slot.node_ = node.extract(node.begin());
    stale_.reserve(stale_.size() + 1);
    return slot;
}

void SequenceList::keepStale(const Guard&, StoredValuePtr old, Seqno replacedBy, StaleSlot slot) {
    slot.node_.key() = old.get();
    slot.node_.mapped() = replacedBy;
    stale_.insert(std::move(slot.node_));
    old->setStale();
    const size_t bytes = bytesOf(*old);
    staleBytes_ += bytes;
    if (budget_ != nullptr) {
        budget_->add(bytes);
    }
    (void)old.release();  // reachable through its neighbours
}

StoredValue* SequenceList::takeUncoveredStale(const Guard& guard) noexcept {
    StoredValue* chain = nullptr;
    const size_t before = staleBytes_;
    for (auto it = stale_.begin(); it != stale_.end();) {
        // Only the reader uses them: the list gave them to it in keepStale().
        auto* value = const_cast<StoredValue*>(it->first);
        if (isCovered(guard, *value)) {
            ++it;
            continue;
        }
        unlink(guard, *value);
        staleBytes_ -= bytesOf(*value);
        value->links().next = std::exchange(chain, value);
        it = stale_.erase(it);
    }
    if (budget_ != nullptr) {
        budget_->subtract(before - staleBytes_);
    }
    return chain;
}

void SequenceList::free(StoredValue* chain) noexcept {
    while (chain != nullptr) {
        const StoredValuePtr doomed(std::exchange(chain, chain->links().next));
    }
}

void SequenceList::clear(const Guard& guard) {
    for (SequenceReader* reader : readers_) {
        reader->endEarly(SequenceReader::End::Cleared);
    }
    free(takeUncoveredStale(guard));
    first_ = nullptr;
    last_ = nullptr;
    high_ = {};
    size_ = 0;
}

size_t SequenceList::staleCount() const {
    const Guard guard = lock();
    return stale_.size();
}

size_t SequenceList::staleBytes() const {
    const Guard guard = lock();
    return staleBytes_;
}

size_t SequenceList::size() const {
    const Guard guard = lock();
    return size_;
}

SequenceReader::SequenceReader(SequenceList& list, Vbid vbid, Seqno from, Seqno to)
    : list_(list), vbid_(vbid), from_(from) {
    const auto guard = list_.lock();
    list_.readers_.push_back(this);
    high_ = list_.high_;
    last_ = std::min(high_, to);
    if (list_.first_ != nullptr && list_.first_->seqno() <= last_ && from_ <= last_) {
        next_ = list_.first_;
    }
}

SequenceReader::~SequenceReader() {
    StoredValue* stale = nullptr;
    {
        const auto guard = list_.lock();
        std::erase(list_.readers_, this);
        stale = list_.takeUncoveredStale(guard);
    }
    SequenceList::free(stale);
}

bool SequenceReader::read(std::vector<ItemPtr>& items, size_t limit) {
    const auto guard = list_.lock();
    size_t taken = 0;
    for (size_t visits = 0; next_ != nullptr && taken < limit && visits < kMostVisits; ++visits) {
        const StoredValue& value = *next_;
        // A version left for another reader whose successor is in our range as well: the successor
        // is enough.
        if (value.seqno() >= from_ && !(value.isStale() && list_.stale_.at(&value) <= last_)) {
            items.push_back(value.toItem(vbid_));
            ++taken;
        }
        advance();
    }
    return next_ != nullptr;
}

}  // namespace kv
