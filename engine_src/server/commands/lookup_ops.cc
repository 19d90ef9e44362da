// Sub-document lookups of what the server knows about a document: its virtual extended attributes
// ($document, $vbucket, $XTOC), and the whole document next to them. Couchbase SDKs read an expiry
// time in this way. Paths into the value are refused: the server does not parse documents.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "server/commands/command.h"
#include "server/commands/op_target.h"

namespace kv::server {

using protocol::FrameView;
using protocol::Opcode;
using protocol::Response;
using protocol::Status;

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxPaths = 16;
constexpr size_t kMaxPathLength = 1024;
constexpr uint8_t kXattrFlag = 0x04;
constexpr size_t kSpecHead = 4;  ///< opcode, flags, length of the path
constexpr uint64_t kNanos = 1'000'000'000;
constexpr uint64_t kFirstLockCas = uint64_t{1} << 63U;  ///< a locked document hides its CAS

/// One path of a request.
struct Lookup {
    Opcode opcode;
    bool xattr;
    std::string_view path;
};

/// Splits the body of a request; nullopt if it is malformed or has too many paths.
std::optional<std::vector<Lookup>> parseLookups(protocol::Bytes body) {
    std::vector<Lookup> lookups;
    while (!body.empty()) {
        if (body.size() < kSpecHead || lookups.size() == kMaxPaths) {
            return std::nullopt;
        }
        const auto flags = body[1];
        const size_t length = loadBig<uint16_t>(body.data() + 2);
        if ((flags & ~kXattrFlag) != 0 || length > kMaxPathLength ||
            length > body.size() - kSpecHead) {
            return std::nullopt;
        }
        lookups.push_back({static_cast<Opcode>(body[0]), (flags & kXattrFlag) != 0,
                           protocol::asText(body.subspan(kSpecHead, length))});
        body = body.subspan(kSpecHead + length);
    }
    return lookups;
}

/// The first fault of the paths of a request; Success if it can be answered.
Status faultOf(const std::vector<Lookup>& lookups) {
    bool wholeDocument = false;
    for (const Lookup& lookup : lookups) {
        if (lookup.opcode == Opcode::kGet) {
            // Once only, so that a small request cannot ask for a document many times.
            if (wholeDocument || lookup.xattr || !lookup.path.empty()) {
                return Status::kSubdocInvalidCombo;
            }
            wholeDocument = true;
            continue;
        }
        if (lookup.opcode != Opcode::kSubdocGet && lookup.opcode != Opcode::kSubdocExists &&
            lookup.opcode != Opcode::kSubdocGetCount) {
            return Status::kSubdocInvalidCombo;
        }
        if (!lookup.xattr) {
            return Status::kNotSupported;
        }
        if (lookup.path.empty() || wholeDocument) {  // attributes come first
            return Status::kSubdocPathEinval;
        }
        const auto name = lookup.path.substr(0, lookup.path.find_first_of(".["));
        if (name.starts_with('$') && name != "$document" && name != "$vbucket" && name != "$XTOC") {
            return Status::kSubdocXattrUnknownVattr;
        }
    }
    return Status::kSuccess;
}

/// All virtual attributes of a document. Numbers of 64 bits are texts, as Couchbase has them.
Json attributesOf(const OpResult& document, VbUuid uuid, const OpTime& now) {
    const auto hex = [](uint64_t number) { return fmt::format("0x{:016x}", number); };
    Json datatype =
            Json::array({(document.datatype & protocol::Datatype::kJson) != 0 ? "json" : "raw"});
    Json about{{"CAS", hex(document.cas.get())},
               {"datatype", std::move(datatype)},
               {"deleted", false},
               {"exptime", document.exptime},
               {"flags", document.flags}};
    if (document.cas.get() < kFirstLockCas) {  // a time in nanoseconds
        about["last_modified"] = std::to_string(document.cas.get() / kNanos);
    }
    about["revid"] = std::to_string(document.number);
    about["seqno"] = hex(document.seqno.get());
    about["value_bytes"] = document.value.view().size();
    about["vbucket_uuid"] = hex(uuid.get());
    return {{"$document", std::move(about)},
            {"$vbucket", {{"HLC", {{"now", std::to_string(now.seconds)}, {"mode", "real"}}}}},
            {"$XTOC", Json::array()}};
}

struct Found {
    Status status{Status::kSuccess};
    const Json* value{nullptr};
};

/// The element of an array that `text` ("0]", "-1]") names.
Found elementOf(const Json& array, std::string_view text) {
    int64_t index = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
    if (error != std::errc() || end + 1 != text.data() + text.size() || *end != ']') {
        return {Status::kSubdocPathEinval};
    }
    if (!array.is_array()) {
        return {Status::kSubdocPathMismatch};
    }
    const auto size = static_cast<int64_t>(array.size());
    if (index == -1) {
        index = size - 1;
    }
    if (index < 0 || index >= size) {
        return {Status::kSubdocPathEnoent};
    }
    return {Status::kSuccess, &array[static_cast<size_t>(index)]};
}

/// Walks `path` ("$document.datatype[0]") from `root`.
Found findPath(const Json& root, std::string_view path) {
    Found found{Status::kSuccess, &root};
    bool first = true;
    while (!path.empty()) {
        const bool element = path.front() == '[';
        if (!element && !first) {
            path.remove_prefix(1);  // the point
        }
        first = false;
        const size_t end = path.find_first_of(".[", element ? 1 : 0);
        const auto step = path.substr(0, end);
        path.remove_prefix(step.size());
        if (step.empty()) {
            return {Status::kSubdocPathEinval};
        }
        if (element) {
            found = elementOf(*found.value, step.substr(1));
        } else if (!found.value->is_object()) {
            return {Status::kSubdocPathMismatch};
        } else if (const auto member = found.value->find(std::string(step));
                   member != found.value->end()) {
            found.value = &*member;
        } else {
            return {Status::kSubdocPathEnoent};
        }
        if (found.status != Status::kSuccess) {
            return found;
        }
    }
    return found;
}

/// Appends the answer to one path; returns its status.
Status appendResult(const Lookup& lookup, const Json& attributes, const OpResult& document,
                    std::string& out) {
    const auto append = [&out](Status status, std::string_view value) {
        std::array<uint8_t, 6> head{};
        storeBig(head.data(), protocol::raw(status));
        storeBig(head.data() + 2, static_cast<uint32_t>(value.size()));
        out.append(reinterpret_cast<const char*>(head.data()), head.size());
        out.append(value);
        return status;
    };
    if (lookup.opcode == Opcode::kGet) {
        return append(Status::kSuccess, document.value.view());
    }
    const Found found = findPath(attributes, lookup.path);
    if (found.status != Status::kSuccess || lookup.opcode == Opcode::kSubdocExists) {
        return append(found.status, {});
    }
    if (lookup.opcode == Opcode::kSubdocGet) {
        return append(Status::kSuccess, found.value->dump());
    }
    return found.value->is_structured()
                   ? append(Status::kSuccess, std::to_string(found.value->size()))
                   : append(Status::kSubdocPathMismatch, {});
}

After lookUp(CommandContext& context, const FrameView& request) {
    const auto lookups = parseLookups(request.value);
    if (!lookups) {
        replyError(context, request, Status::kEinval, "Invalid arguments: paths");
        return After::Continue;
    }
    if (!request.extras.empty() && request.extras[0] != 0) {
        replyError(context, request, Status::kNotSupported, "Flags of the document");
        return After::Continue;
    }
    if (const Status fault = faultOf(*lookups); fault != Status::kSuccess) {
        replyError(context, request, fault,
                   fault == Status::kNotSupported ? "Paths into the value" : "Invalid lookup");
        return After::Continue;
    }
    const Vbid vbid = targetOf(context, request);
    auto& bucket = context.server.bucket;
    const OpResult document = bucket.get(vbid, request.keyText(), context.now);
    context.stats.gets.add();
    count(context, request, document.ok() ? PrefixStats::Event::Hit : PrefixStats::Event::Miss);
    if (!document.ok()) {
        replyRefusal(context, request, document.status);
        return After::Continue;
    }
    context.stats.getHits.add();
    const Json attributes =
            attributesOf(document, bucket.vbucket(vbid).failoverLog().uuid(), context.now);
    std::string body;
    Response response;
    for (const Lookup& lookup : *lookups) {
        if (appendResult(lookup, attributes, document, body) != Status::kSuccess) {
            response.status = Status::kSubdocMultiPathFailure;
        }
    }
    response.cas = document.cas.get();
    response.value = protocol::asBytes(body);
    reply(context, request, response);
    return After::Continue;
}

}  // namespace

void addLookupOps(CommandTable& table) {
    table.add({Opcode::kSubdocMultiLookup}, {timed<lookUp>, Needs::Read});
}

}  // namespace kv::server
