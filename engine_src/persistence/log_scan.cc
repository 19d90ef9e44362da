#include "persistence/log_scan.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "persistence/store_error.h"
#include "types/endian.h"

namespace kv {

namespace {

// A log is a sequence of blocks. A record is in one block or is divided into pieces, one in each
// block. Before each piece: masked CRC-32C of the bytes after the length (4 bytes, little endian),
// length (2 bytes), type (1 byte). A block's last bytes are unused if no header fits.
constexpr size_t kBlockBytes = 32768;
constexpr size_t kHeaderBytes = 7;
constexpr size_t kTypeAt = 6;
enum PieceType : uint8_t { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

constexpr std::array<uint32_t, 256> makeCrcTable() {
    constexpr uint32_t kCastagnoli = 0x82f63b78;
    std::array<uint32_t, 256> table{};
    for (uint32_t byte = 0; byte < table.size(); ++byte) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? kCastagnoli : 0U);
        }
        table[byte] = crc;
    }
    return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = makeCrcTable();

class Crc {
  public:
    void add(char byte) {
        crc_ = kCrcTable[(crc_ ^ static_cast<uint8_t>(byte)) & 0xffU] ^ (crc_ >> 8U);
    }
    void add(std::string_view bytes) {
        for (const char byte : bytes) {
            add(byte);
        }
    }
    /// As RocksDB stores it.
    [[nodiscard]] uint32_t masked() const {
        const uint32_t crc = ~crc_;
        return ((crc >> 15U) | (crc << 17U)) + 0xa282ead8U;
    }

  private:
    uint32_t crc_{~uint32_t{0}};
};

/// One piece, with everything that follows it in its block.
class Piece {
  public:
    explicit Piece(std::string_view bytes) : bytes_(bytes) {}

    [[nodiscard]] PieceType type() const { return static_cast<PieceType>(bytes_[kTypeAt]); }
    [[nodiscard]] size_t size() const {
        return kHeaderBytes + loadLittle<uint16_t>(bytes_.data() + sizeof(uint32_t));
    }
    [[nodiscard]] bool reachesBeyondTheBlock() const { return size() > bytes_.size(); }
    [[nodiscard]] bool isWhole() const {
        Crc crc;
        crc.add(bytes_.substr(kTypeAt, size() - kTypeAt));
        return crc.masked() == storedCrc() && type() >= kFull && type() <= kLast;
    }
    /// True if it would be valid with another length, so the length was changed.
    [[nodiscard]] bool isWholeButForItsLength() const {
        Crc crc;
        return std::any_of(bytes_.begin() + kTypeAt, bytes_.end(), [&](char byte) {
            crc.add(byte);
            return crc.masked() == storedCrc();
        });
    }
    /// A power cut leaves zeros where the file was extended and its data was not written.
    [[nodiscard]] bool isBlank() const {
        return std::all_of(bytes_.begin(), bytes_.end(), [](char byte) { return byte == 0; });
    }

  private:
    [[nodiscard]] uint32_t storedCrc() const { return loadLittle<uint32_t>(bytes_.data()); }

    std::string_view bytes_;
};

}  // namespace

LogScan scanLog(const std::filesystem::path& file) {
    std::error_code error;
    LogScan scan{.bytes = std::filesystem::file_size(file, error)};
    std::ifstream in(file, std::ios::binary);
    if (error || !in) {
        throw StoreError("cannot read " + file.string());
    }
    std::vector<char> block(kBlockBytes);
    bool inRecord = false;
    for (uint64_t begin = 0; in; begin += kBlockBytes) {
        in.read(block.data(), static_cast<std::streamsize>(block.size()));
        const std::string_view bytes(block.data(), static_cast<size_t>(in.gcount()));
        size_t at = 0;
        while (!scan.damaged && bytes.size() - at >= kHeaderBytes) {
            const Piece piece(bytes.substr(at));
            if (piece.reachesBeyondTheBlock()) {
                scan.damaged = bytes.size() == kBlockBytes || piece.isWholeButForItsLength();
                break;
            }
            const bool begins = piece.type() == kFull || piece.type() == kFirst;
            if (!piece.isWhole() || begins == inRecord) {
                scan.damaged = !piece.isBlank();
                break;
            }
            at += piece.size();
            inRecord = piece.type() == kFirst || piece.type() == kMiddle;
            if (!inRecord) {
                scan.wholeBytes = begin + at;
            }
        }
        const bool onlyPadding = bytes.size() == kBlockBytes && bytes.size() - at < kHeaderBytes;
        if (!onlyPadding) {
            break;
        }
        if (!inRecord) {
            scan.wholeBytes = begin + kBlockBytes;
        }
    }
    if (in.bad()) {
        throw StoreError("cannot read " + file.string());
    }
    return scan;
}

}  // namespace kv
