// kv_engine: one bucket behind the memcached binary protocol.
//
// Start: flags, address, bucket (with warm-up), server, port file. Then it serves until SIGTERM or
// SIGINT. Stop: end serving, persist the queue, exit.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>

#include "dcp/dcp_node.h"
#include "executor/thread_executor.h"
#include "logging/log.h"
#include "server/command_line.h"
#include "server/engine_bucket.h"
#include "server/replication/replication_set.h"
#include "server/replication/replicator.h"
#include "server/server.h"
#include "server/stats/figures.h"

namespace {

using namespace kv;
using namespace kv::server;

constexpr int kFailed = 1;
constexpr int kUsage = 2;

/// Allows as many open files as the hard limit permits, and returns their number.
size_t raiseFileLimit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return SIZE_MAX;
    }
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
}

/// Lowers the number of connections until the stores can open their files as well. Otherwise
/// anyone who opens connections could stop the bucket from storing documents.
void fitIntoFileLimit(CommandLine& line, size_t limit) {
    constexpr size_t kOthers = 64;  // listeners, event loops, sources of replication
    const bool stores = line.bucketType == BucketType::Persistent;
    auto& settings = line.params.server;
    const size_t needed = kOthers + settings.reservedConnections +
                          (stores ? line.shards * RocksConfig::kDescriptors : 0);
    if (limit <= needed) {
        throw std::runtime_error(fmt::format(
                "only {} files may be open, but connections and stores need more than {}: raise "
                "the limit (ulimit -n)",
                limit, needed));
    }
    if (settings.maxConnections > limit - needed) {
        log::warn("max_connections is {} instead of {}: only {} files may be open (ulimit -n)",
                  limit - needed, settings.maxConnections, limit);
        settings.maxConnections = static_cast<uint32_t>(limit - needed);
    }
}

void onSignal(evutil_socket_t signal, short, void* server) {
    log::info("signal {}: stopping", signal);
    static_cast<Server*>(server)->requestStop();
}

