// kvctl: queries a running server (stat, wait-persisted, sample, reset, digest), makes it a node of
// a cluster (set-states, set-config), or queries this host (topology, clock-server).

#include <sys/signalfd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "load/core/barrier.h"
#include "load/core/clock.h"
#include "load/core/clock_server.h"
#include "load/core/host_topology.h"
#include "load/core/load_error.h"
#include "load/core/thread_team.h"
#include "load/generators/common_options.h"
#include "load/generators/sampler.h"
#include "load/protocols/cluster_admin.h"
#include "load/protocols/session.h"

namespace kv::load {
namespace {

using Json = nlohmann::ordered_json;

void printStat(Client& client, std::vector<std::string> groups) {
    if (groups.empty()) {
        groups.emplace_back();
    }
    Json all = Json::object();
    for (const auto& group : groups) {
        Json figures = Json::object();
        for (const auto& [key, value] : client.stat(group)) {
            figures[key] = value;
        }
        all[group] = figures;
    }
    std::cout << all.dump(2, ' ', false, Json::error_handler_t::replace) << std::endl;
}

/// Returns when nothing is queued for the disk; an ephemeral bucket never queues anything.
void waitPersisted(Client& client, double timeout) {
    const Nanos deadline = nowNanos() + nanos(timeout);
    for (;;) {
        const auto figures = client.stat("");
        const auto type = figures.find("bucket_type");
        if (type != figures.end() && type->second == "ephemeral") {
            return;
        }
        const auto queue = figures.find("ep_queue_size");
        if (queue == figures.end()) {
            throw LoadError("STAT has no ep_queue_size: this server cannot say what is persisted");
        }
        if (queue->second == "0") {
            return;
        }
        if (nowNanos() >= deadline) {
            throw LoadError(queue->second + " items are still not persisted");
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

/// Prints one line of figures, or appends one each interval until SIGTERM or SIGINT.
void takeSamples(const SessionOptions& session, const SamplerOptions& sampler) {
    ThreadTeam::blockSignals();
    auto client = openSession(session).client;
    if (sampler.out.empty()) {
        std::cout << takeSample(client, sampler.pid).dump() << '\n';
    } else {
        runSampler(client, sampler);
    }
}

/// Returns a descriptor that is readable at SIGTERM and SIGINT, and blocks them.
Socket stopSocket() {
    ThreadTeam::blockSignals();
    const sigset_t end = endSignals();
    Socket stop(::signalfd(-1, &end, SFD_CLOEXEC));
    if (stop.fd() < 0) {
        throw LoadError("signalfd: " + errnoText(errno));
    }
    return stop;
}

/// Runs until all parties have begun.
void holdBarrier(const std::string& listen, std::size_t parties) {
    const auto stop = stopSocket();
    BarrierServer server(parseListen(listen), parties);
    std::cout << Json{{"port", server.port()}}.dump() << std::endl;
    server.run(stop);
}

/// Runs until SIGTERM or SIGINT.
void serveClocks(const std::string& listen, const std::string& password,
                 const std::vector<int>& pids) {
    const auto stop = stopSocket();
    ClockServer server(parseListen(listen), password, pids);
    std::cout << Json{{"port", server.port()}}.dump() << std::endl;
    server.run(stop);
}

std::string readFile(const std::string& path) {
    std::ifstream file(path);
    if (!file) {
        throw LoadError("cannot read " + path);
    }
    return {std::istreambuf_iterator<char>(file), {}};
}

/// The commands, and the values of their options, which the parser writes here.
class Commands {
  public:
    explicit Commands(CLI::App& app) : app_(app) {
        addQueries();
        addClusterCommands();
        addServices();
    }
    Commands(const Commands&) = delete;
    Commands& operator=(const Commands&) = delete;

    /// Returns whether the given command needs a password.
    [[nodiscard]] Secret secret(const SessionOptions& session) const {
        return clocks_->parsed() ? Secret::kNeeded : secretOf(session);
    }
    /// Runs the given command.
    void run(const SessionOptions& session) const {
        for (const auto& [parser, action] : actions_) {
            if (parser->parsed()) {
                action(session);
            }
        }
    }

  private:
    using Action = std::function<void(const SessionOptions&)>;

    CLI::App* add(const char* name, const char* help, Action action) {
        CLI::App* const parser = app_.add_subcommand(name, help);
        actions_.emplace_back(parser, std::move(action));
        return parser;
    }
    CLI::App* addOnServer(const char* name, const char* help, std::function<void(Client&)> action) {
        return add(name, help, [action = std::move(action)](const SessionOptions& session) {
            auto client = openSession(session).client;
            action(client);
        });
    }
    void addQueries();
    void addClusterCommands();
    void addServices();

    CLI::App& app_;
    std::vector<std::pair<CLI::App*, Action>> actions_;
    CLI::App* clocks_ = nullptr;

    std::vector<std::string> groups_;
    double timeout_ = 0;
    SamplerOptions sampler_;
    std::string config_;
    std::vector<std::uint16_t> vbuckets_;
    std::string state_;
    std::vector<int> pids_;
    std::size_t parties_ = 0;
    std::string listen_;
};

void Commands::addQueries() {
    addOnServer("stat", "print STAT groups as JSON", [this](Client& client) {
        printStat(client, groups_);
    })->add_option("group", groups_, "groups; none: the default one (\"\")");

    addOnServer("wait-persisted", "wait until everything queued is on disk",
                [this](Client& client) { waitPersisted(client, timeout_); })
            ->add_option("--timeout", timeout_, "seconds")
            ->required()
            ->check(CLI::NonNegativeNumber);

    auto* sample =
            add("sample", "write a JSON line of memory and CPU figures each interval until SIGTERM",
                [this](const SessionOptions& session) { takeSamples(session, sampler_); });
    sample->footer("Without --out it prints one line and ends.");
    sample->add_option("--pid", sampler_.pid, "the server's process")
            ->required()
            ->check(CLI::PositiveNumber);
    sample->add_option("--interval-ms", sampler_.intervalMs)
            ->capture_default_str()
            ->check(CLI::Range(10, 3'600'000));
    sample->add_option("--out", sampler_.out, "file to append to");

    addOnServer("reset", "zero the server's counters and timings",
                [](Client& client) { client.stat("reset"); });
    add("topology", "print this host's CPUs and their caches as JSON",
        [](const SessionOptions&) { std::cout << hostTopology().dump() << std::endl; });
}

void Commands::addClusterCommands() {
    auto* states = addOnServer(
            "set-states", "make each vBucket active, replica or dead, as a cluster config says",
            [this](Client& client) { NodeConfig(readFile(config_)).setStates(client); });
    auto* publish = addOnServer(
            "set-config",
            "publish a cluster config: clients are served by it, and replicas follow by it",
            [this](Client& client) { NodeConfig(readFile(config_)).publish(client); });
    for (auto* command : {states, publish}) {
        command->add_option("--config", config_,
                            "JSON file; the server is its node with \"thisNode\": true")
                ->required()
                ->check(CLI::ExistingFile);
    }
    auto* change = addOnServer(
            "set-state", "make some vBuckets active, replica, pending or dead; the others stay",
            [this](Client& client) { setStates(client, vbuckets_, state_); });
    auto* discard = addOnServer(
            "discard-copies",
            "make replicas forget their copies and fetch them again: for those that keep a copy "
            "because their source has less (STAT replication: copies_kept)",
            [this](Client& client) { discardCopies(client, vbuckets_); });
    for (auto* command : {change, discard}) {
        command->add_option("--vbuckets", vbuckets_, "their numbers: 3,17,20")
                ->required()
                ->delimiter(',')
                ->check(CLI::Range(0, 65535));
    }
    change->add_option("--state", state_)
            ->required()
            ->check(CLI::IsMember({"active", "replica", "pending", "dead"}));
    add("digest", "print what every vBucket holds, read by DCP, as one digest each",
        [](const SessionOptions& session) {
            std::cout << digestVbuckets(openSession(session).client, session).dump() << std::endl;
        });
}

void Commands::addServices() {
    clocks_ = add("clock-server",
                  "serve the CPU clocks of processes of this host to load clients that know the "
                  "password (--password-file) until SIGTERM; prints the port as JSON",
                  [this](const SessionOptions& session) {
                      serveClocks(listen_, session.password, pids_);
                  });
    clocks_->add_option("--pid", pids_, "a process to serve; repeated")
            ->required()
            ->expected(1)
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
            ->check(CLI::PositiveNumber);
    auto* barrier = add("barrier",
                        "let pillowfight --barrier of this many hosts begin at one instant; prints "
                        "the port as JSON, ends when they have begun",
                        [this](const SessionOptions&) { holdBarrier(listen_, parties_); });
    barrier->add_option("--parties", parties_, "load processes")
            ->required()
            ->check(CLI::Range(1, 1000));
    for (auto* command : {clocks_, barrier}) {
        command->add_option("--listen", listen_, "ADDR[:PORT]")->required();
    }
}

int run(int argc, const char* const* argv) {
    CLI::App app("Asks a running key-value server, or this host.", "kvctl");
    ConnectionFlags flags;
    addConnectionFlags(app, flags);
    app.require_subcommand(1);
    app.fallthrough();  // --host and similar flags may also follow the command
    Commands commands(app);
    const int exit = parseFlags(
            app, argc, argv, [&] { finishConnectionFlags(flags, commands.secret(flags.session)); });
    if (exit >= 0) {
        return exit;
    }
    commands.run(flags.session);
    return kExitOk;
}

}  // namespace
}  // namespace kv::load

int main(int argc, char** argv) {
    try {
        return kv::load::run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "kvctl: %s\n", error.what());
        return kv::load::kExitFailure;
    }
}
