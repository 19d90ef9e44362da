// Several servers as one cluster: requests go where the map says, and processes begin together.
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "load/core/barrier.h"
#include "load/core/load_error.h"
#include "load/generators/append.h"
#include "load/generators/pillowfight.h"
#include "load/protocols/fake_server.h"
#include "load/protocols/key_codec.h"
#include "load/protocols/request_writer.h"
#include "load/protocols/session.h"

namespace kv::load::cluster_test {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint32_t kVbuckets = 64;

/// Servers of which the n-th has the vBuckets with remainder n.
class Cluster {
  public:
    explicit Cluster(std::size_t count, const FakeServerOptions& options = {}) {
        for (std::size_t n = 0; n < count; ++n) {
            servers_.push_back(std::make_unique<FakeServer>(options));
        }
        Json list = Json::array();
        for (const auto& server : servers_) {
            list.push_back("$HOST:" + std::to_string(server->port()));
        }
        Json rows = Json::array();
        for (std::size_t vb = 0; vb < kVbuckets; ++vb) {
            rows.push_back(Json::array({vb % count, (vb + 1) % count}));
        }
        for (auto& server : servers_) {
            server->publish(Json{{"vBucketServerMap", {{"serverList", list}, {"vBucketMap", rows}}}}
                                    .dump());
        }
    }

    FakeServer& operator[](std::size_t n) { return *servers_[n]; }

    /// Returns the number of keys that are on another server than the map says.
    std::size_t strays(const KeyCodec& keys) {
        std::size_t found = 0;
        const RequestWriter writer(keys, {.vbuckets = kVbuckets});
        for (std::size_t n = 0; n < servers_.size(); ++n) {
            const auto contents = servers_[n]->contents();
            for (std::uint64_t id = 0; id < 1100; ++id) {
                const bool here = contents.contains(keys.text(id));
                found += here && writer.vbucketOf(id) % servers_.size() != n ? 1U : 0U;
            }
        }
        return found;
    }

    std::size_t documents() {
        std::size_t sum = 0;
        for (auto& server : servers_) {
            sum += server->contents().size();
        }
        return sum;
    }

