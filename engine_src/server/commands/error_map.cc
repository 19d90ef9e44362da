#include "server/commands/error_map.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "protocol/status.h"

namespace kv::server {

namespace {

using protocol::Status;

struct Entry {
    Status status;
    const char* name;
    const char* description;
    std::vector<std::string> attributes;
};

std::vector<Entry> entries() {
    return {
            {Status::kSuccess, "SUCCESS", "Success", {"success"}},
            {Status::kKeyEnoent, "KEY_ENOENT", "Not found", {"item-only"}},
            {Status::kKeyEexists, "KEY_EEXISTS", "Key exists or CAS mismatch", {"item-only"}},
            {Status::kE2big, "E2BIG", "Key or value too large", {"item-only", "invalid-input"}},
            {Status::kEinval, "EINVAL", "Invalid arguments", {"internal", "invalid-input"}},
            {Status::kNotStored, "NOT_STORED", "Not stored", {"item-only"}},
            {Status::kDeltaBadval,
             "DELTA_BADVAL",
             "Value is not a number",
             {"item-only", "invalid-input"}},
            {Status::kNotMyVbucket,
             "NOT_MY_VBUCKET",
             "vBucket is not here",
             {"fetch-config", "invalid-input"}},
            {Status::kNoBucket, "NO_BUCKET", "No bucket selected", {"conn-state-invalidated"}},
            {Status::kLocked, "LOCKED", "Locked", {"item-locked", "item-only", "retry-now"}},
            {Status::kNotLocked, "NOT_LOCKED", "Not locked", {"item-only"}},
            {Status::kAuthError,
             "AUTH_ERROR",
             "Authentication failed",
             {"conn-state-invalidated", "auth"}},
            {Status::kAuthContinue,
             "AUTH_CONTINUE",
             "Another step is needed",
             {"special-handling"}},
            {Status::kErange, "ERANGE", "Out of range", {"invalid-input"}},
            {Status::kEaccess, "EACCESS", "No access", {"support"}},
            {Status::kUnknownFrameInfo, "UNKNOWN_FRAME_INFO", "Unknown framing extra", {"support"}},
            {Status::kUnknownCommand, "UNKNOWN_COMMAND", "Unknown command", {"support"}},
            {Status::kEnomem, "ENOMEM", "Out of memory", {"support"}},
            {Status::kNotSupported, "NOT_SUPPORTED", "Not supported", {"support"}},
            {Status::kEinternal, "EINTERNAL", "Internal error", {"internal"}},
            {Status::kEbusy, "EBUSY", "Busy", {"temp", "retry-later"}},
            {Status::kEtmpfail, "ETMPFAIL", "Temporary failure", {"temp", "retry-later"}},
            {Status::kDurabilityInvalidLevel,
             "DURABILITY_INVALID_LEVEL",
             "Durability level is not served",
             {"item-only", "invalid-input"}},
            {Status::kDurabilityImpossible,
             "DURABILITY_IMPOSSIBLE",
             "Durability is not possible",
             {"item-only"}},
    };
}

std::string build(int version) {
    nlohmann::ordered_json map;
    map["version"] = version;
    map["revision"] = 1;
    auto& errors = map["errors"] = nlohmann::ordered_json::object();
    for (const auto& entry : entries()) {
        errors[fmt::format("{:x}", protocol::raw(entry.status))] = {
                {"name", entry.name}, {"desc", entry.description}, {"attrs", entry.attributes}};
    }
    return map.dump();
}

}  // namespace

std::string_view errorMapJson(uint16_t asked) {
    static const std::string kFirst = build(1);
    static const std::string kSecond = build(2);
    return asked < 2 ? kFirst : kSecond;
}

}  // namespace kv::server
