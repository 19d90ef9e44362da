// Replaces every form of the global operator new and delete: malloc/free of the linked allocator,
// plus the accounting of heap_hooks.h. An object library (kv_memory_hooks), so that no linker can
// leave it out.
//
// The replacement is the same code in every build variant, whatever the allocator: the cost of
// variants differs only in malloc, free and malloc_usable_size.
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "memory/heap_hooks.h"

namespace {

void recordNew(void* block) noexcept {
    if (kv::heap::isWatched()) {
        kv::heap::record(static_cast<int64_t>(malloc_usable_size(block)));
    }
}

/// nullptr if memory is short and no new-handler can help.
void* tryAllocate(std::size_t size) noexcept {
    void* block = std::malloc(size != 0 ? size : 1);
    if (block != nullptr) [[likely]] {
        recordNew(block);
    }
    return block;
}

void* tryAllocateAligned(std::size_t size, std::align_val_t alignment) noexcept {
    void* block = nullptr;
    // posix_memalign requires at least the alignment of a pointer.
    const std::size_t align = std::max(static_cast<std::size_t>(alignment), sizeof(void*));
    if (posix_memalign(&block, align, size != 0 ? size : 1) != 0) {
        return nullptr;
    }
    recordNew(block);
    return block;
}

/// The standard's loop: the new-handler may free something, throw, or be absent.
template <class Attempt>
void* allocateOrThrow(Attempt attempt) {
    while (true) {
        if (void* block = attempt()) [[likely]] {
            return block;
        }
        if (const std::new_handler handler = std::get_new_handler()) {
            handler();
        } else {
            throw std::bad_alloc();
        }
    }
}

template <class Attempt>
void* allocateOrNull(Attempt attempt) noexcept {
    try {
        return allocateOrThrow(attempt);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

void release(void* block) noexcept {
    if (block != nullptr && kv::heap::isWatched()) {
        kv::heap::record(-static_cast<int64_t>(malloc_usable_size(block)));
    }
    std::free(block);
}

}  // namespace

void* operator new(std::size_t size) {
    return allocateOrThrow([size] { return tryAllocate(size); });
}
void* operator new[](std::size_t size) {
    return allocateOrThrow([size] { return tryAllocate(size); });
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    return allocateOrNull([size] { return tryAllocate(size); });
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
    return allocateOrNull([size] { return tryAllocate(size); });
}
void* operator new(std::size_t size, std::align_val_t alignment) {
    return allocateOrThrow([=] { return tryAllocateAligned(size, alignment); });
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
    return allocateOrThrow([=] { return tryAllocateAligned(size, alignment); });
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
    return allocateOrNull([=] { return tryAllocateAligned(size, alignment); });
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
    return allocateOrNull([=] { return tryAllocateAligned(size, alignment); });
}

void operator delete(void* block) noexcept {
    release(block);
}
void operator delete[](void* block) noexcept {
    release(block);
}
void operator delete(void* block, std::size_t) noexcept {
    release(block);
}
void operator delete[](void* block, std::size_t) noexcept {
    release(block);
}
void operator delete(void* block, const std::nothrow_t&) noexcept {
    release(block);
}
void operator delete[](void* block, const std::nothrow_t&) noexcept {
    release(block);
}
void operator delete(void* block, std::align_val_t) noexcept {
    release(block);
}
void operator delete[](void* block, std::align_val_t) noexcept {
    release(block);
}
void operator delete(void* block, std::size_t, std::align_val_t) noexcept {
    release(block);
}
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept {
    release(block);
}
void operator delete(void* block, std::align_val_t, const std::nothrow_t&) noexcept {
    release(block);
}
void operator delete[](void* block, std::align_val_t, const std::nothrow_t&) noexcept {
    release(block);
}
