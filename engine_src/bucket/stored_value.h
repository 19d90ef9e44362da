// StoredValue: one document in a hash table: 40 bytes, then the key, in one heap block. The value
// is a separate Blob.
//
//   +-------+-----+---------+-------+-------+----------+-------+-----+--------+------+-----+
//   | value | cas | exptime | flags | seqno | datatype | state | rev | keyLen | side | key |
//   +-------+-----+---------+-------+-------+----------+-------+-----+--------+------+-----+
//
// An ordered StoredValue (ephemeral buckets) has two list pointers in front (OrderedLinks), 16
// bytes more.
//
// Ownership: owned by the hash table, except stale ones, which belong to the sequence list. Made by
// create(), freed by StoredValueDeleter only. Threads: every field under the lock of the key's
// hash bucket. The fields of an ordered StoredValue that describe its document (value, cas,
// exptime, flags, seqno, datatype, state, rev) are changed under the sequence list's lock as well,
// so that range readers need only that one; `side` is not for them.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "options/selected/injected_item.h"
#include "types/blob.h"
#include "types/ids.h"
#include "types/item.h"

namespace kv {

class StoredValue;

/// 48-bit unsigned number without alignment, for seqnos and revision numbers.
class Uint48 {
  public:
    Uint48() = default;
    explicit Uint48(uint64_t value) { std::memcpy(bytes_, &value, sizeof(bytes_)); }
    /// Reads two numbers, because a copy of six bytes goes through memory, and the processor reads
    /// that back only when all stores before it are in the cache.
    [[nodiscard]] uint64_t get() const {
        uint32_t low = 0;
        uint16_t high = 0;
        std::memcpy(&low, bytes_, sizeof(low));
        std::memcpy(&high, bytes_ + sizeof(low), sizeof(high));
        return low | uint64_t{high} << 32U;
    }

  private:
    uint8_t bytes_[6]{};
};

/// Neighbours in the seqno order of an ephemeral vBucket.
struct OrderedLinks {
    StoredValue* previous{nullptr};
    StoredValue* next{nullptr};
};

enum class Ordered : bool { No, Yes };

struct StoredValueDeleter {
    void operator()(StoredValue* value) const noexcept;
};
using StoredValuePtr = std::unique_ptr<StoredValue, StoredValueDeleter>;

class StoredValue {
  public:
    static constexpr size_t kMaxKey = 255;

    StoredValue(const StoredValue&) = delete;
    StoredValue& operator=(const StoredValue&) = delete;

    /// Creates an empty one, clean and not resident; the caller fills it in. `key` has at most
    /// kMaxKey bytes.
    template <class Fault = options::SelectedInjectedItem>
    static StoredValuePtr create(std::string_view key, Ordered ordered);

    [[nodiscard]] std::string_view key() const {
        return {reinterpret_cast<const char*>(this + 1), keyLength_};
    }
    [[nodiscard]] const BlobPtr& value() const { return value_; }
    [[nodiscard]] Cas cas() const { return cas_; }
    [[nodiscard]] Seqno seqno() const { return Seqno{seqno_.get()}; }
    [[nodiscard]] uint64_t revSeqno() const { return revSeqno_.get(); }
    [[nodiscard]] uint32_t flags() const { return flags_; }
    /// For a tombstone: the time of the deletion.
    [[nodiscard]] uint32_t exptime() const { return exptime_; }
    [[nodiscard]] uint8_t datatype() const { return datatype_; }
    [[nodiscard]] ItemMeta meta() const {
        return {.cas = cas_,
                .seqno = seqno(),
                .revSeqno = revSeqno(),
                .flags = flags_,
                .exptime = exptime_,
                .datatype = datatype_};
    }

    [[nodiscard]] bool isDeleted() const { return (state_ & kDeleted) != 0; }
    [[nodiscard]] bool isExpiration() const { return (state_ & kExpiration) != 0; }
    /// False if the document's value is on disk only.
    [[nodiscard]] bool isResident() const { return (state_ & kResident) != 0; }
    [[nodiscard]] bool isOrdered() const { return (side_ & kOrdered) != 0; }
    [[nodiscard]] bool isDirty() const { return (side_ & kDirty) != 0; }
    [[nodiscard]] bool isLocked() const { return (side_ & kLocked) != 0; }
    /// True if it was replaced by a newer version while a range reader needs it; it is no longer in
    /// the hash table.
    [[nodiscard]] bool isStale() const { return (state_ & kStale) != 0; }
    [[nodiscard]] bool isExpired(uint32_t nowSeconds) const {
        return !isDeleted() && exptime_ != 0 && exptime_ <= nowSeconds;
    }
    [[nodiscard]] ItemOp op() const {
        return !isDeleted()     ? ItemOp::Mutation
               : isExpiration() ? ItemOp::Expiration
                                : ItemOp::Deletion;
    }

