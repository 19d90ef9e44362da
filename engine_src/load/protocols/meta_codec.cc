#include "load/protocols/meta_codec.h"

#include "load/protocols/text_codec.h"

namespace kv::load {

namespace {

using protocol::Status;

/// Takes the next word off the front.
std::string_view nextWord(std::string_view& line) {
    const auto size = std::min(line.find(' '), line.size());
    const auto word = line.substr(0, size);
    line.remove_prefix(std::min(size + 1, line.size()));
    return word;
}

ParsedLine metaReply(Reply::To to, Status status) {
    return {.outcome = ParsedLine::Outcome::kReply, .reply = {.to = to, .status = status}};
}

/// Parses the code of an answer; kBad if it is none.
ParsedLine parseCode(std::string_view code) {
    if (code == "VA") {
        auto parsed = metaReply(Reply::To::kGet, Status::kSuccess);
        parsed.hasValue = true;
        return parsed;
    }
    if (code == "EN") {
        return metaReply(Reply::To::kGet, Status::kKeyEnoent);
    }
    if (code == "HD") {
        return metaReply(Reply::To::kSet, Status::kSuccess);
    }
    if (code == "NS") {
        return metaReply(Reply::To::kSet, Status::kNotStored);
    }
    if (code == "NF") {  // of a DELETE: memcached 1.6.18 sends it in quiet mode, later ones do not
        return metaReply(Reply::To::kDelete, Status::kKeyEnoent);
    }
    if (code == "MN") {
        return metaReply(Reply::To::kFence, Status::kSuccess);
    }
    return {};
}

}  // namespace

bool MetaCodec::readTag(std::string_view text, std::uint32_t& opaque) noexcept {
    if (text.size() != kTagSize) {
        return false;
    }
    std::uint64_t number = 0;
    for (std::size_t i = kTagSize; i-- != 0;) {
        const auto digit = static_cast<unsigned>(static_cast<unsigned char>(text[i])) - kFirstDigit;
        if (digit > 63) {
            return false;
        }
        number = number << 6U | digit;
    }
    opaque = static_cast<std::uint32_t>(number);
    return number <= 0xffffffffU;
}

ParsedLine MetaGrammar::parse(std::string_view line) {
    auto rest = line;
    auto parsed = parseCode(nextWord(rest));
    if (parsed.outcome == ParsedLine::Outcome::kBad) {
        return parseMemcachedError(line);
    }
    if (parsed.hasValue && !parseDecimal(nextWord(rest), kLargestValue, parsed.valueSize)) {
        return {};
    }
    while (!rest.empty()) {
        const auto word = nextWord(rest);
        if (word.starts_with('O')) {
            parsed.reply.tagged = MetaCodec::readTag(word.substr(1), parsed.reply.opaque);
            if (!parsed.reply.tagged) {
                return {};
            }
        }
    }
    // Without its tag it would be unknown which of the quiet requests it answers.
    const bool needsTag = parsed.reply.to != Reply::To::kFence;
    return needsTag == parsed.reply.tagged ? parsed : ParsedLine{};
}

MetaCodec::MetaCodec(const KeyCodec& keys, DocumentShape shape)
    : get_(keys, "mg ", " v q O"), set_(keys, "ms ", " "), remove_(keys, "md ", " q O") {
    afterLength_ = " q F" + std::to_string(shape.flags);
    if (shape.expiry != 0) {
        afterLength_ += " T" + std::to_string(shape.expiry);
    }
    afterLength_ += " O";
}

}  // namespace kv::load
