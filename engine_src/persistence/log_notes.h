// LogNotes: names the write-ahead logs that a store needs, in a file next to it (shard-0-logs), so
// that a start notices if one of them is missing. RocksDB itself notices only the loss of logs that
// it has synced; it skips any other, and applies those after it.
//
// The file has a line for each event: "+000012.log" after a log was made, "-000012.log" before it
// is removed. A log that it names is therefore there, whenever the process dies. A removal is
// synced, so that this is also true after a power cut. If an event cannot be recorded, the file is
// removed: then nothing is known, and nothing is reported as missing.
//
// Threads: any.
#pragma once

#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace kv {

class LogNotes {
  public:
    explicit LogNotes(std::filesystem::path file) : file_(std::move(file)) {}

    /// Returns the logs that were made and not removed. Ignores lines that are not complete.
    [[nodiscard]] std::set<std::string> names() const;
    /// Forgets all logs but this one. Throws StoreError.
    void beginWith(const std::string& name);
    void made(std::string_view name) noexcept;
    void removing(std::string_view name) noexcept;

  private:
    enum class Durable : bool { No, Yes };
    void append(char event, std::string_view name, Durable durable) noexcept;

    const std::filesystem::path file_;
    mutable std::mutex mutex_;
};

}  // namespace kv
