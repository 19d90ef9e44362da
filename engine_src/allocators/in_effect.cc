#include "allocators/in_effect.h"

#include <dlfcn.h>
#include <malloc.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>

namespace kv::allocator {
namespace {

constexpr std::size_t kAlignment = 64;

void* orThrow(void* block) {
    if (block == nullptr) {
        throw std::bad_alloc();
    }
    return block;
}

void* alignedByPosix() {
    void* block = nullptr;
    return orThrow(posix_memalign(&block, kAlignment, kWaySize) == 0 ? block : nullptr);
}

void* duplicate() {
    std::array<char, kWaySize> text{};
    text.fill('x');
    text.back() = '\0';
    return orThrow(strdup(text.data()));
}

constexpr std::array kWays{
        Way{"malloc", [] { return orThrow(std::malloc(kWaySize)); }, std::free},
        Way{"calloc", [] { return orThrow(std::calloc(1, kWaySize)); }, std::free},
        Way{"realloc", [] { return orThrow(std::realloc(nullptr, kWaySize)); }, std::free},
        Way{"aligned_alloc", [] { return orThrow(std::aligned_alloc(kAlignment, kWaySize)); },
            std::free},
        Way{"memalign", [] { return orThrow(memalign(kAlignment, kWaySize)); }, std::free},
        Way{"posix_memalign", alignedByPosix, std::free},
        Way{"operator new", [] { return ::operator new(kWaySize); },
            [](void* block) { ::operator delete(block); }},
        Way{"strdup", duplicate, std::free}};

// free and malloc_usable_size must belong to the allocator whose blocks they get.
constexpr std::array kFunctions{"free",     "calloc",        "realloc",           "posix_memalign",
                                "memalign", "aligned_alloc", "malloc_usable_size"};

}  // namespace

std::string libraryOf(const char* function) {
    Dl_info found{};
    if (::dladdr(::dlsym(RTLD_DEFAULT, function), &found) == 0 || found.dli_fname == nullptr) {
        return {};
    }
    return std::filesystem::path(found.dli_fname).filename().string();
}

std::string nameInEffect(const std::string& name, bool (*serves)(const Way&)) {
    const std::string library = libraryOf("malloc");
    std::string text = "malloc of " + library;
    for (const char* function : kFunctions) {
        if (const std::string other = libraryOf(function); other != library) {
            return text.append(" with ").append(function).append(" of ").append(other);
        }
    }
    for (const auto& way : kWays) {
        if (!serves(way)) {
            text.append(" (").append(way.name).append(" does not allocate with ");
            return text.append(name).append(")");
        }
    }
    return name;
}

}  // namespace kv::allocator
