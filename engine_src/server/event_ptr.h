// Owning handles for libevent's objects and for file descriptors.
#pragma once

#include <event2/event.h>
#include <unistd.h>

#include <memory>
#include <utility>

namespace kv::server {

struct FreeEvent {
    void operator()(event* e) const { event_free(e); }
    void operator()(event_base* base) const { event_base_free(base); }
};
using EventPtr = std::unique_ptr<event, FreeEvent>;
using EventBasePtr = std::unique_ptr<event_base, FreeEvent>;

/// A file descriptor that is closed with its owner.
class Fd {
  public:
    Fd() = default;
    explicit Fd(int fd) : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd& operator=(Fd&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;
    ~Fd() {
        if (fd_ >= 0) {
            ::close(fd_);
        }
    }
    [[nodiscard]] int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }

  private:
    int fd_{-1};
};

}  // namespace kv::server
