// ConnectionState: what a connection does with its requests and its socket, and which state may
// follow which.
//
//   serving ─┬─ Reading    nothing to do but wait for requests (the first state)
//            ├─ Speaking   the same, and its conversation goes on when the client has taken all
//            ├─ Yielding   requests are left over for its next turn; not read before that
//            └─ Blocked    the client does not take its answers: not read, nothing executed
//
//   Reading, Speaking, Yielding ──a turn is over──▶ whichever of the four fits
//   Reading, Speaking, Yielding ──a request must wait──▶ Waiting ──timer, woken──▶ whichever fits
//   Reading, Speaking, Yielding ──a login failed──▶ Penalised ──timer──▶ whichever fits
//   Reading, Speaking, Yielding ──quit, bad stream──▶ Draining ──all is sent──▶ Lingering
//   Reading, Speaking ──the client sends no more, but has yet to read──▶ Draining
//   Blocked ──the client took enough──▶ whichever fits
//
// From every state a connection may cease to be: the client has gone, was too slow, or held too
// much. Whether the client has logged in is no state of its own: it is the Session's, and moves the
// limits of all states alike.
#pragma once

#include <cstdint>

namespace kv::server {

enum class ConnectionState : uint8_t {
    Reading,
    Speaking,
    Yielding,
    Blocked,
    Waiting,    ///< for what its next request needs; tried again when it is woken or the timer ends
    Penalised,  ///< answers are held back until the timer ends
    Draining,   ///< only the answers that are left are sent
    Lingering,  ///< our half is closed; what the client had sent already is read and forgotten
};

constexpr bool isServing(ConnectionState state) {
    return state <= ConnectionState::Blocked;
}
constexpr bool isLeaving(ConnectionState state) {
    return state >= ConnectionState::Draining;
}
/// Input is read as it comes.
constexpr bool isRead(ConnectionState state) {
    return state == ConnectionState::Reading || state == ConnectionState::Speaking ||
           state == ConnectionState::Lingering;
}
/// Output is sent as the socket takes it.
constexpr bool isSent(ConnectionState state) {
    return isServing(state) || state == ConnectionState::Draining;
}

/// Staying in a state is not a transition: a state never follows itself.
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
