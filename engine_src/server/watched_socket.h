// WatchedSocket: a non-blocking socket and whether the event loop watches it for reading and
// writing.
//
// One front-end thread. The callbacks get `self` as given to the constructor.
#pragma once

#include <cstdint>
#include <optional>

#include "protocol/frame.h"
#include "server/event_ptr.h"
#include "server/output.h"

namespace kv::server {

class WatchedSocket {
  public:
    /// Watches nothing yet. Throws std::runtime_error when the event loop refuses.
    WatchedSocket(event_base* base, Fd socket, event_callback_fn onReadable,
                  event_callback_fn onWritable, void* self);

    void watchReadable(bool on) { watch(readEvent_, readable_, on); }
    void watchWritable(bool on) { watch(writeEvent_, writable_, on); }

    /// Bytes read, 0 when there are none now; nothing at the end of the stream or on an error.
    std::optional<size_t> receive(uint8_t* to, size_t room);
    /// Bytes that the socket took, possibly 0; nothing on an error.
    std::optional<size_t> send(const Output& output);
    /// The client has closed its half, though what it sent before may not have been read yet.
    [[nodiscard]] bool peerHasEnded() const;
    /// Closes our half: the client sees the end of the stream after what was sent.
    void endSending();

  private:
    static void watch(const EventPtr& event, bool& state, bool on);

    Fd socket_;
    EventPtr readEvent_;
    EventPtr writeEvent_;
    bool readable_{false};
    bool writable_{false};
};

/// An event of `base`. Throws std::runtime_error when the event loop refuses.
EventPtr makeEvent(event_base* base, int fd, short what, event_callback_fn callback, void* self);

}  // namespace kv::server
