// ConnectionState: what a connection does with its requests and its socket, and which state may
// follow which.
//
//   serving ─┬─ Reading    waits for requests (the first state)
//            ├─ Speaking   the same; its conversation continues when the client has taken all
//            ├─ Yielding   has requests left over for its next turn; is not read before that
//            └─ Blocked    the client does not take its answers: not read, nothing executed
//
//   Reading, Speaking, Yielding ──a turn is over──▶ the one of the four that fits
//   Reading, Speaking, Yielding ──a request must wait──▶ Waiting ──timer, woken──▶ one of the four
//   Reading, Speaking, Yielding ──a login failed──▶ Penalised ──timer──▶ one of the four
//   Reading, Speaking, Yielding ──quit, bad stream──▶ Draining ──all is sent──▶ Lingering
//   Reading, Speaking ──the client sends no more, but has yet to read──▶ Draining
//   Blocked ──the client took enough──▶ one of the four
//
// A connection may end in every state: the client is gone, was too slow, or held too much. Login is
// not a state: the Session knows it, and it changes the limits of all states alike.
#pragma once

#include <cstdint>

namespace kv::server {

enum class ConnectionState : uint8_t {
    Reading,
    Speaking,
    Yielding,
    Blocked,
    /// For a condition of its next request; tried again when it is woken or the timer ends.
    Waiting,
    Penalised,  ///< answers are held back until the timer ends
    Draining,   ///< only the remaining answers are sent
    Lingering,  ///< our half is closed; the rest of the client's input is read and discarded
};

constexpr bool isServing(ConnectionState state) {
    return state <= ConnectionState::Blocked;
}
constexpr bool isLeaving(ConnectionState state) {
    return state >= ConnectionState::Draining;
}
/// True if input is read as it comes.
constexpr bool isRead(ConnectionState state) {
    return state == ConnectionState::Reading || state == ConnectionState::Speaking ||
           state == ConnectionState::Lingering;
}
/// True if output is sent as the socket takes it.
constexpr bool isSent(ConnectionState state) {
    return isServing(state) || state == ConnectionState::Draining;
}

/// True if `to` may follow `from`. Staying in a state is not a transition, so a state never follows
/// itself.
constexpr bool mayFollow(ConnectionState from, ConnectionState to) {
    using enum ConnectionState;
    if (from == to) {
        return false;
    }
    switch (from) {
        case Reading:
        case Speaking:
        case Yielding:
            return to != Lingering;
        case Blocked:
        case Waiting:
        case Penalised:
            return isServing(to);
        case Draining:
            return to == Lingering;
        case Lingering:
            return false;
    }
    return false;
}

}  // namespace kv::server
