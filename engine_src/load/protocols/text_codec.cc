#include "load/protocols/text_codec.h"

namespace kv::load {

namespace {

using protocol::Status;
using Outcome = ParsedLine::Outcome;

ParsedLine textReply(Reply::To to, Status status) {
    return {.outcome = Outcome::kReply, .reply = {.to = to, .status = status}};
}

}  // namespace

ParsedLine parseMemcachedError(std::string_view line) {
    if (line.starts_with("SERVER_ERROR ")) {
        if (line.find("emory") != std::string_view::npos) {  // "out of memory storing object", ...
            return textReply(Reply::To::kAny, Status::kEnomem);
        }
        const bool large = line.find("too large") != std::string_view::npos;
        return textReply(Reply::To::kAny, large ? Status::kE2big : Status::kEinternal);
    }
    if (line == "ERROR" || line.starts_with("ERROR ") || line.starts_with("CLIENT_ERROR ")) {
        refuseLine(line);
    }
    return {};
}

ParsedLine TextGrammar::parse(std::string_view line) {
    if (line.starts_with("VALUE ")) {  // VALUE key flags bytes
        auto parsed = textReply(Reply::To::kGet, Status::kSuccess);
        parsed.hasValue = true;
        const auto size = line.substr(line.rfind(' ') + 1);
        return parseDecimal(size, kLargestValue, parsed.valueSize) ? parsed : ParsedLine{};
    }
    if (line == "STORED") {
        return textReply(Reply::To::kSet, Status::kSuccess);
    }
    if (line == "END") {
        return textReply(Reply::To::kGet, Status::kKeyEnoent);
    }
    if (line == "NOT_STORED") {
        return textReply(Reply::To::kSet, Status::kNotStored);
    }
    if (line == "DELETED") {
        return textReply(Reply::To::kDelete, Status::kSuccess);
    }
    if (line == "NOT_FOUND") {
        return textReply(Reply::To::kDelete, Status::kKeyEnoent);
    }
    return parseMemcachedError(line);
}

TextCodec::TextCodec(const KeyCodec& keys, DocumentShape shape)
    : get_(keys, "get ", "\r\n"),
      set_(keys, "set ",
           " " + std::to_string(shape.flags) + " " + std::to_string(shape.expiry) + " "),
      remove_(keys, "delete ", "\r\n") {}

}  // namespace kv::load