    void setDocument(const ItemMeta& meta, BlobPtr value) {
        setMeta(meta);
        value_ = std::move(value);
        state_ = kResident;
    }
    /// Makes it a tombstone; `meta.exptime` is the time of the deletion.
    void setDeleted(const ItemMeta& meta, bool byExpiry) {
        setMeta(meta);
        value_ = {};
        state_ = static_cast<uint8_t>(kDeleted | (byExpiry ? kExpiration : 0));
    }
    void setCas(Cas cas) { cas_ = cas; }
    /// Drops the value, which is on disk. Returns false if that is not allowed (dirty, deleted or
    /// not resident).
    bool evictValue() {
        if (isDirty() || isDeleted() || !isResident()) {
            return false;
        }
        value_ = {};
        state_ = static_cast<uint8_t>(state_ & ~kResident);
        return true;
    }
    void setDirty(bool dirty) { setSide(kDirty, dirty); }
    void setLocked(bool locked) { setSide(kLocked, locked); }
    void setStale() { state_ |= kStale; }

    /// Bytes requested for this block: fields, key and, if ordered, the links.
    template <class Fault = options::SelectedInjectedItem>
    [[nodiscard]] size_t metaBytes() const;

    /// Only for an ordered one.
    [[nodiscard]] OrderedLinks& links() { return reinterpret_cast<OrderedLinks*>(this)[-1]; }

    /// Returns a copy of the current document as an Item.
    [[nodiscard]] ItemPtr toItem(Vbid vbid) const {
        return Item::create(vbid, op(), key(), meta(), value_);
    }

  private:
    friend struct StoredValueDeleter;
    static constexpr uint8_t kDeleted = 1;
    static constexpr uint8_t kExpiration = 2;
    static constexpr uint8_t kResident = 4;
    static constexpr uint8_t kStale = 8;
    static constexpr uint8_t kOrdered = 1;
    static constexpr uint8_t kDirty = 2;
    static constexpr uint8_t kLocked = 4;

    StoredValue(uint8_t keyLength, bool ordered)
        : keyLength_(keyLength), side_(ordered ? kOrdered : 0) {}
    ~StoredValue() = default;

    void setMeta(const ItemMeta& meta) {
        cas_ = meta.cas;
        seqno_ = Uint48(meta.seqno.get());
        revSeqno_ = Uint48(meta.revSeqno);
        flags_ = meta.flags;
        exptime_ = meta.exptime;
        datatype_ = meta.datatype;
    }
    void setSide(uint8_t bit, bool on) {
        side_ = static_cast<uint8_t>(on ? side_ | bit : side_ & ~bit);
    }

    BlobPtr value_;
    Cas cas_{};
    uint32_t exptime_{0};
    uint32_t flags_{0};
    Uint48 seqno_;
    uint8_t datatype_{0};
    uint8_t state_{0};
    Uint48 revSeqno_;
    uint8_t keyLength_;
    uint8_t side_;
};
static_assert(sizeof(StoredValue) == 40,
              "a document costs 40 bytes in addition to its key (historic: 56)");
static_assert(sizeof(OrderedLinks) == 16 && alignof(StoredValue) == 8);

template <class Fault>
inline size_t StoredValue::metaBytes() const {
    return sizeof(StoredValue) + keyLength_ + (isOrdered() ? sizeof(OrderedLinks) : 0) +
           Fault::kBytes;
}

template <class Fault>
inline StoredValuePtr StoredValue::create(std::string_view key, Ordered ordered) {
    const size_t before = ordered == Ordered::Yes ? sizeof(OrderedLinks) : 0;
    auto* memory = static_cast<char*>(
            ::operator new(before + sizeof(StoredValue) + key.size() + Fault::kBytes));
    if (before != 0) {
        ::new (memory) OrderedLinks();
    }
    auto* value =
            ::new (memory + before) StoredValue(static_cast<uint8_t>(key.size()), before != 0);
    std::memcpy(reinterpret_cast<char*>(value + 1), key.data(), key.size());
    return StoredValuePtr(value);
}

inline void StoredValueDeleter::operator()(StoredValue* value) const noexcept {
    auto* memory = reinterpret_cast<char*>(value) - (value->isOrdered() ? sizeof(OrderedLinks) : 0);
    value->~StoredValue();
    ::operator delete(memory);
}

}  // namespace kv
