// ReplicationLink: the socket of a Replicator. Frames out, frames in; every wait ends when the
// owner stops or the other side has been silent for a minute.
//
// Errors throw std::runtime_error. Thread rules: one thread uses it; stop() and stopping() may be
// called from any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "protocol/frame.h"
#include "server/event_ptr.h"

struct addrinfo;

namespace kv::server {

class ReplicationLink {
  public:
    ReplicationLink();

    /// To the first of the host's addresses that answers.
    void connect(const std::string& host, uint16_t port);
    /// The same of addresses in the order of getaddrinfo(), at least one.
    void connect(const addrinfo& addresses);
    void close();

    /// Queues a frame for flush().
    void send(const protocol::FrameSpec& frame) { protocol::appendFrame(output_, frame); }
    /// Sends what is queued; returns early when stopping.
    void flush();

    /// Waits until there is something to read, or to send: `whileWaiting` runs every 100 ms and may
    /// queue frames. False when stopping.
    bool waitForInput(const std::function<void()>& whileWaiting);
    /// Reads what is there and hands over every whole frame.
    void readFrames(const std::function<void(const protocol::FrameView&)>& handle);

    /// Returns when the time is over, or at once when stopping.
    void sleep(std::chrono::milliseconds time);
    void stop();
    [[nodiscard]] bool stopping() const { return stopping_; }

  private:
    void connectTo(const addrinfo& address);
    /// Waits for the socket; false when stopping.
    bool waitFor(short events, const std::function<void()>& whileWaiting = {});

    Fd socket_;
    Fd stopFd_;
    std::atomic<bool> stopping_{false};
    std::vector<uint8_t> input_;
    std::vector<uint8_t> output_;
};

}  // namespace kv::server
