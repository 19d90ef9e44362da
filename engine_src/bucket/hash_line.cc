#include "bucket/hash_line.h"

#include <algorithm>
#include <new>

namespace kv {

namespace {

constexpr std::align_val_t kAlignment{sizeof(HashLine)};

}  // namespace

void HashLine::reserve() {
    HashLine* line = this;
    while (line->isFull()) {
        if (line->more_ == nullptr) {
            line->more_ = std::make_unique<HashLine>();
        }
        line = line->more_.get();
    }
}

void HashLine::replace(const StoredValue* old, TaggedPointer fresh) {
    for (HashLine* line = this; line != nullptr; line = line->more_.get()) {
        const auto entry = std::find_if(line->entries_.begin(), line->entries_.end(),
                                        [old](TaggedPointer held) { return held.get() == old; });
        if (entry != line->entries_.end()) {
            *entry = fresh;
            return;
        }
    }
}

void HashLine::add(TaggedPointer added) {
    HashLine* line = this;
    while (line->isFull()) {
        if (line->more_ == nullptr) {
            line->more_ = std::make_unique<HashLine>();
        }
        line = line->more_.get();
    }
    *std::find_if_not(line->entries_.begin(), line->entries_.end(),
                      [](TaggedPointer entry) { return static_cast<bool>(entry); }) = added;
}

void HashLine::remove(const StoredValue* value) {
    TaggedPointer* hole = nullptr;
    HashLine* line = this;
    HashLine* before = nullptr;
    while (true) {
        for (TaggedPointer& entry : line->entries_) {
            if (entry.get() == value) {
                hole = &entry;
            }
        }
        if (line->more_ != nullptr && line->more_->isEmpty()) {
            line->more_.reset();  // room that was not used
        }
        if (line->more_ == nullptr) {
            break;
        }
        before = line;
        line = line->more_.get();
    }
    // The very last entry fills the hole, so the rest stays packed.
    const auto last = std::find_if(line->entries_.rbegin(), line->entries_.rend(),
                                   [](TaggedPointer entry) { return static_cast<bool>(entry); });
    *hole = *last;
    *last = TaggedPointer();
    if (before != nullptr && !line->entries_.front()) {
        before->more_.reset();
    }
}

void HashLine::clear() noexcept {
    entries_.fill(TaggedPointer());
    // One by one: a client can make a chain that is too long for a recursion.
    while (more_ != nullptr) {
        more_ = std::move(more_->more_);
    }
}

HashLines::HashLines(uint32_t count) {
    auto* lines =
            static_cast<HashLine*>(::operator new (size_t{count} * sizeof(HashLine), kAlignment));
    std::uninitialized_value_construct_n(lines, count);
    lines_ = decltype(lines_)(lines, HashLinesDeleter{count});
}

void HashLinesDeleter::operator()(HashLine* lines) const noexcept {
    std::destroy_n(lines, count);
    ::operator delete(lines, kAlignment);
}

}  // namespace kv
