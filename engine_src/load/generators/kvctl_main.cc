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

int run(int argc, const char* const* argv) {
    CLI::App app("Asks a running key-value server, or this host.", "kvctl");
    kv::load::ConnectionFlags flags;
    kv::load::addConnectionFlags(app, flags);
    app.require_subcommand(1);
    app.fallthrough();  // --host and similar flags may also follow the command

    std::vector<std::string> groups;
    auto* stat = app.add_subcommand("stat", "print STAT groups as JSON");
    stat->add_option("group", groups, "groups; none: the default one (\"\")");

    double timeout = 0;
    auto* wait = app.add_subcommand("wait-persisted", "wait until everything queued is on disk");
    wait->add_option("--timeout", timeout, "seconds")->required()->check(CLI::NonNegativeNumber);

    kv::load::SamplerOptions sampler;
    auto* sample = app.add_subcommand(
            "sample", "write a JSON line of memory and CPU figures each interval until SIGTERM");
    sample->footer("Without --out it prints one line and ends.");
    sample->add_option("--pid", sampler.pid, "the server's process")
            ->required()
            ->check(CLI::PositiveNumber);
    sample->add_option("--interval-ms", sampler.intervalMs)
            ->capture_default_str()
            ->check(CLI::Range(10, 3'600'000));
    sample->add_option("--out", sampler.out, "file to append to");

    auto* reset = app.add_subcommand("reset", "zero the server's counters and timings");

    auto* topology =
            app.add_subcommand("topology", "print this host's CPUs and their caches as JSON");

    std::string listen;
    std::vector<int> pids;
    auto* clocks = app.add_subcommand(
            "clock-server",
            "serve the CPU clocks of processes of this host to load clients that know the password "
            "(--password-file) until SIGTERM; prints the port as JSON");
    clocks->add_option("--listen", listen, "ADDR[:PORT]")->required();
    clocks->add_option("--pid", pids, "a process to serve; repeated")
            ->required()
            ->expected(1)
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
            ->check(CLI::PositiveNumber);

    std::string config;
    auto* states = app.add_subcommand(
            "set-states", "make each vBucket active, replica or dead, as a cluster config says");
    auto* publish = app.add_subcommand(
            "set-config",
            "publish a cluster config: clients are served by it, and replicas follow by it");
    for (auto* command : {states, publish}) {
        command->add_option("--config", config,
                            "JSON file; the server is its node with \"thisNode\": true")
                ->required()
                ->check(CLI::ExistingFile);
    }
    std::string state;
    std::vector<std::uint16_t> vbuckets;
    auto* change = app.add_subcommand(
            "set-state", "make some vBuckets active, replica, pending or dead; the others stay");
    change->add_option("--vbuckets", vbuckets, "their numbers: 3,17,20")
            ->required()
            ->delimiter(',')
            ->check(CLI::Range(0, 65535));
    change->add_option("--state", state)
            ->required()
            ->check(CLI::IsMember({"active", "replica", "pending", "dead"}));
    auto* discard = app.add_subcommand(
            "discard-copies",
            "make replicas forget their copies and fetch them again: for those that keep a copy "
            "because their source has less (STAT replication: copies_kept)");
    discard->add_option("--vbuckets", vbuckets, "their numbers: 3,17,20")
            ->required()
            ->delimiter(',')
            ->check(CLI::Range(0, 65535));
    auto* digest = app.add_subcommand(
            "digest", "print what every vBucket holds, read by DCP, as one digest each");

    std::size_t parties = 0;
    auto* barrier = app.add_subcommand(
            "barrier",
            "let pillowfight --barrier of this many hosts begin at one instant; prints the port as "
            "JSON, ends when they have begun");
    barrier->add_option("--listen", listen, "ADDR[:PORT]")->required();
    barrier->add_option("--parties", parties, "load processes")
            ->required()
            ->check(CLI::Range(1, 1000));

    const int exit = kv::load::parseFlags(app, argc, argv, [&] {
        kv::load::finishConnectionFlags(
                flags, clocks->parsed() ? kv::load::Secret::kNeeded : secretOf(flags.session));
    });
    if (exit >= 0) {
        return exit;
    }
    if (topology->parsed()) {
        std::cout << kv::load::hostTopology().dump() << std::endl;
        return kv::load::kExitOk;
    }
    if (sample->parsed() || clocks->parsed() || barrier->parsed()) {
        kv::load::ThreadTeam::blockSignals();
    }
    if (clocks->parsed()) {
        serveClocks(listen, flags.session.password, pids);
        return kv::load::kExitOk;
    }
    if (barrier->parsed()) {
        holdBarrier(listen, parties);
        return kv::load::kExitOk;
    }
    auto client = kv::load::openSession(flags.session).client;
    if (stat->parsed()) {
        printStat(client, groups);
    } else if (wait->parsed()) {
        waitPersisted(client, timeout);
    } else if (sample->parsed()) {
        if (sampler.out.empty()) {
            std::cout << kv::load::takeSample(client, sampler.pid).dump() << '\n';
        } else {
            kv::load::runSampler(client, sampler);
        }
    } else if (reset->parsed()) {
        client.stat("reset");
    } else if (states->parsed()) {
        kv::load::NodeConfig(readFile(config)).setStates(client);
    } else if (publish->parsed()) {
        kv::load::NodeConfig(readFile(config)).publish(client);
    } else if (change->parsed()) {
        kv::load::setStates(client, vbuckets, state);
    } else if (discard->parsed()) {
        kv::load::discardCopies(client, vbuckets);
    } else if (digest->parsed()) {
        std::cout << kv::load::digestVbuckets(std::move(client), flags.session).dump() << std::endl;
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
