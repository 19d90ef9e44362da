// A small number that belongs to one living thread: the index of its private counters.
//
// Taken at a thread's first charge, given back when the thread ends, so that a process that keeps
// making threads does not run out. What the former owner left in a slot stays there and is seen by
// the next owner.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kv::heap {

inline constexpr size_t kUnassignedSlot = SIZE_MAX;

/// Gives the calling thread a slot and notes it in its ThreadBinding: below
/// `BucketMemory::kThreadSlots`, or exactly that number when all are taken (or the thread is
/// already ending): the shared one.
size_t assignThreadSlot() noexcept;

}  // namespace kv::heap
