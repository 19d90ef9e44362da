// Conversation: makes a connection send frames unasked, as a DCP producer does. Waker: lets other
// threads report that it has something to send.
//
// Ownership and threads: a conversation belongs to its connection's session and lives on its
// front-end thread. A Waker is shared by the connection and the threads that may wake it; after
// disconnect() it does nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

#include "memory/bucket_memory.h"
#include "protocol/frame.h"
#include "server/connections/output.h"

namespace kv::server {

/// How much of its output a client has taken.
struct Delivery {
    uint64_t taken{0};  ///< bytes that its socket has taken in total
    size_t waiting{0};  ///< bytes that it has not taken yet
    /// The last time that it took bytes or that nothing waited.
    std::chrono::steady_clock::time_point lastTaken{};
};

class Conversation {
  public:
    Conversation() = default;
    Conversation(const Conversation&) = delete;
    Conversation& operator=(const Conversation&) = delete;
    virtual ~Conversation() = default;

    /// Appends frames to `out` until there are none left or it holds `limit` bytes. Returns true if
    /// more are ready. After it returned false, the waker is called as soon as there are more.
    virtual bool produce(Output& out, size_t limit) = 0;
    /// Handles the client's answer to a frame. Returns false if the client must be disconnected.
    virtual bool onAnswer(const protocol::FrameView& answer) = 0;
    /// Called about once a second. Returns false if the client is taken to be gone.
    virtual bool tick(std::chrono::steady_clock::time_point now, const Delivery& delivery) = 0;
};

class Waker {
  public:
    void connect(std::function<void()> wake) {
        const std::lock_guard lock(mutex_);
        wake_ = std::move(wake);
    }
    void disconnect() { connect({}); }
    void wake() {
        // Waking allocates for the connection, whatever bucket the caller is bound to.
        const NonBucketGuard nobody;
        const std::lock_guard lock(mutex_);
        if (wake_) {
            wake_();
        }
    }

  private:
    std::mutex mutex_;
    std::function<void()> wake_;
};

}  // namespace kv::server
