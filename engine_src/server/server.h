// Server: the listener, the front-end threads and the main loop over one bucket.
//
// Use: construct (binds the address), start() (begins to serve), run() (blocks until requestStop()
// or a signal event of the caller), stop() (also done by the destructor). Ownership: the bucket and
// the users outlive it. Threads: requestStop() is safe from any thread and from libevent signal
// callbacks; the rest belongs to one thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "auth/tls.h"
#include "server/commands/command.h"
#include "server/connections/front_end_thread.h"
#include "server/connections/listener.h"
#include "server/job_thread.h"
#include "server/server_context.h"
#include "server/stats/stats.h"

namespace kv::server {

struct ServerOptions {
    size_t threads{2};
    ServerSettings settings;
};

/// A second address, on which TLS is spoken from the first byte on.
struct TlsListener {
    Listener listener;
    auth::TlsContext context;
};

class Server {
  public:
    /// `listener` is already bound; connections are accepted only after start(). `users` nullptr:
    /// no login is needed.
    Server(Listener listener, Bucket& bucket, const UserStore* users, const ServerOptions& options,
           std::optional<TlsListener> tls = std::nullopt);
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    ~Server();

    /// The shared context. Other parts add STAT groups and the configuration to it before start().
    ServerContext& context() { return context_; }
    [[nodiscard]] CommandTable& commands() { return commands_; }

    void start();
    void run();
    void requestStop();
    void stop();

    [[nodiscard]] uint16_t port() const { return listener_.port(); }
    /// 0: TLS is not served.
    [[nodiscard]] uint16_t tlsPort() const { return tls_ ? tls_->listener.port() : 0; }
    /// The loop that run() turns; used for signals.
    event_base* base() { return base_.get(); }

  private:
    static void onStop(int, short, void* self);
    void hand(Fd socket, const auth::TlsContext* tls);

    Listener listener_;
    std::optional<TlsListener> tls_;
    CommandTable commands_;
    ServerContext context_;
    StatCollector statCollector_{context_};
    JobThread bucketJobs_{"bucket_jobs"};
    JobThread storeReads_{"store_reads"};
    /// Any reader may ask for keys, so no other job waits there.
    JobThread keyLists_{"key_lists"};
    std::optional<JobThread> handshakes_;
    EventBasePtr base_;
    Fd stopFd_;
    EventPtr stopEvent_;
    std::vector<std::unique_ptr<FrontEndThread>> threads_;
    uint64_t nextConnection_{1};
};

}  // namespace kv::server
