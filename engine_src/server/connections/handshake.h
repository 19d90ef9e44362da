// Handshake: the next step of the TLS handshake of a connection, run by a JobThread.
//
// The private key's part takes about a millisecond. On a front-end thread, a peer that opens many
// connections would stop all others of that thread.
//
// Ownership: it owns the socket and its TLS session until the connection takes them back. If the
// connection ends before, it calls abandon(), so that a queue of handshakes that nobody waits for
// holds neither descriptors nor memory. Threads: the JobThread until done(), then the
// connection's; abandon() is for the connection's at any time.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "auth/tls.h"
#include "server/job_thread.h"
#include "types/fd.h"

namespace kv::server {

class Handshake final : public Job {
  public:
    using Progress = auth::TlsSession::Handshake;

    Handshake(Fd socket, auth::TlsSession tls, std::shared_ptr<Waker> waker)
        : Job(std::move(waker)), socket_(std::move(socket)), tls_(std::move(tls)) {}

    void run() noexcept override {
        if (claimed_.exchange(true, std::memory_order_acq_rel)) {
            return;
        }
        try {
            progress_ = tls_.handshake();
        } catch (const std::exception&) {  // of TLS, or no memory to say what is wrong
            progress_.reset();
        }
    }

    /// Closes the socket now if the step has not begun, else when its job is dropped.
    void abandon() {
        if (!claimed_.exchange(true, std::memory_order_acq_rel)) {
            [[maybe_unused]] const auto session = std::move(tls_);
            [[maybe_unused]] const auto socket = std::move(socket_);
        }
    }

    // --- when done() is true
    /// Returns what is needed next; nothing if the handshake failed.
    [[nodiscard]] std::optional<Progress> progress() const { return progress_; }
    [[nodiscard]] Fd takeSocket() { return std::move(socket_); }
    [[nodiscard]] auth::TlsSession takeSession() { return std::move(tls_); }

  private:
    Fd socket_;
    auth::TlsSession tls_;
    std::optional<Progress> progress_;
    std::atomic<bool> claimed_{false};  ///< by run() or abandon(), whichever is first
};

}  // namespace kv::server
