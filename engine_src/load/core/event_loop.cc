#include "load/core/event_loop.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <set>

namespace kv::load {

namespace {

constexpr Nanos kStopCheck = 100'000'000;  // a stop is seen within this time

}  // namespace

struct EventLoop::Ready {
    std::array<epoll_event, 64> events{};
    std::size_t count = 0;
};

EventLoop::EventLoop(std::vector<std::unique_ptr<Channel>> channels, const std::atomic<bool>& stop,
                     Nanos stallTimeout)
    : channels_(std::move(channels)),
      watchingWrites_(channels_.size(), false),
      stop_(stop),
      stallTimeout_(stallTimeout),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      ready_(std::make_unique<Ready>()) {
    if (epoll_.fd() < 0) {
        throw LoadError("epoll_create1: " + errnoText(errno));
    }
    for (std::size_t i = 0; i < channels_.size(); ++i) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u64 = i;
        if (::epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, channels_[i]->fd(), &event) != 0) {
            throw LoadError("epoll_ctl: " + errnoText(errno));
        }
    }
}

EventLoop::~EventLoop() = default;

void EventLoop::watchWritability(Channel& channel) {
    const bool wanted = channel.unsent() != 0;
    if (watchingWrites_[channel.index()] == wanted) {
        return;
    }
    epoll_event event{};
    event.events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN;
    event.data.u64 = channel.index();
    if (::epoll_ctl(epoll_.fd(), EPOLL_CTL_MOD, channel.fd(), &event) != 0) {
        throw LoadError("epoll_ctl: " + errnoText(errno));
    }
    watchingWrites_[channel.index()] = wanted;
}

void EventLoop::wait(Nanos until) {
    int timeout = static_cast<int>(kStopCheck / kMilli);
    if (until != kNever) {
        const auto left = std::clamp<Nanos>(until - nowNanos(), 0, kStopCheck);
        if (left < kStopCheck && left > 0) {
            // epoll_wait counts in milliseconds, and a rate needs finer steps. An epoll descriptor
            // can itself be polled, with nanoseconds.
            pollfd self{epoll_.fd(), POLLIN, 0};
            const timespec span{0, left};
            ::ppoll(&self, 1, &span, nullptr);
            timeout = 0;
        } else {
            timeout = static_cast<int>(left / kMilli);
        }
    }
    const int count = ::epoll_wait(epoll_.fd(), ready_->events.data(),
                                   static_cast<int>(ready_->events.size()), timeout);
    if (count < 0 && errno != EINTR) {
        throw LoadError("epoll_wait: " + errnoText(errno));
    }
    ready_->count = count < 0 ? 0 : static_cast<std::size_t>(count);
}

std::string EventLoop::debtors() const {
    std::set<std::string> peers;
    for (const auto& channel : channels_) {
        if (channel->unanswered() != 0) {
            peers.insert(channel->peer());
        }
    }
    std::string text;
    for (const auto& peer : peers) {
        text += (text.empty() ? "" : ", ") + peer;
    }
    return text;
}

void EventLoop::run(Traffic& traffic) {
    traffic.begin(channels_);
    for (auto& channel : channels_) {
        watchWritability(*channel);
    }
    Nanos lastProgress = nowNanos();
    bool stopped = false;
    while (!traffic.done()) {
        if (!stopped && stop_.load(std::memory_order_relaxed)) {
            stopped = true;
            traffic.stop();
            continue;
        }
        const Nanos wake = traffic.nextWake();
        wait(wake);
        Nanos now = nowNanos();
        for (std::size_t i = 0; i < ready_->count; ++i) {
            const auto& event = ready_->events[i];
            Channel& channel = *channels_[event.data.u64];
            if ((event.events & EPOLLOUT) != 0) {
                lastProgress = now;
                if (channel.flush()) {
                    traffic.onWritable(channel, now);
                }
            }
            bool readable = (event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0;
            while (readable && channel.receive()) {
                now = nowNanos();
                lastProgress = now;
                traffic.onReadable(channel, now);
                readable = channel.hasPending();
            }
            watchWritability(channel);
        }
        if (traffic.spreads()) {
            for (auto& channel : channels_) {
                watchWritability(*channel);
            }
        }
        if (wake != kNever && now >= wake) {
            traffic.onWake(now);
            for (auto& channel : channels_) {
                watchWritability(*channel);
            }
        }
        if (traffic.inFlight() == 0) {
            lastProgress = now;
        } else if (now - lastProgress > stallTimeout_) {
            throw Stalled("no answer for " + std::to_string(stallTimeout_ / kSecond) + " s with " +
                                  std::to_string(traffic.inFlight()) + " requests in flight to " +
                                  debtors(),
                          traffic.inFlight());
        }
    }
}

}  // namespace kv::load
