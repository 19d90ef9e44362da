// Item: one mutation on its way through checkpoint, flusher and DCP; immutable once it has its
// seqno and CAS.
//
// One heap block holds the fields and the key. Ownership: shared through ItemPtr (historic name:
// queued_item). Threads: the reference count is atomic; the fields are written only by the thread
// that creates the item, before it is published under the checkpoint's lock.
#pragma once

#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "types/blob.h"
#include "types/ids.h"
#include "types/intrusive_ptr.h"

namespace kv {

enum class ItemOp : uint8_t {
    Mutation,    ///< a live document
    Deletion,    ///< a tombstone; no value
    Expiration,  ///< a tombstone made by expiry
};

constexpr bool isDeletion(ItemOp op) {
    return op == ItemOp::Deletion || op == ItemOp::Expiration;
}

/// The fields of a document other than key and value.
struct ItemMeta {
    Cas cas{};
    Seqno seqno{};
    uint64_t revSeqno{0};  ///< number of changes of this document, 48 bits used
    uint32_t flags{0};     ///< the client's, opaque
    uint32_t exptime{
            0};  ///< seconds since the epoch, 0 = never; for a deletion: the time of the deletion
    uint8_t datatype{0};  ///< protocol bits: 1 JSON, 2 Snappy, 4 Xattr
};

class Item;
/// Owning reference to an Item.
using ItemPtr = IntrusivePtr<Item>;

class Item {
  public:
    Item(const Item&) = delete;
    Item& operator=(const Item&) = delete;

    static ItemPtr create(Vbid vbid, ItemOp op, std::string_view key, const ItemMeta& meta,
                          BlobPtr value);

    [[nodiscard]] std::string_view key() const {
        return {reinterpret_cast<const char*>(this + 1), keyLength_};
    }
    [[nodiscard]] std::string_view value() const { return value_.view(); }
    [[nodiscard]] const BlobPtr& blob() const { return value_; }
    [[nodiscard]] Vbid vbid() const { return vbid_; }
    [[nodiscard]] ItemOp op() const { return op_; }
    [[nodiscard]] bool isDeletion() const { return kv::isDeletion(op_); }
    [[nodiscard]] Seqno seqno() const { return seqno_; }
    [[nodiscard]] Cas cas() const { return cas_; }
    [[nodiscard]] uint64_t revSeqno() const { return revSeqno_; }
    [[nodiscard]] uint32_t flags() const { return flags_; }
    [[nodiscard]] uint32_t exptime() const { return exptime_; }
    [[nodiscard]] uint8_t datatype() const { return datatype_; }
    /// Bytes of the block itself (without the shared value).
    [[nodiscard]] size_t size() const { return sizeof(Item) + keyLength_; }

    /// Assigned by the CheckpointManager before the item is published; never after.
    void setSeqno(Seqno seqno) { seqno_ = seqno; }
    void setCas(Cas cas) { cas_ = cas; }

  private:
    friend class IntrusivePtr<Item>;
    Item(Vbid vbid, ItemOp op, uint16_t keyLength, const ItemMeta& meta, BlobPtr value)
        : keyLength_(keyLength),
          vbid_(vbid),
          value_(std::move(value)),
          cas_(meta.cas),
          seqno_(meta.seqno),
          revSeqno_(meta.revSeqno & 0xffffffffffffULL),
          datatype_(meta.datatype),
          op_(op),
          flags_(meta.flags),
          exptime_(meta.exptime) {}
    ~Item() = default;

    void retain() const noexcept { refs_.retain(); }
    void release() const noexcept {
        if (refs_.release()) {
            auto* self = const_cast<Item*>(this);
            self->~Item();
            ::operator delete(self);
        }
    }

    mutable RefCount refs_;
    uint16_t keyLength_;
    Vbid vbid_;
    BlobPtr value_;
    Cas cas_;
    Seqno seqno_;
    uint64_t revSeqno_ : 48;
    uint64_t datatype_ : 8;
    ItemOp op_ : 8;
    uint32_t flags_;
    uint32_t exptime_;
};
static_assert(
        sizeof(Item) == 48,
        "an item costs 48 bytes and its key; change this only after running the flush benchmark");

inline ItemPtr Item::create(Vbid vbid, ItemOp op, std::string_view key, const ItemMeta& meta,
                            BlobPtr value) {
    void* memory = ::operator new(sizeof(Item) + key.size());
    auto* item = ::new (memory)
            Item(vbid, op, static_cast<uint16_t>(key.size()), meta, std::move(value));
    if (!key.empty()) {
        std::memcpy(reinterpret_cast<char*>(item + 1), key.data(), key.size());
    }
    return ItemPtr(item);
}

}  // namespace kv
