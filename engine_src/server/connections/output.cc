#include "server/connections/output.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kv::server {

Output::Shared& Output::Shared::operator=(Shared&& other) noexcept {
    if (this != &other) {
        drop();
        behind_ = other.behind_;
        sent_ = other.sent_;
        value_ = std::move(other.value_);
        owner_ = other.owner_;
    }
    return *this;
}

void Output::Shared::drop() noexcept {
    if (value_) {
        const BucketMemoryGuard guard(*owner_);
        value_ = {};
    }
}

void Output::share(BlobPtr value, BucketMemory& owner) {
    if (value.view().empty()) {
        return;
    }
    const NonBucketGuard guard;  // the list belongs to the connection
    const size_t size = value.view().size();
    shared_.emplace_back(appended(), std::move(value), owner);
    sharedBytes_ += size;
    pinnedBytes_ += size;
}

void Output::copyShared() {
    ByteBuffer all;
    all.reserve(size());
    std::vector<iovec> pieces(2 * shared_.size() + 1);
    pieces.resize(gather(pieces));
    for (const iovec& piece : pieces) {
        all.append({static_cast<const uint8_t*>(piece.iov_base), piece.iov_len});
    }
    clear();
    bytes_ = std::move(all);
}

void Output::take(Output& other) {
    if (!other.shared_.empty()) {
        const NonBucketGuard guard;
        const size_t before = appended() - other.consumed_;
        shared_.reserve(shared_.size() + other.shared_.size());
        for (Shared& value : other.shared_) {
            shared_.push_back(std::move(value).moved(before));
        }
        sharedBytes_ += std::exchange(other.sharedBytes_, 0);
        pinnedBytes_ += std::exchange(other.pinnedBytes_, 0);
        other.shared_.clear();
    }
    bytes_.append(other.bytes_.view());
    other.clear();
}

size_t Output::gather(std::span<iovec> pieces) const {
    // iovec takes no pointer to const, although sending does not write.
    const auto piece = [](const void* data, size_t size) {
        return iovec{const_cast<void*>(data), size};
    };
    size_t count = 0;
    auto rest = bytes_.view();
    size_t at = consumed_;
    for (const Shared& value : shared_) {
        const size_t before = value.behind() - at;
        if (before != 0) {
            if (count == pieces.size()) {
                return count;
            }
            pieces[count++] = piece(rest.data(), before);
            rest = rest.subspan(before);
            at += before;
        }
        if (count == pieces.size()) {
            return count;
        }
        pieces[count++] = piece(value.rest().data(), value.rest().size());
    }
    if (!rest.empty() && count < pieces.size()) {
        pieces[count++] = piece(rest.data(), rest.size());
    }
    return count;
}

void Output::consume(size_t count) {
    auto gone = shared_.begin();
    while (count != 0) {
        const bool bytesFirst = gone == shared_.end() || gone->behind() > consumed_;
        if (bytesFirst) {
            const size_t room = gone == shared_.end() ? bytes_.size() : gone->behind() - consumed_;
            const size_t taken = std::min(count, room);
            bytes_.consume(taken);
            consumed_ += taken;
            count -= taken;
            continue;
        }
        const size_t taken = std::min(count, gone->rest().size());
        gone->consume(taken);
        sharedBytes_ -= taken;
        count -= taken;
        if (gone->rest().empty()) {
            pinnedBytes_ -= gone->size();
            ++gone;
        }
    }
    shared_.erase(shared_.begin(), gone);
    if (empty()) {
        consumed_ = 0;
    }
}

void Output::clear() {
    bytes_.clear();
    shared_.clear();
    consumed_ = 0;
    sharedBytes_ = 0;
    pinnedBytes_ = 0;
}

}  // namespace kv::server
