// Conversation: what makes a connection speak by itself, beyond answering requests: a DCP producer.
// And Waker: how other threads tell it that there is something to say.
//
// A conversation belongs to its connection's session and lives on its front-end thread. A Waker is
// shared by the connection and whoever may have to wake it, from any thread; after disconnect() it
// does nothing.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <utility>

#include "memory/bucket_memory.h"
#include "protocol/frame.h"
#include "server/output.h"

namespace kv::server {

class Conversation {
  public:
    Conversation() = default;
    Conversation(const Conversation&) = delete;
    Conversation& operator=(const Conversation&) = delete;
    virtual ~Conversation() = default;

    /// Appends frames to `out` until there are none or it holds `limit` bytes; true when more are
    /// ready. When it returned false, the waker is called as soon as there are some again.
    virtual bool produce(Output& out, size_t limit) = 0;
    /// The client answered one of the frames. False: it must be disconnected.
    virtual bool onAnswer(const protocol::FrameView& answer) = 0;
    /// About once a second. False: the client is taken to be gone.
    virtual bool tick(std::chrono::steady_clock::time_point now) = 0;
};

class Waker {
  public:
    void connect(std::function<void()> wake) {
        const std::lock_guard lock(mutex_);
        wake_ = std::move(wake);
    }
    void disconnect() { connect({}); }
    void wake() {
        // What the loop is told allocates for the connection, whatever bucket the caller is bound
        // to.
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
