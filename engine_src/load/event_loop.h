#pragma once

// One thread's epoll loop over its connections. The loop knows readiness and time; what flows is
// the Traffic's affair.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "load/channel.h"
#include "load/clock.h"

namespace kv::load {

/// What flows over the connections of one thread during one phase. All calls come from that thread.
/// Each may write to channels; the loop waits for writability of those with bytes left.
class Traffic {
  public:
    virtual ~Traffic() = default;
    virtual void begin(std::vector<std::unique_ptr<Channel>>& channels) = 0;
    /// Bytes have arrived (channel.receive() gave true); `now` is when.
    virtual void onReadable(Channel& channel, Nanos now) = 0;
    /// The channel had been full and has been flushed.
    virtual void onWritable(Channel& channel, Nanos now) = 0;
    /// Whether these calls may write to other channels than the one they are about.
    virtual bool spreads() const { return false; }
    /// When to be woken at the latest (a rate, a back-off); kNever if only answers matter.
    virtual Nanos nextWake() const = 0;
    virtual void onWake(Nanos now) = 0;
    /// Start nothing new; what is in flight still counts.
    virtual void stop() = 0;
    virtual bool done() const = 0;
    /// Requests sent and not answered.
    virtual std::uint64_t inFlight() const = 0;
};

class EventLoop {
  public:
    /// Owns the channels. `stop` may be set by any thread; it is seen within 100 ms.
    EventLoop(std::vector<std::unique_ptr<Channel>> channels, const std::atomic<bool>& stop,
              Nanos stallTimeout);
    ~EventLoop();
    EventLoop(const EventLoop&) = delete;
    EventLoop& operator=(const EventLoop&) = delete;

    /// Until traffic.done(). Throws Stalled when requests are in flight and no byte came for
    /// stallTimeout, LoadError when a connection is lost.
    void run(Traffic& traffic);

    std::vector<std::unique_ptr<Channel>>& channels() noexcept { return channels_; }

  private:
    void wait(Nanos until);
    void watchWritability(Channel& channel);
    /// The servers that owe answers, once each.
    std::string debtors() const;

    std::vector<std::unique_ptr<Channel>> channels_;
    std::vector<bool> watchingWrites_;
    const std::atomic<bool>& stop_;
    Nanos stallTimeout_;
    Socket epoll_;
    struct Ready;
    std::unique_ptr<Ready> ready_;
};

/// No answer for too long. `inFlight` requests are lost to time-out.
class Stalled : public LoadError {
  public:
    Stalled(const std::string& what, std::uint64_t inFlightNow)
        : LoadError(what), inFlight(inFlightNow) {}
    std::uint64_t inFlight;
};

}  // namespace kv::load
