// Checks that this process really allocates with its linked allocator. A preloaded library, or a
// library that brings a malloc of its own, may be in the way.
#pragma once

#include <cstddef>
#include <string>

namespace kv::allocator {

/// A way in which a program gets memory.
struct Way {
    const char* name;
    /// Returns a block of kWaySize bytes, and calls the allocator only for that block; throws
    /// std::bad_alloc if memory is short.
    void* (*allocate)();
    void (*release)(void* block);
};
inline constexpr std::size_t kWaySize = 4096;

/// Returns the file name of the library or program that defines `function` for this process.
std::string libraryOf(const char* function);

/// Returns `name` if malloc, its relatives, operator new and the C library itself allocate with
/// this allocator; otherwise a text that says which of them does not. `serves` makes a block, tells
/// whether the block is the allocator's, and releases it only then: the release of another
/// allocator would crash on it.
std::string nameInEffect(const std::string& name, bool (*serves)(const Way&));

}  // namespace kv::allocator
