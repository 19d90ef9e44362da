// mimalloc 2 and 3 of any pinned version, through its own interface (symbol prefix mi_).
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <regex>
#include <string>

#include "allocators/allocator.h"
#include "allocators/in_effect.h"

// Declared here, because the enumeration of options in mimalloc.h differs between versions.
extern "C" {
using Output = void(const char* text, void* arg);
int mi_version(void);
bool mi_is_in_heap_region(const void* block);
void mi_register_output(Output* out, void* arg);
void mi_options_print(void);
void mi_process_info(size_t* elapsedMs, size_t* userMs, size_t* systemMs, size_t* currentRss,
                     size_t* peakRss, size_t* currentCommit, size_t* peakCommit, size_t* faults);
void mi_collect(bool force);
}

namespace kv::allocator {
namespace {

bool serves(const Way& way) {
    void* block = way.allocate();
    const bool own = mi_is_in_heap_region(block);
    if (own) {
        way.release(block);
    }
    return own;
}

}  // namespace

std::string name() {
    return nameInEffect(KV_ALLOCATOR_NAME, serves);
}

std::string version() {
    const int number = mi_version();  // major, then two digits each of minor and patch
    return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
           std::to_string(number % 100);
}

/// mimalloc reads one variable for each option: MIMALLOC_PURGE_DELAY.
std::string confEnv() {
    return "MIMALLOC_*";
}

std::vector<std::pair<std::string, std::string>> options() {
    // mimalloc knows options by number, and prints them by name: `option 'purge_delay': 10`. It
    // prints sizes in KiB, and reads a number without a unit as bytes.
    static std::mutex printing;
    const std::lock_guard lock(printing);
    std::string text;
    mi_register_output(
            [](const char* part, void* arg) { static_cast<std::string*>(arg)->append(part); },
            &text);
    text.clear();  // the new output first gets a copy of all that was printed before
    mi_options_print();
    mi_register_output([](const char* part, void*) { std::fputs(part, stderr); }, nullptr);
    std::vector<std::pair<std::string, std::string>> found;
    const std::regex option("option '(?!deprecated_)(\\w+)': (-?\\d+)( KiB)?");
    for (std::sregex_iterator match(text.begin(), text.end(), option), end; match != end; ++match) {
        const long long value = std::stoll((*match)[2].str()) * ((*match)[3].matched ? 1024 : 1);
        found.emplace_back("opt." + (*match)[1].str(), std::to_string(value));
    }
    return found;
}

Stats stats() {
    Stats stats;
    size_t committed = 0;
    size_t other = 0;
    // "Current RSS" is the committed bytes again on Linux, so resident stays empty. mimalloc 2
    // counts an arena (1 GiB) as committed at once if the system overcommits memory.
    mi_process_info(&other, &other, &other, &other, &other, &committed, &other, &other);
    stats.mapped = committed;
    return stats;
}

void purge() {
    mi_collect(true);
}

}  // namespace kv::allocator
