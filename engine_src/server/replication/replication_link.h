// ReplicationLink: the socket of a Replicator, which sends and receives frames. Every wait ends
// when the owner stops it, or when the source has been silent for a minute.
//
// Errors: std::runtime_error. Threads: one thread uses it; stop() and stopping() may be called from
// any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "auth/tls.h"
#include "protocol/frame.h"
#include "types/fd.h"

struct addrinfo;

namespace kv::server {

class ReplicationLink {
  public:
    ReplicationLink();

    /// Connects to the first of the host's addresses that answers.
    void connect(const std::string& host, uint16_t port);
    /// As above, for addresses in the order of getaddrinfo(); at least one.
    void connect(const addrinfo& addresses);
    /// Performs the TLS handshake with a source whose certificate names `host`; everything after it
    /// is encrypted.
    void secure(const auth::TlsContext& tls, const std::string& host);
    void close();

    /// Queues a frame for flush().
    void send(const protocol::FrameSpec& frame) { protocol::appendFrame(output_, frame); }
    /// Sends the queued frames. Returns early when stopping.
    void flush();

    /// Waits until there is something to read or to send. `whileWaiting` runs every 100 ms and may
    /// queue frames. Returns false when stopping.
    bool waitForInput(const std::function<void()>& whileWaiting);
    /// Reads the available bytes and passes on every complete frame.
    void readFrames(const std::function<void(const protocol::FrameView&)>& handle);

    /// Returns when the time is over, or at once when stopping.
    void sleep(std::chrono::milliseconds time);
    void stop();
    [[nodiscard]] bool stopping() const { return stopping_; }

  private:
    void connectTo(const addrinfo& address);
    /// Returns the number of bytes that the socket took, possibly 0.
    size_t sendSome(protocol::Bytes bytes);
    /// Returns the number of bytes received, possibly 0.
    size_t receiveSome(uint8_t* to, size_t room);
    /// Waits for the socket. Returns false when stopping.
    bool waitFor(short events, const std::function<void()>& whileWaiting = {});

    Fd socket_;
    auth::TlsSession tls_;
    Fd stopFd_;
    std::atomic<bool> stopping_{false};
    std::vector<uint8_t> input_;
    std::vector<uint8_t> output_;
};

}  // namespace kv::server