  private:
    std::vector<std::unique_ptr<FakeServer>> servers_;
};

PillowfightOptions optionsFor(FakeServer& server) {
    PillowfightOptions options;
    options.connection.session.port = server.port();
    options.connection.opTimeout = 5;
    options.access.items = 1003;
    options.access.batch = 50;
    options.access.seed = 42;
    options.access.maxCycles = 40;
    options.minSize = options.maxSize = 64;
    options.threads = 2;
    options.connections = 2;
    options.vbuckets = kVbuckets;
    return options;
}

TEST(ClusterMap, ADeeplyNestedMapIsRefusedAndDoesNotExhaustTheStack) {
    constexpr std::size_t kDepth = 500'000;
    const auto map =
            R"({"vBucketServerMap":)" + std::string(kDepth, '[') + std::string(kDepth, ']') + "}";
    EXPECT_THROW(parseMap(map, {"127.0.0.1", 1}), LoadError);
}

TEST(ClusterLoad, PillowfightGoesWhereTheMapSays) {
    Cluster cluster(3);
    auto options = optionsFor(cluster[1]);  // any of them knows the map
    options.window = 3;
    Json report;
    const auto result = runPillowfight(options, report);
    EXPECT_EQ(result.failure, "");
    EXPECT_EQ(report["populate"]["ops"], 1003);
    EXPECT_EQ(report["access"]["ops"], 2 * 40 * 50);
    EXPECT_EQ(report["access"]["misses"], 0);
    EXPECT_EQ(cluster.documents(), 1003U);
    EXPECT_EQ(cluster.strays(KeyCodec("", KeyCodec::kMaxDigits)), 0U);
    std::uint64_t gets = 0;
    for (std::size_t n = 0; n < 3; ++n) {
        EXPECT_GT(cluster[n].sets(), 200U);
        gets += cluster[n].gets();
    }
    EXPECT_EQ(gets, report["access"]["gets"].get<std::uint64_t>());
    std::uint64_t timed = 0;
    for (const auto& [kind, histogram] : report["access"]["latency_ns"].items()) {
        timed += histogram["count"].get<std::uint64_t>();
    }
    EXPECT_EQ(timed, 2U * 40 * 50) << "each answer is of one batch";
}

TEST(ClusterLoad, ARefusedDocumentIsStoredEventually) {
    Cluster cluster(2, {.tmpfailEvery = 7, .dribble = 5});
    auto options = optionsFor(cluster[0]);
    options.populateOnly = true;
    Json report;
    EXPECT_EQ(runPillowfight(options, report).failure, "");
    EXPECT_EQ(cluster.documents(), 1003U);
}

TEST(ClusterLoad, ALostServerEndsIt) {
    Cluster cluster(2, {.closeAfter = 300});
    auto options = optionsFor(cluster[0]);
    options.populateOnly = true;
    Json report;
    EXPECT_NE(runPillowfight(options, report).failure, "");
}

TEST(Client, NamesAServerThatItLost) {
    auto server = std::make_unique<FakeServer>();
    SessionOptions options;
    options.port = server->port();
    auto client = openSession(options).client;
    server.reset();
    try {
        client.stat("");
        FAIL() << "nobody answered";
    } catch (const LoadError& error) {
        const auto where = "127.0.0.1:" + std::to_string(options.port) + ": ";
        EXPECT_TRUE(std::string_view(error.what()).starts_with(where)) << error.what();
    }
}

TEST(ClusterLoad, AServerThatStopsAnsweringIsNamed) {
    Cluster cluster(2);
    auto options = optionsFor(cluster[0]);
    options.connection.opTimeout = 1;
    options.access.maxCycles = PillowfightOptions{}.access.maxCycles;
    options.duration = 60;
    std::atomic<bool> ended{false};
    std::thread muting([&] {
        while (cluster[1].gets() == 0 && !ended) {
            std::this_thread::yield();
        }
        cluster[1].mute();
    });
    Json report;
    const auto result = runPillowfight(options, report);
    ended = true;
    muting.join();
    EXPECT_NE(result.failure.find("no answer for 1 s"), std::string::npos) << result.failure;
    EXPECT_NE(result.failure.find("127.0.0.1:" + std::to_string(cluster[1].port())),
              std::string::npos)
            << result.failure;
    EXPECT_EQ(result.failure.find(std::to_string(cluster[0].port())), std::string::npos)
            << result.failure;
}

TEST(ClusterLoad, ADifferentNumberOfVbucketsIsAnError) {
    Cluster cluster(2);
    auto options = optionsFor(cluster[0]);
    options.vbuckets = 1024;
    Json report;
    EXPECT_EQ(runPillowfight(options, report).failure, "the cluster has 64 vBuckets, not 1024");
}

TEST(ClusterLoad, AppendUpdatesEveryDocumentWhereItIs) {
    Cluster cluster(2, {.tmpfailEvery = 50});
    AppendOptions options;
    options.connection.session.port = cluster[0].port();
    options.connection.opTimeout = 5;
    options.items = 500;
    options.rounds = 1;
    options.threads = 2;
    options.inFlight = 30;
    Json report;
    EXPECT_EQ(runAppend(options, report).failure, "");
    EXPECT_EQ(report["load"]["ops"], 500);
    EXPECT_EQ(report["update"]["errors"]["other"], 0) << "no update was lost";
    EXPECT_EQ(cluster.documents(), 500U);
    EXPECT_EQ(cluster.strays(KeyCodec("AB_", 12, "_0")), 0U);
    EXPECT_GT(cluster[1].gets(), 100U);
}

TEST(Barrier, ReleasesNobodyBeforeAllHaveArrived) {
    BarrierServer server({"127.0.0.1", 0}, 2);
    const Socket stop(::eventfd(0, EFD_CLOEXEC));
    std::thread serving([&] { server.run(stop); });
    const Address address{"127.0.0.1", server.port()};
    const std::atomic<bool> never{false};
    std::atomic<bool> gaveUp{true};
    waitAtBarrier(address, std::chrono::seconds(5), gaveUp);  // a party that leaves does not count
    auto first = std::async(std::launch::async,
                            [&] { waitAtBarrier(address, std::chrono::seconds(5), never); });
    EXPECT_EQ(first.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
    waitAtBarrier(address, std::chrono::seconds(5), never);
    first.get();
    serving.join();
}

TEST(Barrier, ALostBarrierIsAFailure) {
    std::uint16_t port = 0;
    {
        const BarrierServer server({"127.0.0.1", 0}, 2);
        port = server.port();
    }
    const std::atomic<bool> never{false};
    EXPECT_THROW(waitAtBarrier({"127.0.0.1", port}, std::chrono::seconds(5), never), LoadError);
}

}  // namespace
}  // namespace kv::load::cluster_test
