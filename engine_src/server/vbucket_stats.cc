#include "server/vbucket_stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace kv::server {

using protocol::Status;

namespace {

template <class Value>
void add(KeyValues& out, std::string key, const Value& value) {
    out.emplace_back(std::move(key), fmt::format("{}", value));
}

std::string nameOf(const VBucket& vbucket, std::string_view figure) {
    return fmt::format("vb_{}:{}", vbucket.id().get(), figure);
}

void addState(KeyValues& out, const ServerContext&, const VBucket& vbucket) {
    add(out, fmt::format("vb_{}", vbucket.id().get()), toString(vbucket.state()));
}

void addSeqnos(KeyValues& out, const ServerContext& server, const VBucket& vbucket) {
    add(out, nameOf(vbucket, "high_seqno"), vbucket.highSeqno().get());
    add(out, nameOf(vbucket, "abs_high_seqno"), vbucket.highSeqno().get());
    if (server.persistedSeqno) {
        add(out, nameOf(vbucket, "last_persisted_seqno"),
            server.persistedSeqno(vbucket.id()).get());
    }
    add(out, nameOf(vbucket, "uuid"), vbucket.failoverLog().uuid().get());
    add(out, nameOf(vbucket, "purge_seqno"), vbucket.purgedSeqno().get());
}

void addDetails(KeyValues& out, const ServerContext& server, const VBucket& vbucket) {
    addState(out, server, vbucket);
    const HashTableSums sums = vbucket.hashTable().sums();
    add(out, nameOf(vbucket, "num_items"), std::max<int64_t>(0, sums.items));
    add(out, nameOf(vbucket, "num_tombstones"), std::max<int64_t>(0, sums.tombstones));
    add(out, nameOf(vbucket, "num_non_resident"), std::max<int64_t>(0, sums.nonResident));
    add(out, nameOf(vbucket, "ht_memory"), vbucket.hashTable().fixedBytes());
    add(out, nameOf(vbucket, "ht_item_memory"),
        std::max<int64_t>(0, sums.metaBytes + sums.valueBytes));
    add(out, nameOf(vbucket, "ht_size"), vbucket.hashTable().size());
    add(out, nameOf(vbucket, "queue_size"), vbucket.checkpoints().unpersisted());
    addSeqnos(out, server, vbucket);
}

void addFailovers(KeyValues& out, const ServerContext&, const VBucket& vbucket) {
    const auto entries = vbucket.failoverLog().entries();
    add(out, nameOf(vbucket, "num_entries"), entries.size());
    for (size_t i = 0; i < entries.size(); ++i) {
        add(out, nameOf(vbucket, fmt::format("{}:id", i)), entries[i].uuid.get());
        add(out, nameOf(vbucket, fmt::format("{}:seq", i)), entries[i].seqno.get());
    }
}

void addCheckpoints(KeyValues& out, const ServerContext&, const VBucket& vbucket) {
    const CheckpointStats stats = vbucket.checkpoints().stats();
    add(out, nameOf(vbucket, "state"), toString(vbucket.state()));
    add(out, nameOf(vbucket, "open_checkpoint_id"), stats.openId.get());
    add(out, nameOf(vbucket, "num_checkpoints"), stats.checkpoints);
    add(out, nameOf(vbucket, "num_open_checkpoint_items"), stats.openItems);
    add(out, nameOf(vbucket, "num_conn_cursors"), stats.cursors);
    add(out, nameOf(vbucket, "num_items_for_persistence"), vbucket.checkpoints().unpersisted());
    add(out, nameOf(vbucket, "mem_usage"), vbucket.checkpoints().memory());
}

using AddFigures = void (*)(KeyValues&, const ServerContext&, const VBucket&);
struct Named {
    std::string_view name;
    AddFigures add;
};
constexpr Named kGroups[] = {{"vbucket", addState},
                             {"vbucket-details", addDetails},
                             {"vbucket-seqno", addSeqnos},
                             {"failovers", addFailovers},
                             {"checkpoint", addCheckpoints}};

/// Splits at the first space.
std::pair<std::string_view, std::string_view> splitWord(std::string_view text) {
    const auto space = text.find(' ');
    return space == std::string_view::npos
                   ? std::pair{text, std::string_view()}
                   : std::pair{text.substr(0, space), text.substr(space + 1)};
}

std::optional<Vbid> vbidFrom(std::string_view text) {
    uint16_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(Vbid{number})
                                                                    : std::nullopt;
}

StatAnswer figuresOf(ServerContext& server, AddFigures figures, std::string_view which) {
    StatAnswer answer;
    Bucket& bucket = server.bucket;
    if (!which.empty()) {
        const auto vbid = vbidFrom(which);
        if (!vbid) {
            return {Status::kEinval, {}};
        }
        if (!bucket.hasVBucket(*vbid)) {
            return {Status::kNotMyVbucket, {}};
        }
        figures(answer.values, server, bucket.vbucket(*vbid));
        return answer;
    }
    for (uint16_t id = 0; id < bucket.vbucketCount(); ++id) {
        // Without a number: those that are here.
        if (bucket.vbucket(Vbid{id}).state() != VbState::Dead) {
            figures(answer.values, server, bucket.vbucket(Vbid{id}));
        }
    }
    return answer;
}

/// "NAME VBUCKET"; a name may contain spaces.
StatAnswer keyStats(ServerContext& server, std::string_view text) {
    const auto space = text.rfind(' ');
    const auto vbid = space == std::string_view::npos || space == 0
                              ? std::nullopt
                              : vbidFrom(text.substr(space + 1));
    if (!vbid) {
        return {Status::kEinval, {}};
    }
    const auto found = server.bucket.getMeta(*vbid, text.substr(0, space), OpTime::now());
    if (found.status == OpStatus::NotMyVbucket) {
        return {Status::kNotMyVbucket, {}};
    }
    if (!found.ok() || found.deleted) {
        return {Status::kKeyEnoent, {}};
    }
    StatAnswer answer;
    if (server.persistedSeqno) {
        const bool dirty = server.persistedSeqno(*vbid) < found.seqno;
        add(answer.values, "key_is_dirty", dirty ? "true" : "false");
    }
    add(answer.values, "key_exptime", found.exptime);
    add(answer.values, "key_flags", found.flags);
    add(answer.values, "key_cas", found.cas.get());
    add(answer.values, "key_seqno", found.seqno.get());
    add(answer.values, "key_vb_state", toString(server.bucket.vbucket(*vbid).state()));
    return answer;
}

}  // namespace

std::optional<StatAnswer> vbucketStats(ServerContext& server, std::string_view group) {
    const auto [name, rest] = splitWord(group);
    if (name == "key") {
        return keyStats(server, rest);
    }
    for (const auto& known : kGroups) {
        if (known.name == name) {
            return figuresOf(server, known.add, rest);
        }
    }
    return std::nullopt;
}

}  // namespace kv::server
