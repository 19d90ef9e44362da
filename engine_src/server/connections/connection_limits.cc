// Closes connections that wait too long or hold too much, or whose place another one needs.
#include <algorithm>
#include <utility>

#include "logging/log.h"
#include "server/connections/connection.h"
#include "server/connections/front_end_thread.h"

namespace kv::server {

namespace {

constexpr auto kLingerTime = std::chrono::seconds(2);

}  // namespace

std::string_view Connection::overdue(Clock::time_point now) const {
    using std::chrono::seconds;
    const auto& settings = thread_.server().settings;
    const seconds patience(settings.idlePartialSeconds);
    if (state_ == State::Lingering) {
        return now - lingeringSince_ > kLingerTime ? "done" : "";
    }
    // A client that can still send may take its time to read its answers.
    if (now - takenSince_ > patience &&
        (state_ == State::Draining || (state_ == State::Blocked && socket_.peerHasEnded()))) {
        return "its last answers were not read";
    }
    if (session_.conversation() != nullptr && !output_.empty() &&
        now - takenSince_ > seconds(settings.dcpIdleSeconds)) {
        return "its DCP messages were not read";
    }
    if (now - unauthenticatedSince_ > seconds(settings.loginSeconds)) {
        return socket_.inHandshake() ? "did not complete its TLS handshake" : "did not log in";
    }
    if (isServing(state_) && pendingInput_.underWay()) {
        if (now - pendingInput_.lastByte() > patience) {
            return "a request stopped half-way";
        }
        if (now - pendingInput_.firstByte() > seconds(settings.frameDeadlineSeconds)) {
            return "a request came too slowly";
        }
    }
    return {};
}

void Connection::sweep(Clock::time_point now) {
    if (session_.authenticated() && !socket_.inHandshake()) {
        unauthenticatedSince_ = now;
    }
    if (output_.empty() || taken_ != takenAtSweep_) {
        takenAtSweep_ = taken_;
        takenSince_ = now;
    }
    if (const auto why = overdue(now); !why.empty()) {
        if (!isLeaving(state_)) {
            log::info("connection {}: closed, {}", id(), why);
            thread_.stats().overdueCloses.add();
        }
        close();
        return;
    }
    if (Conversation* conversation = session_.conversation(); conversation && isServing(state_)) {
        if (!conversation->tick(now, {taken_, output_.size(), takenSince_})) {
            close();
            return;
        }
        speak();
    }
}

void Connection::closeAsLargestHolder() {
    log::warn("connection {}: closed: it holds {} bytes, and all connections together too much",
              id(), accounted_);
    thread_.stats().bufferLimitCloses.add();
    close();
}

bool Connection::makeRoom() {
    if (!isUnauthenticated()) {
        return false;
    }
    thread_.server().rejectedConnections.fetch_add(1, std::memory_order_relaxed);
    close();
    return true;
}

size_t Connection::unsentLimit() const {
    const auto& settings = thread_.server().settings;
    return session_.authenticated()
                   ? settings.maxUnsentBytes
                   : std::min(settings.maxUnsentBytes, settings.maxBeforeLoginBytes);
}

void Connection::accountPinned() {
    if (output_.pinned() == pinned_) [[likely]] {
        return;
    }
    auto& server = thread_.server();
    const auto record = [&] {
        // Wraps when it has become less.
        const size_t change = output_.pinned() - std::exchange(pinned_, output_.pinned());
        return server.unsentValues.fetch_add(change, std::memory_order_relaxed) + change;
    };
    const bool grew = output_.pinned() > pinned_;
    if (record() > server.bucket.staleBudget().most() && grew) {
        output_.copyShared();
        record();
    }
}

bool Connection::accountBuffers() {
    accountPinned();
    const size_t held = pendingInput_.held() + output_.held() + handshakeBytes_;
    if (held == accounted_) {
        return true;
    }
    accounted_ = held;
    auto& server = thread_.server();
    bool mine = false;
    for (const auto& doomed : server.buffers.update({&thread_, id()}, session_.user(), held,
                                                    server.settings.maxBufferedBytes)) {
        if (doomed.id == id()) {
            mine = true;
        } else {
            doomed.thread->closeHolderLater(doomed.id);
        }
    }
    if (mine) {
        closeAsLargestHolder();
    }
    return !mine;
}

}  // namespace kv::server
