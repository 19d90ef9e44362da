// For tests: a program with its own heap (no memory hooks are linked), in which operator new fails
// on request. Included by one file of the program, because it defines the operators.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

/// Allocations of this thread until one fails; below 0: none fails.
thread_local long allocationsLeft = -1;

void* allocate(std::size_t size, std::size_t alignment) {
    if (allocationsLeft >= 0 && allocationsLeft-- == 0) {
        throw std::bad_alloc();
    }
    const std::size_t rounded = (std::max<std::size_t>(size, 1) + alignment - 1) & ~(alignment - 1);
    void* memory = std::aligned_alloc(alignment, rounded);
    if (memory == nullptr) {
        throw std::bad_alloc();
    }
    return memory;
}

/// Runs `work` with its allocation number `nth`, from 0, failing. Returns whether `work` got that
/// far and threw.
template <class Work>
bool runsOutOfMemory(long nth, Work&& work) {
    bool failed = false;
    allocationsLeft = nth;
    try {
        work();
    } catch (const std::bad_alloc&) {
        failed = true;
    }
    allocationsLeft = -1;
    return failed;
}

}  // namespace

void* operator new(std::size_t size) {
    return allocate(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
    return allocate(size, static_cast<std::size_t>(alignment));
}
// The library uses this form for a buffer that it can do without.
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
    try {
        return operator new(size);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}
// Not inlined: gcc 12 would see free() paired with an operator new that it does not look into, and
// warn.
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
    std::free(memory);
}
