// kvctl: queries a running server (stat, wait-persisted, sample, reset, digest), makes it a node of
// a cluster (set-states, set-config), or queries this host (topology, clock-server).

#include <sys/signalfd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>
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

namespace {

using kv::load::Client;
using kv::load::LoadError;
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
    const auto deadline =
            kv::load::nowNanos() +
            static_cast<kv::load::Nanos>(timeout * static_cast<double>(kv::load::kSecond));
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
        if (kv::load::nowNanos() >= deadline) {
            throw LoadError(queue->second + " items are still not persisted");
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

/// Returns a descriptor that is readable at SIGTERM and SIGINT, which must be blocked.
kv::load::Socket endSignals() {
    sigset_t end;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    sigaddset(&end, SIGINT);
    kv::load::Socket stop(::signalfd(-1, &end, SFD_CLOEXEC));
    if (stop.fd() < 0) {
        throw LoadError("signalfd: " + kv::load::errnoText(errno));
    }
    return stop;
}

/// Runs until all parties have begun.
void holdBarrier(const std::string& listen, std::size_t parties) {
    kv::load::BarrierServer server(kv::load::parseListen(listen), parties);
    const auto stop = endSignals();
    std::cout << Json{{"port", server.port()}}.dump() << std::endl;
    server.run(stop);
}

/// Runs until SIGTERM or SIGINT.
void serveClocks(const std::string& listen, const std::string& password,
                 const std::vector<int>& pids) {
    kv::load::ClockServer server(kv::load::parseListen(listen), password, pids);
    const auto stop = endSignals();
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
struct Commands {
    explicit Commands(CLI::App& app);
    Commands(const Commands&) = delete;
    Commands& operator=(const Commands&) = delete;

    CLI::App* stat = nullptr;
    std::vector<std::string> groups;
    CLI::App* wait = nullptr;
    double timeout = 0;
    CLI::App* sample = nullptr;
    kv::load::SamplerOptions sampler;
    CLI::App* reset = nullptr;
    CLI::App* topology = nullptr;

    CLI::App* states = nullptr;
    CLI::App* publish = nullptr;
    std::string config;
    CLI::App* change = nullptr;
    CLI::App* discard = nullptr;
    std::vector<std::uint16_t> vbuckets;
    std::string state;
    CLI::App* digest = nullptr;

    CLI::App* clocks = nullptr;
    std::vector<int> pids;
    CLI::App* barrier = nullptr;
    std::size_t parties = 0;
    std::string listen;

  private:
    void addQueries(CLI::App& app);
    void addClusterCommands(CLI::App& app);
    void addServices(CLI::App& app);
};

Commands::Commands(CLI::App& app) {
    addQueries(app);
    addClusterCommands(app);
    addServices(app);
}

void Commands::addQueries(CLI::App& app) {
    stat = app.add_subcommand("stat", "print STAT groups as JSON");
    stat->add_option("group", groups, "groups; none: the default one (\"\")");

    wait = app.add_subcommand("wait-persisted", "wait until everything queued is on disk");
    wait->add_option("--timeout", timeout, "seconds")->required()->check(CLI::NonNegativeNumber);

    sample = app.add_subcommand(
            "sample", "write a JSON line of memory and CPU figures each interval until SIGTERM");
    sample->footer("Without --out it prints one line and ends.");
    sample->add_option("--pid", sampler.pid, "the server's process")
            ->required()
            ->check(CLI::PositiveNumber);
    sample->add_option("--interval-ms", sampler.intervalMs)
            ->capture_default_str()
            ->check(CLI::Range(10, 3'600'000));
    sample->add_option("--out", sampler.out, "file to append to");

    reset = app.add_subcommand("reset", "zero the server's counters and timings");
    topology = app.add_subcommand("topology", "print this host's CPUs and their caches as JSON");
}

void Commands::addClusterCommands(CLI::App& app) {
    states = app.add_subcommand(
            "set-states", "make each vBucket active, replica or dead, as a cluster config says");
    publish = app.add_subcommand(
            "set-config",
            "publish a cluster config: clients are served by it, and replicas follow by it");
    for (auto* command : {states, publish}) {
        command->add_option("--config", config,
                            "JSON file; the server is its node with \"thisNode\": true")
                ->required()
                ->check(CLI::ExistingFile);
    }
    change = app.add_subcommand(
            "set-state", "make some vBuckets active, replica, pending or dead; the others stay");
    discard = app.add_subcommand(
            "discard-copies",
            "make replicas forget their copies and fetch them again: for those that keep a copy "
            "because their source has less (STAT replication: copies_kept)");
    for (auto* command : {change, discard}) {
        command->add_option("--vbuckets", vbuckets, "their numbers: 3,17,20")
                ->required()
                ->delimiter(',')
                ->check(CLI::Range(0, 65535));
    }
    change->add_option("--state", state)
            ->required()
            ->check(CLI::IsMember({"active", "replica", "pending", "dead"}));
    digest = app.add_subcommand("digest",
                                "print what every vBucket holds, read by DCP, as one digest each");
}

void Commands::addServices(CLI::App& app) {
    clocks = app.add_subcommand(
            "clock-server",
            "serve the CPU clocks of processes of this host to load clients that know the password "
            "(--password-file) until SIGTERM; prints the port as JSON");
    clocks->add_option("--pid", pids, "a process to serve; repeated")
            ->required()
            ->expected(1)
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
            ->check(CLI::PositiveNumber);
    barrier = app.add_subcommand(
            "barrier",
            "let pillowfight --barrier of this many hosts begin at one instant; prints the port as "
            "JSON, ends when they have begun");
    barrier->add_option("--parties", parties, "load processes")
            ->required()
            ->check(CLI::Range(1, 1000));
    for (auto* command : {clocks, barrier}) {
        command->add_option("--listen", listen, "ADDR[:PORT]")->required();
    }
}

void runOnServer(const Commands& commands, const kv::load::SessionOptions& session) {
    auto client = kv::load::openSession(session).client;
    if (commands.stat->parsed()) {
        printStat(client, commands.groups);
    } else if (commands.wait->parsed()) {
        waitPersisted(client, commands.timeout);
    } else if (commands.sample->parsed() && commands.sampler.out.empty()) {
        std::cout << kv::load::takeSample(client, commands.sampler.pid).dump() << '\n';
    } else if (commands.sample->parsed()) {
        kv::load::runSampler(client, commands.sampler);
    } else if (commands.reset->parsed()) {
        client.stat("reset");
    } else if (commands.states->parsed()) {
        kv::load::NodeConfig(readFile(commands.config)).setStates(client);
    } else if (commands.publish->parsed()) {
        kv::load::NodeConfig(readFile(commands.config)).publish(client);
    } else if (commands.change->parsed()) {
        kv::load::setStates(client, commands.vbuckets, commands.state);
    } else if (commands.discard->parsed()) {
        kv::load::discardCopies(client, commands.vbuckets);
    } else if (commands.digest->parsed()) {
        std::cout << kv::load::digestVbuckets(std::move(client), session).dump() << std::endl;
    }
}

int run(int argc, const char* const* argv) {
    CLI::App app("Asks a running key-value server, or this host.", "kvctl");
    kv::load::ConnectionFlags flags;
    kv::load::addConnectionFlags(app, flags);
    app.require_subcommand(1);
    app.fallthrough();  // --host and similar flags may also follow the command
    Commands commands(app);

    const int exit = kv::load::parseFlags(app, argc, argv, [&] {
        kv::load::finishConnectionFlags(flags, commands.clocks->parsed() ? kv::load::Secret::kNeeded
                                                                         : secretOf(flags.session));
    });
    if (exit >= 0) {
        return exit;
    }
    if (commands.sample->parsed() || commands.clocks->parsed() || commands.barrier->parsed()) {
        kv::load::ThreadTeam::blockSignals();
    }
    if (commands.topology->parsed()) {
        std::cout << kv::load::hostTopology().dump() << std::endl;
    } else if (commands.clocks->parsed()) {
        serveClocks(commands.listen, flags.session.password, commands.pids);
    } else if (commands.barrier->parsed()) {
        holdBarrier(commands.listen, commands.parties);
    } else {
        runOnServer(commands, flags.session);
    }
    return kv::load::kExitOk;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "kvctl: %s\n", error.what());
        return kv::load::kExitFailure;
    }
}
