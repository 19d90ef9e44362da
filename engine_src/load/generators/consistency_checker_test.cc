// The whole consistency_checker, against servers inside this process whose cluster changes while it
// runs.
#include "load/generators/consistency_checker.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "load/core/thread_team.h"
#include "load/generators/pillowfight.h"
#include "load/protocols/fake_server.h"
#include "load/protocols/key_codec.h"

namespace kv::load::consistency_checker_test {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint16_t kVbuckets = 64;
constexpr std::uint64_t kItems = 1003;

/// Servers with copies of the same documents, and the map that they publish.
class Cluster {
  public:
    explicit Cluster(std::size_t count, FakeServerOptions options = {}) {
        // Before there are threads: only consistency_checker handles SIGTERM.
        ThreadTeam::blockSignals();
        options.documents = documents;
        for (std::size_t n = 0; n < count; ++n) {
            servers.push_back(std::make_unique<FakeServer>(options));
        }
        std::vector<std::size_t> all(count);
        for (std::size_t n = 0; n < count; ++n) {
            all[n] = n;
        }
        spread(all);
    }

    /// Distributes the active vBuckets over these servers in rotation.
    void spread(const std::vector<std::size_t>& members) {
        ++revision_;
        for (const auto at : members) {
            serve(members, at);
        }
        for (const auto at : members) {
            publishMap(members, at);
        }
    }

    void serve(const std::vector<std::size_t>& members, std::size_t at) {
        std::set<std::uint16_t> mine;
        for (std::uint16_t vb = 0; vb < kVbuckets; ++vb) {
            if (members[vb % members.size()] == at) {
                mine.insert(vb);
            }
        }
        servers[at]->serveOnly(std::move(mine));
    }

    void publishMap(const std::vector<std::size_t>& members, std::size_t at) {
        Json list = Json::array();
        Json rows = Json::array();
        for (const auto member : members) {
            list.push_back("$HOST:" + std::to_string(servers[member]->port()));
        }
        for (std::size_t vb = 0; vb < kVbuckets; ++vb) {
            rows.push_back(Json::array({vb % members.size()}));
        }
        servers[at]->publish(
                Json{{"rev", revision_},
                     {"revEpoch", 1},
                     {"vBucketServerMap", {{"serverList", list}, {"vBucketMap", rows}}}}
                        .dump());
    }

    void populate() {
        PillowfightOptions options;
        options.connection.session.port = servers[0]->port();
        options.access.items = kItems;
        options.minSize = options.maxSize = 64;
        options.populateOnly = true;
        Json report;
        ASSERT_EQ(runPillowfight(options, report).failure, "");
        ASSERT_EQ(documents->size(), kItems);
    }

    std::uint64_t requests() const {
        std::uint64_t sum = 0;
        for (const auto& server : servers) {
            sum += server->gets() + server->sets();
        }
        return sum;
    }

    /// Waits until the load has done `more` further operations.
    void waitForTraffic(std::uint64_t more) const {
        const auto until = requests() + more;
        waitFor([&] { return requests() >= until; });
    }

    /// Kills a server that has received an operation and will not answer it.
    void killInMidOperation(FakeServer& server) const {
        server.mute();
        const auto before = server.gets() + server.sets();
        waitFor([&] { return server.gets() + server.sets() > before; });
        server.kill();
    }

    std::shared_ptr<FakeDocuments> documents = std::make_shared<FakeDocuments>();
    std::vector<std::unique_ptr<FakeServer>> servers;

    static void waitFor(const std::function<bool()>& what) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(5);
        while (!what()) {
            ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "no traffic";
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }

