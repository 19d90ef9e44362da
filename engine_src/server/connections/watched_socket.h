// WatchedSocket: a non-blocking socket, and whether the event loop watches it for reading and
// writing.
//
// Threads: one front-end thread. The callbacks receive the `self` that was given to the
// constructor.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "auth/tls.h"
#include "protocol/frame.h"
#include "server/commands/session.h"
#include "server/connections/handshake.h"
#include "server/connections/output.h"
#include "server/event_ptr.h"
#include "types/fd.h"

namespace kv::server {

class WatchedSocket {
  public:
    /// Watches nothing yet. Throws std::runtime_error if the event loop refuses.
    WatchedSocket(event_base* base, Fd socket, event_callback_fn onReadable,
                  event_callback_fn onWritable, void* self);
    /// Speaks TLS from the first byte on. Throws std::bad_alloc.
    void secure(const auth::TlsContext& tls) {
        tls_ = tls.accept(socket_.get());
        inHandshake_ = true;
    }
    /// True until the TLS handshake is complete: until then bytes are neither received nor sent.
    [[nodiscard]] bool inHandshake() const { return inHandshake_; }
    /// Lends socket and session to the next step of the handshake. The socket must not be watched,
    /// and not be used before endStep().
    std::shared_ptr<Handshake> beginStep(std::shared_ptr<Waker> waker);
    /// Takes both back after a step. Returns what is needed next; nothing if the handshake failed.
    std::optional<Handshake::Progress> endStep(Handshake& step);

    void watchReadable(bool on) {
        watch(readEvent_, readable_, on);
        readPending();
    }
    void watchWritable(bool on) { watch(writeEvent_, writable_, on); }

    /// Returns the number of bytes read: 0 if there are none now, nothing at the end of the stream
    /// or on an error.
    std::optional<size_t> receive(uint8_t* to, size_t room);
    /// Returns the number of bytes that the socket took, possibly 0; nothing on an error.
    std::optional<size_t> send(const Output& output);
    [[nodiscard]] PeerAddress peer() const;
    /// True if the client has closed its half, even if its earlier bytes have not been read yet.
    [[nodiscard]] bool peerHasEnded() const;
    /// Closes our half: the client sees the end of the stream after the bytes sent so far.
    void endSending();

  private:
    static void watch(const EventPtr& event, bool& state, bool on);
    /// Makes bytes that wait in the TLS session trigger a read, as bytes in the kernel do.
    void readPending();
    std::optional<size_t> sendByTls(std::span<const iovec> pieces);

    Fd socket_;
    auth::TlsSession tls_;
    EventPtr readEvent_;
    EventPtr writeEvent_;
    bool readable_{false};
    bool writable_{false};
    bool inHandshake_{false};
};

/// Returns an event of `base`. Throws std::runtime_error if the event loop refuses.
EventPtr makeEvent(event_base* base, int fd, short what, event_callback_fn callback, void* self);

}  // namespace kv::server
