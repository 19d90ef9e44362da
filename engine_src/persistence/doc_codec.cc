#include "persistence/doc_codec.h"

#include <cstring>

#include "persistence/kvstore.h"
#include "types/endian.h"

namespace kv::codec {

namespace {

constexpr uint64_t kLiveBit = uint64_t{1} << 63;
constexpr uint8_t kReplacedBit = 0x80;
/// Version 1 had no purgedSeqno and maxDeletedRev, version 2 no rollback points.
constexpr uint8_t kStateVersion = 4;

/// Stores the number and returns the place of the next one.
template <class T>
char* putLittle(char* out, T value) {
    storeLittle<T>(out, value);
    return out + sizeof(T);
}

template <class T>
void append(std::string& out, T value) {
    std::array<char, sizeof(T)> bytes{};
    storeLittle(bytes.data(), value);
    out.append(bytes.data(), bytes.size());
}

void need(bool condition, const char* what) {
    if (!condition) {
        throw StoreError(std::string("the store holds a malformed ") + what);
    }
}

}  // namespace

std::array<char, 2> vbPrefix(Vbid vbid) {
    return {static_cast<char>(vbid.get() >> 8), static_cast<char>(vbid.get() & 0xff)};
}

std::string vbEnd(Vbid vbid) {
    if (vbid.get() == 0xffff) {
        return std::string(3, '\xff');
    }
    const auto prefix = vbPrefix(Vbid{static_cast<uint16_t>(vbid.get() + 1)});
    return {prefix.data(), prefix.size()};
}

Vbid vbOf(std::string_view key) {
    need(key.size() >= 2, "key");
    return Vbid{static_cast<uint16_t>((static_cast<uint8_t>(key[0]) << 8) |
                                      static_cast<uint8_t>(key[1]))};
}

std::array<char, 10> seqnoKey(Vbid vbid, Seqno seqno) {
    std::array<char, 10> key{};
    const auto prefix = vbPrefix(vbid);
    std::memcpy(key.data(), prefix.data(), prefix.size());
    storeBig(key.data() + 2, seqno.get());
    return key;
}

Seqno seqnoOf(std::string_view seqnoKey) {
    need(seqnoKey.size() == 10, "seqno key");
    return Seqno{loadBig<uint64_t>(seqnoKey.data() + 2)};
}

std::array<char, 8> encode(KeyEntry entry) {
    std::array<char, 8> bytes{};
    storeLittle<uint64_t>(bytes.data(), entry.seqno.get() | (entry.live ? kLiveBit : 0));
    return bytes;
}

KeyEntry decodeKeyEntry(std::string_view bytes) {
    need(bytes.size() == 8, "key entry");
    const auto value = loadLittle<uint64_t>(bytes.data());
    return {Seqno{value & ~kLiveBit}, (value & kLiveBit) != 0};
}

std::array<char, kDocHeaderSize> encodeHeader(const Item& item, bool replaced) {
    std::array<char, kDocHeaderSize> header{};
    char* out = header.data();
    out = putLittle<uint64_t>(out, item.cas().get());
    out = putLittle<uint64_t>(out, item.revSeqno());
    out = putLittle<uint32_t>(out, item.flags());
    out = putLittle<uint32_t>(out, item.exptime());
    out = putLittle<uint16_t>(out, static_cast<uint16_t>(item.key().size()));
    out = putLittle<uint8_t>(out, item.datatype());
    putLittle<uint8_t>(out, static_cast<uint8_t>(static_cast<uint8_t>(item.op()) |
                                                 (replaced ? kReplacedBit : 0U)));
    return header;
}

StoredDoc decodeDoc(Seqno seqno, std::string_view bytes) {
    need(bytes.size() >= kDocHeaderSize, "document");
    const char* in = bytes.data();
    StoredDoc doc;
    doc.meta.seqno = seqno;
    doc.meta.cas = Cas{loadLittle<uint64_t>(in)};
    doc.meta.revSeqno = loadLittle<uint64_t>(in + 8);
    doc.meta.flags = loadLittle<uint32_t>(in + 16);
    doc.meta.exptime = loadLittle<uint32_t>(in + 20);
    const size_t keyLength = loadLittle<uint16_t>(in + 24);
    doc.meta.datatype = loadLittle<uint8_t>(in + 26);
    const auto op = static_cast<uint8_t>(loadLittle<uint8_t>(in + 27) & ~kReplacedBit);
    need(op <= static_cast<uint8_t>(ItemOp::Expiration), "document");
    doc.op = static_cast<ItemOp>(op);
    need(bytes.size() >= kDocHeaderSize + keyLength, "document");
    doc.key = bytes.substr(kDocHeaderSize, keyLength);
    doc.value = bytes.substr(kDocHeaderSize + keyLength);
    return doc;
}

bool replacedOlder(std::string_view bytes) {
    need(bytes.size() >= kDocHeaderSize, "document");
    return (static_cast<uint8_t>(bytes[27]) & kReplacedBit) != 0;
}

std::string encode(const PersistedVbState& state) {
    std::string out;
    out.reserve(88 + state.failoverLog.size() * 16 + state.rollbackPoints.all().size() * 8);
    append<uint8_t>(out, kStateVersion);
    append<uint8_t>(out, state.state);
    append<uint64_t>(out, state.highSeqno.get());
    append<uint64_t>(out, state.snapshot.start.get());
    append<uint64_t>(out, state.snapshot.end.get());
    append<uint64_t>(out, state.maxCas.get());
    append<uint64_t>(out, state.purgedSeqno.get());
    append<uint64_t>(out, state.maxDeletedRev);
    append<uint64_t>(out, state.refusedHistory.get());
    append<uint32_t>(out, static_cast<uint32_t>(state.failoverLog.size()));
    for (const FailoverEntry& entry : state.failoverLog) {
        append<uint64_t>(out, entry.uuid.get());
        append<uint64_t>(out, entry.seqno.get());
    }
    for (const Seqno point : state.rollbackPoints.all()) {
        append<uint64_t>(out, point.get());
    }
    return out;
}

PersistedVbState decodeVbState(std::string_view bytes) {
    need(!bytes.empty() && bytes[0] >= 1 && bytes[0] <= kStateVersion, "vBucket state");
    const size_t numbers = bytes[0] == 1 ? 4 : bytes[0] < 4 ? 6 : 7;
    const size_t fixed = 2 + numbers * 8 + 4;
    need(bytes.size() >= fixed, "vBucket state");
    const char* in = bytes.data();
    PersistedVbState state;
    state.state = loadLittle<uint8_t>(in + 1);
    state.highSeqno = Seqno{loadLittle<uint64_t>(in + 2)};
    state.snapshot = {Seqno{loadLittle<uint64_t>(in + 10)}, Seqno{loadLittle<uint64_t>(in + 18)}};
    state.maxCas = Cas{loadLittle<uint64_t>(in + 26)};
    if (numbers >= 6) {
        state.purgedSeqno = Seqno{loadLittle<uint64_t>(in + 34)};
        state.maxDeletedRev = loadLittle<uint64_t>(in + 42);
    }
    if (numbers >= 7) {
        state.refusedHistory = VbUuid{loadLittle<uint64_t>(in + 50)};
    }
    const size_t entries = loadLittle<uint32_t>(in + fixed - 4);
    need(entries <= (bytes.size() - fixed) / 16, "vBucket state");
    const char* const points = in + fixed + entries * 16;
    const char* const end = in + bytes.size();
    state.failoverLog.reserve(entries);
    for (const char* at = in + fixed; at != points; at += 16) {
        state.failoverLog.push_back(
                {VbUuid{loadLittle<uint64_t>(at)}, Seqno{loadLittle<uint64_t>(at + 8)}});
    }
    const auto pointBytes = static_cast<size_t>(end - points);
    need(bytes[0] >= 3 ? pointBytes % 8 == 0 && pointBytes / 8 <= RollbackPoints::kMax
                       : pointBytes == 0,
         "vBucket state");
    Seqno last{};
    for (const char* at = points; at != end; at += 8) {
        const Seqno point{loadLittle<uint64_t>(at)};
        need(point > last, "vBucket state");
        state.rollbackPoints.add(point);
        last = point;
    }
    return state;
}

}  // namespace kv::codec