  private:
    std::int64_t revision_ = 1;
};

ConsistencyCheckerOptions optionsFor(const Cluster& cluster) {
    ConsistencyCheckerOptions options;
    options.connection.session.port = cluster.servers[0]->port();
    options.connection.opTimeout = 5;
    options.items = kItems;
    options.batch = 20;
    options.setPercent = 50;
    options.minSize = 20;
    options.maxSize = 64;
    options.seed = 42;
    options.threads = 2;
    options.connections = 2;
    options.duration = 1;
    return options;
}

/// Runs the checker, and `duringMix` during its mixed phase, which lasts at least as long, however
/// slow the machine is.
Json runChecker(const Cluster& cluster, const ConsistencyCheckerOptions& given,
                const std::function<void()>& duringMix = {}, const std::string& failure = "") {
    auto options = given;
    options.duration = duringMix ? 0 : given.duration;
    const auto begun = std::filesystem::path(testing::TempDir()) /
                       ("begun-" + std::to_string(cluster.servers[0]->port()));
    std::filesystem::remove(begun);
    options.begun = begun.string();
    Json report;
    auto running = std::async(std::launch::async, [&] {
        const auto result = runConsistencyChecker(options, report);
        EXPECT_EQ(result.failure, failure);
    });
    while (!std::filesystem::exists(begun) &&
           running.wait_for(std::chrono::milliseconds(1)) == std::future_status::timeout) {
    }
    if (std::filesystem::exists(begun)) {
        const auto least =
                std::chrono::steady_clock::now() + std::chrono::duration<double>(given.duration);
        std::int64_t at = 0;
        std::ifstream(begun) >> at;
        EXPECT_GT(at, std::int64_t{1'600'000'000} * 1'000'000'000);
        if (duringMix) {
            duringMix();
            if (running.wait_until(least) == std::future_status::timeout) {
                ::kill(::getpid(), SIGTERM);
            }
        }
    }
    running.get();
    std::filesystem::remove(begun);
    return report;
}

std::uint64_t sumOf(const Json& counts) {
    std::uint64_t sum = 0;
    for (const auto& count : counts) {
        sum += count.get<std::uint64_t>();
    }
    return sum;
}

TEST(ConsistencyChecker, LoadsAllKeysWithoutFalseFindings) {
    Cluster cluster(2);
    cluster.populate();
    const auto report = runChecker(cluster, optionsFor(cluster));
    EXPECT_EQ(report["learn"]["documents"], kItems);
    EXPECT_EQ(report["learn"]["absent"], 0);
    EXPECT_EQ(report["check"]["documents"], kItems);
    EXPECT_EQ(report["check"]["lost"], 0);
    const auto& access = report["access"];
    for (const auto* none : {"lost", "foreign", "not_my_vbucket", "broken_off", "maps", "misses"}) {
        EXPECT_EQ(access[none], 0) << none;
    }
    EXPECT_GT(access["ops"], 1000);
    EXPECT_EQ(sumOf(access["per_ms"]), access["ops"].get<std::uint64_t>());
    EXPECT_LT(access["per_ms"].size(), access["ops"].get<std::size_t>());
    EXPECT_NEAR(access["sets"].get<double>() / access["ops"].get<double>(), 0.5, 0.1);
    EXPECT_EQ(access["latency_ns"]["set"]["count"], access["sets"]);
    EXPECT_GE(access["seconds"].get<double>(), 0.9);
    EXPECT_EQ(cluster.documents->size(), kItems);
    for (const auto& server : cluster.servers) {
        EXPECT_GT(server->gets(), 400U);
        EXPECT_TRUE(server->misrouted().empty());
    }
}

TEST(ConsistencyChecker, GoesWhereTheNewMapSays) {
    Cluster cluster(3);
    cluster.populate();
    const auto report = runChecker(cluster, optionsFor(cluster), [&] {
        cluster.waitForTraffic(500);
        cluster.spread({2, 0, 1});
        cluster.waitForTraffic(500);
    });
    const auto& access = report["access"];
    EXPECT_GT(access["not_my_vbucket"], 0);
    EXPECT_EQ(access["maps"], 2) << "one a thread";
    EXPECT_EQ(access["lost"], 0);
    EXPECT_EQ(access["foreign"], 0);
    EXPECT_EQ(access["errors"]["not_my_vbucket"], 0)
            << "operations that are sent again are no error";
    EXPECT_EQ(report["check"]["lost"], 0);
}

TEST(ConsistencyChecker, WaitsForAVbucketThatNobodyServes) {
    Cluster cluster(2);
    cluster.populate();
    const auto report = runChecker(cluster, optionsFor(cluster), [&] {
        cluster.waitForTraffic(500);
        cluster.servers[1]->serveOnly({});
        cluster.waitForTraffic(50);  // which are refused
        cluster.spread({0, 1});
        cluster.waitForTraffic(500);
    });
    EXPECT_GT(report["access"]["not_my_vbucket"], 0);
    EXPECT_EQ(report["access"]["lost"], 0);
    EXPECT_EQ(report["check"]["lost"], 0);
}

TEST(ConsistencyChecker, OutlivesAServerThatIsKilled) {
    Cluster cluster(3, {.dribble = 7});  // answers break off in the middle
    cluster.populate();
    const auto report = runChecker(cluster, optionsFor(cluster), [&] {
        cluster.waitForTraffic(500);
        cluster.killInMidOperation(*cluster.servers[2]);
        cluster.spread({0, 1});
        cluster.waitForTraffic(500);
    });
    const auto& access = report["access"];
    EXPECT_GT(access["broken_off"], 0);
    EXPECT_EQ(access["maps"], 2);
    EXPECT_EQ(access["lost"], 0) << "the copies were in sync";
    EXPECT_EQ(access["foreign"], 0) << "SETs that were made though their answer was lost";
    EXPECT_EQ(access["errors"]["other"], 0);
    EXPECT_EQ(report["check"]["lost"], 0);
    EXPECT_EQ(report["check"]["absent"], 0);
}

TEST(ConsistencyChecker, ASetAppliedAfterItsConnectionWasLostIsRecognised) {
    Cluster cluster(1);
    cluster.populate();
    auto options = optionsFor(cluster);
    options.setPercent = 100;
    const auto report = runChecker(cluster, options, [&] {
        for (std::size_t n = 1; n <= 5; ++n) {
            cluster.documents->delay(1);
            Cluster::waitFor([&] { return cluster.documents->madeLate() == n; });
        }
    });
    const auto& access = report["access"];
    EXPECT_GE(access["broken_off"], 5);
    EXPECT_EQ(access["foreign"].get<int>() + report["check"]["foreign"].get<int>(), 0);
    EXPECT_EQ(access["lost"].get<int>() + report["check"]["lost"].get<int>(), 0);
}

TEST(ConsistencyChecker, OneSurvivorIsEnough) {
    Cluster cluster(2);
    cluster.populate();
    auto options = optionsFor(cluster);
    options.connection.session.port = cluster.servers[1]->port();  // the one that is killed
    const auto report = runChecker(cluster, options, [&] {
        cluster.waitForTraffic(500);
        cluster.servers[1]->kill();
        cluster.spread({0});
        cluster.waitForTraffic(500);
    });
    EXPECT_EQ(report["access"]["maps"], 2);
    EXPECT_EQ(report["check"]["lost"], 0);
}

TEST(ConsistencyChecker, CountsEachLostWriteOnceHoweverItIsFound) {
    Cluster cluster(2);
    cluster.populate();
    auto options = optionsFor(cluster);
    options.setPercent = 100;  // found by SETs, and at the end by the final check
    const KeyCodec keys("", KeyCodec::kMaxDigits);
    const auto report = runChecker(cluster, options, [&] {
        for (std::uint64_t key = 0; key < 100; ++key) {
            cluster.documents->takeBack(keys.text(key));
        }
        cluster.waitForTraffic(500);
    });
    EXPECT_EQ(report["access"]["lost"].get<int>() + report["check"]["lost"].get<int>(), 100);
    EXPECT_EQ(report["access"]["foreign"], 0);
    EXPECT_EQ(report["access"]["errors"]["other"], 0) << "the SET was made again";
}

TEST(ConsistencyChecker, AReadThatFindsNothingIsAMissAndALostWrite) {
    Cluster cluster(1);
    cluster.populate();
    auto options = optionsFor(cluster);
    options.setPercent = 0;
    const KeyCodec keys("", KeyCodec::kMaxDigits);
    const auto report = runChecker(cluster, options, [&] {
        for (std::uint64_t key = 0; key < 100; ++key) {
            cluster.documents->takeBack(keys.text(key));  // each had one version
        }
    });
    const auto& access = report["access"];
    EXPECT_EQ(access["lost"].get<int>() + report["check"]["lost"].get<int>(), 100);
    EXPECT_GE(access["misses"], access["lost"]) << "it is read again and again, and lost once";
    EXPECT_EQ(report["check"]["absent"], 100);
}

TEST(ConsistencyChecker, ADocumentOfAnotherWriterIsNoLoss) {
    Cluster cluster(1);
    cluster.populate();
    auto options = optionsFor(cluster);
    options.setPercent = 0;
    const auto report = runChecker(cluster, options, [&] {
        std::uint64_t cas = 0;
        cluster.documents->set(KeyCodec("", KeyCodec::kMaxDigits).text(7), "x", 0, cas);
    });
    EXPECT_EQ(report["access"]["lost"].get<int>() + report["check"]["lost"].get<int>(), 0);
    EXPECT_EQ(report["access"]["foreign"].get<int>() + report["check"]["foreign"].get<int>(), 1);
}

TEST(ConsistencyChecker, EndsWhenNobodyTakesTheKilledServersPlace) {
    Cluster cluster(2);
    cluster.populate();
    auto options = optionsFor(cluster);
    options.connection.opTimeout = 1;
    options.duration = 0;
    options.threads = 1;
    options.connections = 1;
    std::string message;
    auto running = std::async(std::launch::async, [&] {
        Json report;
        auto result = runConsistencyChecker(options, report);
        message = result.failure;
        EXPECT_GT(report["access"]["errors"]["timeout"], 0);
        EXPECT_TRUE(report["check"].is_null());
    });
    cluster.waitForTraffic(3 * kItems);
    cluster.servers[1]->kill();
    running.get();
    EXPECT_NE(message.find("no operation was completed for 1 s"), std::string::npos) << message;
    EXPECT_NE(message.find("last trouble: "), std::string::npos) << message;
}

TEST(ConsistencyChecker, MoreVbucketsThanBeforeEndIt) {
    Cluster cluster(1);
    cluster.populate();
    auto options = optionsFor(cluster);
    options.threads = 1;
    runChecker(
            cluster, options,
            [&] {
                cluster.servers[0]->publish(
                        R"({"rev": 99, "vBucketServerMap": {"vBucketMap": [[0], [0]]}, "revEpoch": 1})");
                cluster.servers[0]->serveOnly({});
            },
            "the cluster's map has another number of vBuckets now");
}

TEST(ConsistencyCheckerOptions, InvalidCombinationsAreRefused) {
    const auto parse = [](std::vector<const char*> args) {
        args.insert(args.begin(), "consistency_checker");
        ConsistencyCheckerOptions options;
        testing::internal::CaptureStderr();
        const int exit =
                parseConsistencyChecker(static_cast<int>(args.size()), args.data(), options);
        return std::pair(exit, testing::internal::GetCapturedStderr());
    };
    EXPECT_EQ(parse({"-I", "4", "-t", "2", "--connections", "2"}).first, -1);
    const std::vector<std::pair<std::vector<const char*>, std::string>> refused{
            {{"-I", "3", "-t", "2", "--connections", "2"}, "needs a key of its own"},
            {{"--plain"}, "no map to follow"},
            {{"-m", "9", "-M", "8"}, "--min-size is larger"},
            {{"-B", "1000000", "-M", "1000"}, "more than 256 MiB"},
            {{"--duration", "1", "--ramp", "2"}, "--ramp must be shorter"},
            {{"--barrier", "nowhere"}, "--barrier is not HOST:PORT: nowhere"},
            {{"--rate-limit", "3"}, "--rate-limit"}};
    for (const auto& [args, says] : refused) {
        const auto [exit, message] = parse(args);
        EXPECT_EQ(exit, kExitUsage) << says;
        EXPECT_NE(message.find(says), std::string::npos) << message;
    }
}

}  // namespace
}  // namespace kv::load::consistency_checker_test
