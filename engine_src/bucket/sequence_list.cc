#include "bucket/sequence_list.h"

#include <algorithm>

namespace kv {

namespace {

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
    return std::any_of(readers_.begin(), readers_.end(), [&](const SequenceReader* reader) {
        return reader->next_ != nullptr && reader->next_->seqno() <= value.seqno() &&
               value.seqno() <= reader->end_;
    });
}

SequenceList::StaleRoom SequenceList::makeRoomForStale(const Guard&) {
    StaleRoom room;
    decltype(stale_) one;
    one.emplace(nullptr, Seqno{});
    room.node_ = one.extract(one.begin());
    stale_.reserve(stale_.size() + 1);
    return room;
}

void SequenceList::keepStale(const Guard&, StoredValuePtr old, Seqno replacedBy, StaleRoom room) {
    room.node_.key() = old.get();
    room.node_.mapped() = replacedBy;
    stale_.insert(std::move(room.node_));
    old->setStale();
    staleBytes_ += bytesOf(*old);
    (void)old.release();  // reachable through its neighbours
}

void SequenceList::freeUncoveredStale(const Guard& guard) {
    StoredValue* next = !stale_.empty() ? first_ : nullptr;
    while (next != nullptr) {
        StoredValue* value = std::exchange(next, next->links().next);
        if (value->isStale() && !isCovered(guard, *value)) {
            unlink(guard, *value);
            stale_.erase(value);
            staleBytes_ -= bytesOf(*value);
            const StoredValuePtr doomed(value);
        }
    }
}

void SequenceList::clear(const Guard& guard) {
    for (SequenceReader* reader : readers_) {
        reader->aborted_ = reader->aborted_ || reader->next_ != nullptr;
        reader->next_ = nullptr;
    }
    freeUncoveredStale(guard);
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

SequenceReader::SequenceReader(SequenceList& list, Vbid vbid, Seqno from)
    : list_(list), vbid_(vbid) {
    const auto guard = list_.lock();
    list_.readers_.push_back(this);
    end_ = list_.high_;
    next_ = list_.first_;
    while (next_ != nullptr && next_->seqno() < from) {
        next_ = next_->links().next;
    }
}

SequenceReader::~SequenceReader() {
    const auto guard = list_.lock();
    std::erase(list_.readers_, this);
    list_.freeUncoveredStale(guard);
}

bool SequenceReader::read(std::vector<ItemPtr>& items, size_t limit) {
    const auto guard = list_.lock();
    for (size_t taken = 0; next_ != nullptr && taken < limit;) {
        const StoredValue& value = *next_;
        // A version left for another reader whose successor lies in our range as well: the
        // successor is enough.
        if (!(value.isStale() && list_.stale_.at(&value) <= end_)) {
            items.push_back(value.toItem(vbid_));
            ++taken;
        }
        StoredValue* following = next_->links().next;
        next_ = following != nullptr && following->seqno() <= end_ ? following : nullptr;
    }
    return next_ != nullptr;
}

bool SequenceReader::isAborted() const {
    const auto guard = list_.lock();
    return aborted_;
}

}  // namespace kv
