#pragma once

// One thread's epoll loop over its connections. The loop handles readiness and time; the Traffic
// decides what is sent.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "load/core/channel.h"
#include "load/core/clock.h"
#include "load/core/load_error.h"

namespace kv::load {

/// The load on the connections of one thread during one phase. All calls come from that thread.
/// Each call may write to channels; the loop waits for writability of those with bytes left.
class Traffic {
  public:
    virtual ~Traffic() = default;
    virtual void begin(std::vector<std::unique_ptr<Channel>>& channels) = 0;
    /// Bytes have arrived at `now` (channel.receive() returned true).
    virtual void onReadable(Channel& channel, Nanos now) = 0;
    /// The channel was full and has been flushed.
    virtual void onWritable(Channel& channel, Nanos now) = 0;
    /// True if these calls may write to other channels than their argument.
    virtual bool spreads() const { return false; }
    /// The latest time for the next wake-up (a rate, a back-off); kNever if only answers matter.
    virtual Nanos nextWake() const = 0;
    virtual void onWake(Nanos now) = 0;
    /// Starts nothing new; requests in flight still count.
    virtual void stop() = 0;
    virtual bool done() const = 0;
    /// Requests sent and not answered.
    virtual std::uint64_t inFlight() const = 0;
};

class EventLoop {
  public:
    /// Owns the channels. Any thread may set `stop`; it is seen within 100 ms.
    EventLoop(std::vector<std::unique_ptr<Channel>> channels, const std::atomic<bool>& stop,
              Nanos stallTimeout);
    ~EventLoop();
    EventLoop(const EventLoop&) = delete;
    EventLoop& operator=(const EventLoop&) = delete;

    /// Runs until traffic.done(). Throws Stalled if requests are in flight and no byte came for
    /// stallTimeout, LoadError if a connection is lost.
    void run(Traffic& traffic);

    std::vector<std::unique_ptr<Channel>>& channels() noexcept { return channels_; }

  private:
    void wait(Nanos until);
    void watchWritability(Channel& channel);
    /// Returns the servers that owe answers, each once.
    std::string debtors() const;

    std::vector<std::unique_ptr<Channel>> channels_;
    std::vector<bool> watchingWrites_;
    const std::atomic<bool>& stop_;
    Nanos stallTimeout_;
    Socket epoll_;
    struct Ready;
    std::unique_ptr<Ready> ready_;
};

/// No answer came for too long. `inFlight` requests have timed out.
class Stalled : public LoadError {
  public:
    Stalled(const std::string& what, std::uint64_t inFlightNow)
        : LoadError(what), inFlight(inFlightNow) {}
    std::uint64_t inFlight;
};

}  // namespace kv::load
