#include "server/stats/prefix_stats.h"

#include <fmt/format.h>

#include "memory/bucket_memory.h"

namespace kv::server {

namespace {

std::string printable(std::string_view prefix) {
    std::string text;
    for (const char byte : prefix) {
        const auto code = static_cast<unsigned char>(byte);
        if (code <= 0x20 || code == 0x7f) {
            text += fmt::format("%{:02X}", code);
        } else {
            text += byte;
        }
    }
    return text;
}

}  // namespace

std::string PrefixStats::Counts::text() const {
    return fmt::format("get {} hit {} set {} del {}", gets, hits, sets, deletes);
}

void PrefixStats::Counts::add(Event event) {
    gets += event == Event::Hit || event == Event::Miss ? 1 : 0;
    hits += event == Event::Hit ? 1 : 0;
    sets += event == Event::Set ? 1 : 0;
    deletes += event == Event::Delete ? 1 : 0;
}

void PrefixStats::count(std::string_view key, Event event) {
    const size_t length = key.find(kDelimiter);
    if (length == std::string_view::npos) {
        return;
    }
    const auto prefix = key.substr(0, length);
    const NonBucketGuard nobody;
    const std::lock_guard lock(mutex_);
    if (const auto known = prefixes_.find(prefix); known != prefixes_.end()) {
        known->second.add(event);
    } else if (prefixes_.size() < kMaxPrefixes) {
        prefixes_[std::string(prefix)].add(event);
    } else {
        full_ = true;
        others_.add(event);
    }
}

void PrefixStats::reset() {
    const NonBucketGuard nobody;
    const std::lock_guard lock(mutex_);
    prefixes_.clear();
    others_ = {};
    full_ = false;
}

std::string PrefixStats::dump() const {
    const std::lock_guard lock(mutex_);
    std::string text;
    for (const auto& [prefix, counts] : prefixes_) {
        text += fmt::format("PREFIX {} {}\r\n", printable(prefix), counts.text());
    }
    return text + "END\r\n";
}

std::string PrefixStats::others() const {
    const std::lock_guard lock(mutex_);
    return full_ ? others_.text() : std::string();
}

}  // namespace kv::server
