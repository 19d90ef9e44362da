// A small number that belongs to one living thread: the index of its private counters.
//
// It is taken at a thread's first charge and returned when the thread ends, so that a process that
// keeps creating threads does not run out. The value that the former owner left in a slot stays
// there for the next owner.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kv::heap {

inline constexpr size_t kUnassignedSlot = SIZE_MAX;

/// Gives the calling thread a slot and records it in its ThreadBinding: below
/// `BucketMemory::kThreadSlots`, or exactly that number, the shared one, if all are taken (or the
/// thread is already ending).
size_t assignThreadSlot() noexcept;

}  // namespace kv::heap
