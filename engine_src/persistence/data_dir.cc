#include "persistence/data_dir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "persistence/store_error.h"

namespace kv {

namespace {

constexpr int kFormat = 1;

/// Makes what was done to a file, or to the names in a directory, survive the loss of power.
bool syncPath(const std::filesystem::path& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        return false;
    }
    const bool synced = ::fsync(descriptor) == 0;
    ::close(descriptor);
    return synced;
}

/// A crash or a power cut leaves the old file or the new one, never half of one.
void writeFile(const std::filesystem::path& path, const std::string& text) {
    const std::filesystem::path temporary = path.string() + ".new";
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out << text;
    out.close();
    std::error_code error;
    if (out && syncPath(temporary)) {
        std::filesystem::rename(temporary, path, error);
        if (!error && syncPath(path.parent_path())) {
            return;
        }
    }
    throw StoreError("cannot write " + path.string());
}

void checkLayout(const std::filesystem::path& path, unsigned shards, unsigned vbuckets) {
    std::ifstream in(path);
    const auto layout = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
    if (!layout.is_object() || layout.value("format", 0) != kFormat) {
        throw StoreError(path.string() + " is not the layout of a data directory of this engine");
    }
    const unsigned storedShards = layout.value("shards", 0U);
    const unsigned storedVbuckets = layout.value("vbuckets", 0U);
    if (storedShards != shards || storedVbuckets != vbuckets) {
        throw StoreError(fmt::format("{} was written with --shards {} --vbuckets {}, not {} and {}",
                                     path.parent_path().string(), storedShards, storedVbuckets,
                                     shards, vbuckets));
    }
}

}  // namespace

DataDir::DataDir(std::filesystem::path path, unsigned shards, unsigned vbuckets)
    : path_(std::move(path)) {
    std::error_code error;
    std::filesystem::create_directories(path_, error);
    if (error) {
        throw StoreError("cannot make the data directory " + path_.string() + ": " +
                         error.message());
    }
    const auto layout = path_ / "layout.json";
    new_ = !std::filesystem::exists(layout);
    if (!new_) {
        checkLayout(layout, shards, vbuckets);
        return;
    }
    writeFile(layout,
              nlohmann::json({{"format", kFormat}, {"shards", shards}, {"vbuckets", vbuckets}})
                              .dump() +
                      "\n");
}

bool DataDir::takeCleanMark() {
    std::error_code error;
    if (!std::filesystem::remove(path_ / "clean", error)) {
        return false;
    }
    if (!syncPath(path_)) {
        throw StoreError("cannot sync " + path_.string());
    }
    return true;
}

void DataDir::markClean() {
    writeFile(path_ / "clean", "everything was stored\n");
}

std::string DataDir::shardPath(unsigned shard) const {
    return (path_ / ("shard-" + std::to_string(shard))).string();
}

}  // namespace kv
