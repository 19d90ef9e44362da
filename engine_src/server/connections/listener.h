// Listener: the server's listening socket.
//
// bind() takes the address early, so that a port in use is reported before a long warm-up; start()
// begins to accept. Accepted sockets are non-blocking, with TCP_NODELAY and keep-alive. Threads:
// runs on the event loop that it is started on.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include "server/event_ptr.h"
#include "types/fd.h"

namespace kv::server {

/// The address cannot be resolved or bound; the text names the address and the cause.
class ListenError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

class Listener {
  public:
    using OnSocket = std::function<void(Fd)>;

    /// `port` 0 means any free port. Throws ListenError.
    Listener(const std::string& host, uint16_t port);

    [[nodiscard]] uint16_t port() const { return port_; }
    /// True when only this machine can connect.
    [[nodiscard]] bool loopback() const { return loopback_; }

    /// Accepts on `base` until stop(). Throws ListenError.
    void start(event_base* base, OnSocket onSocket);
    void stop();

  private:
    static void onAcceptable(int, short, void* self);
    static void onRetry(int, short, void* self);
    void acceptSome();

    Fd socket_;
    uint16_t port_{0};
    bool loopback_{false};
    OnSocket onSocket_;
    EventPtr acceptEvent_;
    EventPtr retryEvent_;
};

}  // namespace kv::server
