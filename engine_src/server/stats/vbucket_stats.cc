#include <fmt/format.h>

#include <algorithm>

#include "server/stats/figures.h"
#include "types/parse_number.h"

namespace kv::server {

using protocol::Status;

namespace {

std::string nameOf(const VBucket& vbucket, std::string_view figure) {
    return fmt::format("vb_{}:{}", vbucket.id().get(), figure);
}

void addState(KeyValues& out, const ServerContext&, const VBucket& vbucket) {
    addFigure(out, fmt::format("vb_{}", vbucket.id().get()), toString(vbucket.state()));
}

void addSeqnos(KeyValues& out, const ServerContext& server, const VBucket& vbucket) {
    addFigure(out, nameOf(vbucket, "high_seqno"), vbucket.highSeqno().get());
    addFigure(out, nameOf(vbucket, "abs_high_seqno"), vbucket.highSeqno().get());
    if (server.persistedSeqno) {
        addFigure(out, nameOf(vbucket, "last_persisted_seqno"),
                  server.persistedSeqno(vbucket.id()).get());
    }
    addFigure(out, nameOf(vbucket, "uuid"), vbucket.failoverLog().uuid().get());
    addFigure(out, nameOf(vbucket, "purge_seqno"), vbucket.purgedSeqno().get());
}

void addDetails(KeyValues& out, const ServerContext& server, const VBucket& vbucket) {
    addState(out, server, vbucket);
    const HashTableSums sums = vbucket.hashTable().sums();
    addFigure(out, nameOf(vbucket, "num_items"), std::max<int64_t>(0, sums.items));
    addFigure(out, nameOf(vbucket, "num_tombstones"), std::max<int64_t>(0, sums.tombstones));
    addFigure(out, nameOf(vbucket, "num_non_resident"), std::max<int64_t>(0, sums.nonResident));
    addFigure(out, nameOf(vbucket, "ht_memory"), vbucket.hashTable().fixedBytes());
    addFigure(out, nameOf(vbucket, "ht_item_memory"),
              std::max<int64_t>(0, sums.metaBytes + sums.valueBytes));
    addFigure(out, nameOf(vbucket, "ht_size"), vbucket.hashTable().size());
    addFigure(out, nameOf(vbucket, "queue_size"), vbucket.checkpoints().unpersisted());
    addSeqnos(out, server, vbucket);
}

void addFailovers(KeyValues& out, const ServerContext&, const VBucket& vbucket) {
    const auto entries = vbucket.failoverLog().entries();
    addFigure(out, nameOf(vbucket, "num_entries"), entries.size());
    for (size_t i = 0; i < entries.size(); ++i) {
        addFigure(out, nameOf(vbucket, fmt::format("{}:id", i)), entries[i].uuid.get());
        addFigure(out, nameOf(vbucket, fmt::format("{}:seq", i)), entries[i].seqno.get());
    }
}

void addCheckpoints(KeyValues& out, const ServerContext&, const VBucket& vbucket) {
    const CheckpointStats stats = vbucket.checkpoints().stats();
    addFigure(out, nameOf(vbucket, "state"), toString(vbucket.state()));
    addFigure(out, nameOf(vbucket, "open_checkpoint_id"), stats.openId.get());
    addFigure(out, nameOf(vbucket, "num_checkpoints"), stats.checkpoints);
    addFigure(out, nameOf(vbucket, "num_open_checkpoint_items"), stats.openItems);
    addFigure(out, nameOf(vbucket, "num_conn_cursors"), stats.cursors);
    addFigure(out, nameOf(vbucket, "num_items_for_persistence"),
              vbucket.checkpoints().unpersisted());
    addFigure(out, nameOf(vbucket, "mem_usage"), vbucket.checkpoints().memory());
}

using AddFigures = void (*)(KeyValues&, const ServerContext&, const VBucket&);
struct VBucketGroup {
    std::string_view name;
    AddFigures add;
};
constexpr VBucketGroup kVBucketGroups[] = {{"vbucket", addState},
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
    const auto number = parseNumber<uint16_t>(text);
    return number ? std::optional(Vbid{*number}) : std::nullopt;
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
        // Without a number: the vBuckets that are here.
        if (bucket.vbucket(Vbid{id}).state() != VbState::Dead) {
            figures(answer.values, server, bucket.vbucket(Vbid{id}));
        }
    }
    return answer;
}

/// Handles "NAME VBUCKET"; a name may contain spaces.
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
        addFigure(answer.values, "key_is_dirty", dirty ? "true" : "false");
    }
    addFigure(answer.values, "key_exptime", found.exptime);
    addFigure(answer.values, "key_flags", found.flags);
    addFigure(answer.values, "key_cas", found.cas.get());
    addFigure(answer.values, "key_seqno", found.seqno.get());
    addFigure(answer.values, "key_vb_state", toString(server.bucket.vbucket(*vbid).state()));
    return answer;
}

}  // namespace

std::optional<StatAnswer> vbucketStats(ServerContext& server, std::string_view group) {
    const auto [name, rest] = splitWord(group);
    if (name == "key") {
        return keyStats(server, rest);
    }
    for (const auto& known : kVBucketGroups) {
        if (known.name == name) {
            return figuresOf(server, known.add, rest);
        }
    }
    return std::nullopt;
}

}  // namespace kv::server
