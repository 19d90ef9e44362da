// ServerSettings: the bounds a front-end works within; read-only once the server runs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kv::server {

struct ServerSettings {
    uint32_t maxConnections{10000};     ///< more are accepted and closed at once
    size_t readBufferBytes{64 << 10};   ///< one read() of a connection, per wake-up
    uint32_t maxRequestsPerTurn{2048};  ///< then other connections are served first
    size_t maxUnsentBytes{
            4 << 20};  ///< a connection with more is not read until its client has taken it
    size_t maxBufferedBytes{
            256u << 20};  ///< partial requests and unsent answers of all connections together
    uint32_t idlePartialSeconds{
            30};  ///< a request that stops coming half-way for this long ends its connection
    uint32_t frameDeadlineSeconds{
            300};               ///< a request must be complete so long after its first byte
    uint32_t loginSeconds{30};  ///< a connection that has not logged in so long is closed
    size_t maxBeforeLoginBytes{
            16 << 10};  ///< before login: body of a request, one read, and unsent answers
    uint32_t persistWaitSeconds{30};  ///< how long SEQNO_PERSISTENCE waits
    uint32_t authDelayMillis{250};    ///< the answer to a failed login waits this long
    uint32_t maxFailedLogins{5};      ///< in a row on one connection; then it is closed
    uint32_t timingSample{32};        ///< one operation in so many is timed; 0 = none
};

}  // namespace kv::server
