// Server: listener, front-end threads and the main loop over one bucket.
//
// Use: construct (binds the address), start() (begins to serve), run() (blocks until requestStop or
// a signal event of the caller's), stop() (also done by the destructor). The bucket and the users
// outlive it. requestStop() is safe from any thread and from libevent signal callbacks; the rest
// belongs to one thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "server/command.h"
#include "server/front_end_thread.h"
#include "server/job_thread.h"
#include "server/listener.h"
#include "server/server_context.h"
#include "server/stat_collector.h"

namespace kv::server {

struct ServerOptions {
    size_t threads{2};
    ServerSettings settings;
};

class Server {
  public:
    /// `listener` is bound already; nobody is accepted before start(). `users` nullptr: nobody
    /// needs to log in.
    Server(Listener listener, Bucket& bucket, const UserStore* users, const ServerOptions& options);
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    ~Server();

    /// Before start(): other rooms add STAT groups and the configuration to read back.
    ServerContext& context() { return context_; }
    [[nodiscard]] CommandTable& commands() { return commands_; }

    void start();
    void run();
    void requestStop();
    void stop();

    [[nodiscard]] uint16_t port() const { return listener_.port(); }
    /// The loop that run() turns: for signals.
    event_base* base() { return base_.get(); }

  private:
    static void onStop(int, short, void* self);
    void hand(Fd socket);

    Listener listener_;
    CommandTable commands_;
    ServerContext context_;
    StatCollector statCollector_{context_};
    JobThread bucketJobs_{"bucket_jobs"};
    EventBasePtr base_;
    Fd stopFd_;
    EventPtr stopEvent_;
    std::vector<std::unique_ptr<FrontEndThread>> threads_;
    uint64_t nextConnection_{1};
};

}  // namespace kv::server
