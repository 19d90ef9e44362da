#include "load/protocols/resp_codec.h"

namespace kv::load {

namespace {

using protocol::Status;
using Outcome = ParsedLine::Outcome;

ParsedLine respReply(Reply::To to, Status status) {
    return {.outcome = Outcome::kReply, .reply = {.to = to, .status = status}};
}

/// Parses a line after its '-'. Errors about one document, and temporary ones, are counted; all
/// others end the run.
ParsedLine parseError(std::string_view line) {
    if (line.starts_with("OOM ") || line.find("out of memory") != std::string_view::npos) {
        return respReply(Reply::To::kAny, Status::kEnomem);
    }
    if (line.starts_with("LOADING ") || line.starts_with("BUSY ") ||
        line.starts_with("TRYAGAIN ")) {
        return respReply(Reply::To::kAny, Status::kEtmpfail);
    }
    refuseLine(line);
}

std::string commandOfKey(std::size_t words, std::string_view name, const KeyCodec& keys) {
    return "*" + std::to_string(words) + "\r\n$" + std::to_string(name.size()) + "\r\n" +
           std::string(name) + "\r\n$" + std::to_string(keys.size()) + "\r\n";
}

std::string bulk(std::string_view word) {
    return "$" + std::to_string(word.size()) + "\r\n" + std::string(word) + "\r\n";
}

}  // namespace

ParsedLine RespGrammar::parse(std::string_view line) {
    if (line.empty()) {
        return {};
    }
    const auto rest = line.substr(1);
    switch (line.front()) {
        case '$': {
            if (rest == "-1") {
                return respReply(Reply::To::kGet, Status::kKeyEnoent);
            }
            auto parsed = respReply(Reply::To::kGet, Status::kSuccess);
            parsed.hasValue = true;
            return parseDecimal(rest, kLargestValue, parsed.valueSize) ? parsed : ParsedLine{};
        }
        case '+':
            return rest == "OK" ? respReply(Reply::To::kSet, Status::kSuccess) : ParsedLine{};
        case '_':
            return rest.empty() ? respReply(Reply::To::kGet, Status::kKeyEnoent) : ParsedLine{};
        case ':':  // how many keys a DEL found
            if (rest == "0" || rest == "1") {
                return respReply(Reply::To::kDelete,
                                 rest == "1" ? Status::kSuccess : Status::kKeyEnoent);
            }
            return {};
        case '-':
            return parseError(rest);
        default:
            return {};
    }
}

RespCodec::RespCodec(const KeyCodec& keys, DocumentShape shape)
    : get_(keys, commandOfKey(2, "GET", keys), "\r\n"),
      set_(keys, commandOfKey(shape.expiry == 0 ? 3 : 5, "SET", keys), "\r\n$"),
      remove_(keys, commandOfKey(2, "DEL", keys), "\r\n"),
      tail_("\r\n") {
    if (shape.expiry != 0) {
        tail_ += bulk("EX") + bulk(std::to_string(shape.expiry));
    }
}

}  // namespace kv::load
