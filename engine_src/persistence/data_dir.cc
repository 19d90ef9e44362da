#include "persistence/data_dir.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "logging/log.h"
#include "persistence/checked_file.h"
#include "persistence/store_error.h"

namespace kv {

namespace {

constexpr int kFormat = 1;
constexpr int kMarkFormat = 1;
constexpr const char* kCreating = "creating";

void checkLayout(const std::filesystem::path& path, unsigned shards, unsigned vbuckets) {
    uint64_t storedShards = 0;
    uint64_t storedVbuckets = 0;
    try {
        const auto layout = nlohmann::json::parse(readWhole(path));
        if (layout.at("format") != kFormat) {
            throw StoreError(path.string() + " is of another version of this engine");
        }
        storedShards = layout.at("shards").get<uint64_t>();
        storedVbuckets = layout.at("vbuckets").get<uint64_t>();
    } catch (const nlohmann::json::exception&) {
        throw DamageError(path.string() +
                          " is not the layout of a data directory of this engine. Restore it: it "
                          R"(has {"format":1,"shards":S,"vbuckets":V} with the values of the )"
                          "first start");
    }
    if (storedShards != shards || storedVbuckets != vbuckets) {
        throw StoreError(fmt::format("{} was written with --shards {} --vbuckets {}, not {} and {}",
                                     path.parent_path().string(), storedShards, storedVbuckets,
                                     shards, vbuckets));
    }
}

/// Returns true if a store has no files with documents.
bool isUnused(const std::filesystem::path& store) {
    const std::filesystem::directory_iterator files(store);
    return std::none_of(begin(files), end(files), [](const std::filesystem::directory_entry& file) {
        const auto ending = file.path().extension();
        return ending == ".sst" || (ending == ".log" && file.file_size() != 0);
    });
}

std::string textOf(const std::vector<StoredVBucket>& stored, const std::string& identity) {
    auto vbuckets = nlohmann::json::array();
    for (const StoredVBucket& entry : stored) {
        vbuckets.push_back({{"vbucket", entry.vbid.get()},
                            {"state", entry.state},
                            {"uuid", entry.uuid.get()},
                            {"high_seqno", entry.highSeqno.get()},
                            {"documents", entry.documents}});
    }
    return nlohmann::json(
                   {{"format", kMarkFormat}, {"file", identity}, {"vbuckets", std::move(vbuckets)}})
            .dump();
}

/// Sets `isCopy` if the mark was not made where it is now.
std::optional<std::vector<StoredVBucket>> readMark(const std::filesystem::path& path,
                                                   bool& isCopy) {
    std::optional<std::string> line;
    try {
        line = readChecked(path);
    } catch (const DamageError& error) {
        log::warn("{}: the last stop counts as not clean", error.what());
    }
    if (!line) {
        return std::nullopt;
    }
    const auto mark = nlohmann::json::parse(*line);
    if (mark.at("format") != kMarkFormat) {
        log::warn("{} is of another version: the last stop counts as not clean", path.string());
        return std::nullopt;
    }
    const auto made = mark.value("file", std::string());
    isCopy = !made.empty() && made != identityOf(path);
    if (isCopy) {
        log::warn(
                "{} is a copy: another node, or this one, may have continued the history of its "
                "documents, so a new one begins",
                path.parent_path().string());
    }
    std::vector<StoredVBucket> stored;
    for (const auto& entry : mark.at("vbuckets")) {
        stored.push_back({.vbid = Vbid{entry.at("vbucket").get<uint16_t>()},
                          .state = entry.at("state").get<uint8_t>(),
                          .uuid = VbUuid{entry.at("uuid").get<uint64_t>()},
                          .highSeqno = Seqno{entry.at("high_seqno").get<uint64_t>()},
                          .documents = entry.at("documents").get<uint64_t>()});
    }
    return stored;
}

}  // namespace

DataDir::DataDir(std::filesystem::path path, unsigned shards, unsigned vbuckets)
    : path_(std::move(path)), shards_(shards), vbuckets_(vbuckets) {
    std::error_code error;
    std::filesystem::create_directories(path_, error);
    if (error) {
        throw StoreError("cannot make the data directory " + path_.string() + ": " +
                         error.message());
    }
    lock_ = lockFile(path_ / "lock");
    const auto layout = path_ / "layout.json";
    // Without its layout, the directory of a clean stop is damaged, not new.
    new_ = !std::filesystem::exists(layout) && !std::filesystem::exists(path_ / "clean");
    if (new_) {
        begin();
    } else {
        checkLayout(layout, shards, vbuckets);
        std::filesystem::remove(path_ / kCreating, error);
        mark_ = readMark(path_ / "clean", isCopy_);
    }
}

void DataDir::begin() const {
    const auto creating = path_ / kCreating;
    const bool interrupted = std::filesystem::exists(creating);
    bool hasStores = false;
    for (unsigned shard = 0; shard < shards_; ++shard) {
        const std::filesystem::path store = shardPath(shard);
        if (!std::filesystem::exists(store)) {
            continue;
        }
        if (!interrupted || !isUnused(store)) {
            hasStores = true;
            continue;
        }
        log::warn("{} was not completed by an earlier start, and is made again", store.string());
        std::error_code error;
        std::filesystem::remove_all(store, error);
        if (error) {
            throw StoreError("cannot remove " + store.string() + ": " + error.message());
        }
    }
    if (!interrupted && !hasStores) {
        writeWhole(creating, "");
    }
}

void DataDir::writeLayout() const {
    writeWhole(path_ / "layout.json",
               nlohmann::json({{"format", kFormat}, {"shards", shards_}, {"vbuckets", vbuckets_}})
                               .dump() +
                       "\n");
    std::error_code ignored;  // the next start tries again
    std::filesystem::remove(path_ / kCreating, ignored);
}

void DataDir::removeCleanMark() {
    std::error_code error;
    if (std::filesystem::remove(path_ / "clean", error) && !syncPath(path_)) {
        throw StoreError("cannot sync " + path_.string());
    }
    if (error) {
        throw StoreError("cannot remove " + (path_ / "clean").string() + ": " + error.message());
    }
    mark_.reset();
}

void DataDir::markClean(const std::vector<StoredVBucket>& stored) const {
    writeChecked(path_ / "clean",
                 [&stored](const std::string& identity) { return textOf(stored, identity); });
}

std::string DataDir::shardPath(unsigned shard) const {
    return (path_ / ("shard-" + std::to_string(shard))).string();
}

}  // namespace kv
