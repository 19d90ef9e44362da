// ServerSettings: the limits of a front end; read-only once the server runs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kv::server {

struct ServerSettings {
    /// Connections of all users but administrators; with as many, others make room or are closed
    /// at once.
    uint32_t maxConnections{10000};
    /// Further connections, for administrators and for those that have yet to log in. Only if there
    /// are users.
    uint32_t reservedConnections{32};
    size_t readBufferBytes{64 << 10};   ///< one read() of a connection, per wake-up
    uint32_t maxRequestsPerTurn{2048};  ///< then other connections are served first
    size_t maxUnsentBytes{
            4 << 20};  ///< a connection with more is not read until its client has taken some
    size_t maxBufferedBytes{
            256u << 20};  ///< partial requests and unsent answers of all connections together
    uint32_t idlePartialSeconds{
            30};  ///< a request that stops half-way for this long ends its connection
    uint32_t frameDeadlineSeconds{
            300};               ///< a request must be complete this long after its first byte
    uint32_t loginSeconds{30};  ///< a connection that has not logged in after this long is closed
    /// Before login: limit of a request's body, of one read, and of unsent answers.
    size_t maxBeforeLoginBytes{16 << 10};
    uint32_t persistWaitSeconds{30};  ///< how long SEQNO_PERSISTENCE waits
    uint32_t dcpIdleSeconds{360};     ///< a DCP client that takes nothing for this long is closed
    uint32_t authDelayMillis{250};    ///< delay of the answer to a failed login
    uint32_t maxFailedLogins{5};      ///< consecutive ones on one connection; then it is closed
    /// Of one user from one address; further ones get no answer.
    uint32_t failedLoginsPerMinute{60};
    uint32_t timingSample{32};  ///< one of this many operations is timed; 0 = none
};

}  // namespace kv::server
