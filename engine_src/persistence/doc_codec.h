// The format of documents, index entries and vBucket states on disk. Numbers are big endian if
// their order matters, otherwise little endian. A reader given other bytes throws StoreError: a
// store that cannot be read must not look empty.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "persistence/stored_types.h"

namespace kv::codec {

/// vBucket prefix of every key, so that a vBucket is one range.
std::array<char, 2> vbPrefix(Vbid vbid);
/// First key after every key of the vBucket.
std::string vbEnd(Vbid vbid);
Vbid vbOf(std::string_view key);

/// Key of the seqno index: vBucket, seqno.
std::array<char, 10> seqnoKey(Vbid vbid, Seqno seqno);
Seqno seqnoOf(std::string_view seqnoKey);

/// Value of the key index: the seqno of the document, and whether it is live.
struct KeyEntry {
    Seqno seqno{};
    bool live{false};
};
std::array<char, 8> encode(KeyEntry entry);
KeyEntry decodeKeyEntry(std::string_view bytes);

/// Header of a document in the seqno index; key and value follow.
constexpr size_t kDocHeaderSize = 28;
/// `replaced`: the key had an older version in the store, which this one made unreadable.
std::array<char, kDocHeaderSize> encodeHeader(const Item& item, bool replaced);
/// Views into `bytes`. The seqno is not in the header: it is the key.
StoredDoc decodeDoc(Seqno seqno, std::string_view bytes);
bool replacedOlder(std::string_view bytes);

std::string encode(const PersistedVbState& state);
PersistedVbState decodeVbState(std::string_view bytes);

}  // namespace kv::codec
