// jemalloc of any pinned version, through its own mallctl interface (symbol prefix _rjem_).
#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "allocators/allocator.h"
#include "allocators/in_effect.h"

extern "C" int _rjem_mallctl(const char* name, void* oldp, size_t* oldlenp, void* newp,
                             size_t newlen);

namespace kv::allocator {
namespace {

template <class T>
int readInto(const char* name, T& value) {
    size_t size = sizeof(T);
    return _rjem_mallctl(name, &value, &size, nullptr, 0);
}

template <class T>
std::optional<uint64_t> figure(const char* name) {
    T value{};
    if (readInto(name, value) != 0) {
        return std::nullopt;
    }
    return static_cast<uint64_t>(value);
}

/// jemalloc cannot be asked for the owner of a foreign block, so the thread's counter tells.
bool serves(const Way& way) {
    uint64_t before = 0;
    uint64_t after = 0;
    const bool counts = readInto("thread.allocated", before) == 0;
    void* block = way.allocate();
    const bool own =
            counts && readInto("thread.allocated", after) == 0 && after - before >= kWaySize;
    if (own) {
        way.release(block);
    }
    return own;
}

enum class Kind { Boolean, Text, Number, SignedNumber };

struct Option {
    const char* name;
    Kind kind;
};

// The union of the documented options of 4.5.0 .. 5.3.1; a version without an option answers
// ENOENT, and the option is left out.
constexpr std::array kOptions{
        Option{"opt.abort", Kind::Boolean},
        Option{"opt.abort_conf", Kind::Boolean},
        Option{"opt.confirm_conf", Kind::Boolean},
        Option{"opt.background_thread", Kind::Boolean},
        Option{"opt.cache_oblivious", Kind::Boolean},
        Option{"opt.decay_time", Kind::SignedNumber},
        Option{"opt.dirty_decay_ms", Kind::SignedNumber},
        Option{"opt.dss", Kind::Text},
        Option{"opt.hpa", Kind::Boolean},
        Option{"opt.junk", Kind::Text},
        Option{"opt.lg_chunk", Kind::Number},
        Option{"opt.lg_dirty_mult", Kind::SignedNumber},
        Option{"opt.lg_extent_max_active_fit", Kind::Number},
        Option{"opt.lg_tcache_max", Kind::Number},
        Option{"opt.lg_tcache_nslots_mul", Kind::SignedNumber},
        Option{"opt.max_background_threads", Kind::Number},
        Option{"opt.metadata_thp", Kind::Text},
        Option{"opt.muzzy_decay_ms", Kind::SignedNumber},
        Option{"opt.mutex_max_spin", Kind::SignedNumber},
        Option{"opt.narenas", Kind::Number},
        Option{"opt.oversize_threshold", Kind::Number},
        Option{"opt.percpu_arena", Kind::Text},
        Option{"opt.prof", Kind::Boolean},
        Option{"opt.prof_active", Kind::Boolean},
        Option{"opt.purge", Kind::Text},
        Option{"opt.retain", Kind::Boolean},
        Option{"opt.tcache", Kind::Boolean},
        Option{"opt.tcache_max", Kind::Number},
        Option{"opt.thp", Kind::Text},
        Option{"opt.trust_madvise", Kind::Boolean},
        Option{"opt.utrace", Kind::Boolean},
        Option{"opt.xmalloc", Kind::Boolean},
        Option{"opt.zero", Kind::Boolean},
        Option{"opt.zero_realloc", Kind::Text},
};

std::optional<std::string> readBack(const Option& option) {
    switch (option.kind) {
        case Kind::Boolean:
            if (bool value = false; readInto(option.name, value) == 0) {
                return value ? "true" : "false";
            }
            return std::nullopt;
        case Kind::Text:
            if (const char* value = nullptr; readInto(option.name, value) == 0) {
                return std::string(value);
            }
            return std::nullopt;
        case Kind::Number:
            // The width of some numbers changed between versions (unsigned and size_t): a wrong
            // width answers EINVAL.
            if (size_t wide = 0; readInto(option.name, wide) == 0) {
                return std::to_string(wide);
            }
            if (unsigned narrow = 0; readInto(option.name, narrow) == 0) {
                return std::to_string(narrow);
            }
            return std::nullopt;
        case Kind::SignedNumber:
            if (ptrdiff_t wide = 0; readInto(option.name, wide) == 0) {
                return std::to_string(wide);
            }
            if (int64_t exact = 0; readInto(option.name, exact) == 0) {
                return std::to_string(exact);
            }
            if (int narrow = 0; readInto(option.name, narrow) == 0) {
                return std::to_string(narrow);
            }
            return std::nullopt;
    }
    return std::nullopt;
}

}  // namespace

std::string name() {
    return nameInEffect(KV_ALLOCATOR_NAME, serves);
}

std::string version() {
    const char* value = nullptr;
    if (readInto("version", value) != 0) {
        throw std::runtime_error("jemalloc does not answer mallctl(\"version\")");
    }
    return value;
}

std::string confEnv() {
    return "_RJEM_MALLOC_CONF";
}

std::vector<std::pair<std::string, std::string>> options() {
    std::vector<std::pair<std::string, std::string>> found;
    for (const auto& option : kOptions) {
        if (auto value = readBack(option)) {
            found.emplace_back(option.name, *std::move(value));
        }
    }
    // Not options but their effects: threads can fail to start, arenas are capped.
    if (bool running = false; readInto("background_thread", running) == 0) {
        found.emplace_back("active.background_thread", running ? "true" : "false");
    }
    if (const auto arenas = figure<unsigned>("arenas.narenas")) {
        found.emplace_back("active.narenas", std::to_string(*arenas));
    }
    return found;
}

Stats stats() {
    uint64_t epoch = 1;
    size_t size = sizeof(epoch);
    if (_rjem_mallctl("epoch", &epoch, &size, &epoch, size) != 0) {
        throw std::runtime_error("jemalloc cannot refresh its statistics");
    }
    Stats stats;
    stats.allocated = figure<size_t>("stats.allocated");
    stats.active = figure<size_t>("stats.active");
    stats.metadata = figure<size_t>("stats.metadata");
    stats.resident = figure<size_t>("stats.resident");
    stats.mapped = figure<size_t>("stats.mapped");
    stats.retained = figure<size_t>("stats.retained");
    stats.metadataThp = figure<size_t>("stats.metadata_thp");
    return stats;
}

void purge() {
    // 4096 stands for "all arenas" (MALLCTL_ARENAS_ALL) since 5.0; 4.5.0 uses the number of arenas.
    if (_rjem_mallctl("arena.4096.purge", nullptr, nullptr, nullptr, 0) == 0) {
        return;
    }
    if (const auto arenas = figure<unsigned>("arenas.narenas")) {
        const auto all = "arena." + std::to_string(*arenas) + ".purge";
        _rjem_mallctl(all.c_str(), nullptr, nullptr, nullptr, 0);
    }
}

}  // namespace kv::allocator
