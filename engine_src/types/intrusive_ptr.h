// IntrusivePtr: an owning reference to an object that counts its references itself. RefCount: its
// count. It needs one word in the object instead of a control block, and the object decides how it
// is freed.
//
// Threads: references to one object may be copied and dropped on any threads; one IntrusivePtr is
// used by one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace kv {

/// The number of references; one at first.
class RefCount {
  public:
    void retain() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
    /// Returns true for the last one: everything done through the others has happened by then.
    [[nodiscard]] bool release() noexcept {
        // A sole owner cannot race with anybody, so it skips the atomic read-modify-write.
        return count_.load(std::memory_order_acquire) == 1 ||
               count_.fetch_sub(1, std::memory_order_acq_rel) == 1;
    }

  private:
    std::atomic<uint32_t> count_{1};
};

/// `T` has retain() and release(), of which the last release() frees it; neither throws. Both may
/// be private to T and a friend IntrusivePtr<T>.
template <class T>
class IntrusivePtr {
  public:
    IntrusivePtr() = default;
    /// Takes over the reference with which a new object begins.
    explicit IntrusivePtr(T* adopted) noexcept : object_(adopted) {}
    IntrusivePtr(const IntrusivePtr& other) noexcept : object_(other.object_) {
        if (object_ != nullptr) {
            object_->retain();
        }
    }
    IntrusivePtr(IntrusivePtr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    IntrusivePtr& operator=(IntrusivePtr other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~IntrusivePtr() {
        if (object_ != nullptr) {
            object_->release();
        }
    }
    explicit operator bool() const { return object_ != nullptr; }
    T* operator->() const { return object_; }
    T& operator*() const { return *object_; }
    [[nodiscard]] T* get() const { return object_; }

  private:
    T* object_{nullptr};
};

}  // namespace kv