bool isIgnored(int signal) {
    struct sigaction now {};
    return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

/// Stops the server at a signal. Further signals do not end the process while it closes its stores:
/// libevent restores what was set before.
EventPtr stopAt(int signal, Server& server) {
    ::signal(signal, SIG_IGN);
    EventPtr event(evsignal_new(server.base(), signal, onSignal, &server));
    event_add(event.get(), nullptr);
    return event;
}

TaskPeriods periodsOf(const EngineParams& params) {
    return {.expiry = std::chrono::seconds(params.expiryPassSeconds),
            .hashResize = std::chrono::milliseconds(params.hashResizeMillis),
            .tombstonePurge = std::chrono::seconds(params.tombstonePurgeSeconds),
            .checkpointRemoval = params.bucket.checkpoint.removerPeriod};
}

/// Returns the source with the login from the file, and TLS if requested.
ReplicationSource sourceOf(const CommandLine& line) {
    ReplicationSource source = line.replicateFrom;
    if (!line.replicateLogin.empty()) {
        const auto users = readUserFile(line.replicateLogin);
        if (users.size() != 1) {
            throw UserFileError("--replicate-login " + line.replicateLogin.string() +
                                ": expected one user, found " + std::to_string(users.size()));
        }
        std::tie(source.user, source.password) = *users.begin();
    }
    if (!line.replicateTlsCa.empty()) {
        source.tls = auth::TlsContext::client(line.replicateTlsCa, line.tlsCert, line.tlsKey);
    }
    return source;
}

/// Reports the port, and that the server is ready, to the process that started it: "PORT\n". Writes
/// the file atomically. Throws std::runtime_error.
void writePortFile(const std::filesystem::path& file, uint16_t port) {
    auto temporary = file;
    temporary += ".tmp." + std::to_string(::getpid());
    {
        std::ofstream out(temporary, std::ios::trunc);
        out << port << '\n';
        if (!out.flush()) {
            throw std::runtime_error("cannot write " + temporary.string());
        }
    }
    std::error_code error;
    std::filesystem::rename(temporary, file, error);
    if (error) {
        std::filesystem::remove(temporary, error);
        throw std::runtime_error("cannot write " + file.string());
    }
}

int serve(const CommandLine& line) {
    std::unique_ptr<UserStore> users;
    if (!line.usersFile.empty()) {
        users = std::make_unique<UserStore>(UserStore::load(line.usersFile));
    }
    ReplicationSource source = sourceOf(line);
    Listener listener(line.host, line.port);
    if (!users && !listener.loopback()) {
        log::error("--host {}: without --users only loopback addresses are served", line.host);
        return kUsage;
    }
    std::optional<TlsListener> tls;
    if (line.tlsPort) {
        tls.emplace(
                TlsListener{Listener(line.host, *line.tlsPort),
                            auth::TlsContext::server(line.tlsCert, line.tlsKey, line.tlsClientCa)});
    }
    ThreadExecutor executor({.writers = line.shards, .auxIo = 1, .nonIo = 1});
    EngineBucket bucket(line, executor);
    dcp::DcpNode dcp(bucket.get(), executor,
                     std::chrono::microseconds(line.params.dcpSnapshotIntervalUs),
                     line.params.backfills, line.params.dcpConnections);
    bucket.startBackground(periodsOf(line.params));

    Server server(std::move(listener), bucket.get(), users.get(),
                  {.threads = line.threads, .settings = line.params.server}, std::move(tls));
    auto& context = server.context();
    context.configStats = configStats(line);
    context.statSources.emplace_back("tasks", [&executor] { return taskStats(executor); });
    bucket.addStats(context);
    context.fence = &bucket.fence();
    context.dcp = &dcp;
    context.statSources.emplace_back("dcp", [&dcp] { return dcpStats(dcp); });
    context.statSources.emplace_back("dcpagg", [&dcp] { return dcpAggregateStats(dcp); });

    std::unique_ptr<Replicator> replicator;
    std::unique_ptr<ReplicationSet> replication;
    if (!line.replicateFrom.host.empty()) {
        replicator = std::make_unique<Replicator>(bucket.get(), executor, std::move(source));
        context.statSources.emplace_back("replication",
                                         [&replicator] { return replicator->stats(); });
    } else {
        replication = std::make_unique<ReplicationSet>(bucket.get(), executor, std::move(source));
        context.onClusterConfig = [&replication](std::shared_ptr<const ClusterConfig> config) {
            replication->follow(std::move(config));
        };
        context.statSources.emplace_back("replication",
                                         [&replication] { return replication->stats(); });
    }

    server.start();
    const EventPtr onTerm = stopAt(SIGTERM, server);
    const EventPtr onInt = stopAt(SIGINT, server);
    // The terminal is closed, unless nohup makes the server stay.
    const EventPtr onHangUp = isIgnored(SIGHUP) ? EventPtr() : stopAt(SIGHUP, server);
    if (!line.portFile.empty()) {
        writePortFile(line.portFile, server.port());
    }
    log::info("serving bucket '{}' ({}) on {}:{} with {} threads", line.bucketName,
              toString(line.bucketType), line.host, server.port(), line.threads);
    if (server.tlsPort() != 0) {
        log::info("serving TLS on {}:{}", line.host, server.tlsPort());
    }
    server.run();
    server.stop();
    replicator.reset();
    replication.reset();
    if (!bucket.persistAll()) {
        log::error("stopped, but the store refused the queued mutations: see above");
        return kFailed;
    }
    log::info("stopped");
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    auto parsed = parseCommandLine(argc, argv);
    if (!parsed.line) {
        return parsed.exitCode;
    }
    log::openStderr(parsed.line->logLevel);
    signal(SIGPIPE, SIG_IGN);
    try {
        fitIntoFileLimit(*parsed.line, raiseFileLimit());
        return serve(*parsed.line);
    } catch (const UserFileError& error) {
        log::error("{}", error.what());
        return kUsage;
    } catch (const auth::TlsError& error) {
        log::error("{}", error.what());
        return kUsage;
    } catch (const std::exception& error) {
        log::error("{}", error.what());
        return kFailed;
    }
}
