#include "slices/slice_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace kv::slices {
namespace {

using Json = nlohmann::json;

class TwoBenchmarks final : public SliceSource {
  public:
    std::vector<std::pair<std::string, std::string>> context() override {
        return {{"build.ht_stats", "core"}};
    }
    std::vector<Offer> offers() override {
        return {{.name = "A/1", .full = "A/1/real_time"},
                {.name = "B", .full = "B/iterations:7", .pass = 7, .once = true, .step = 2}};
    }
    Slice run(const std::string& name, int64_t iterations) override {
        if (name == "broken") {
            throw std::runtime_error("an insert found its key");
        }
        return {.iterations = iterations,
                .realNs = 10.0 * static_cast<double>(iterations),
                .cpuNs = name == "B" ? std::nullopt : std::optional(3.5),
                .setupNs = 7,
                .left = name == "B" ? std::optional<int64_t>(7 - iterations) : std::nullopt,
                .counters = {{"stripes", 2}}};
    }
    std::string report() override { return R"({"p50": 1})"; }
};

/// Returns the lines of the answer to `lines`.
std::vector<Json> answers(const std::string& lines) {
    TwoBenchmarks source;
    std::istringstream in(lines);
    std::ostringstream out;
    EXPECT_EQ(serveSlices(source, in, out), 0);
    std::vector<Json> all;
    std::istringstream replies(out.str());
    for (std::string line; std::getline(replies, line);) {
        all.push_back(Json::parse(line));
    }
    return all;
}

TEST(SliceServer, GreetsWithItsBuildSettings) {
    const auto replies = answers("");
    ASSERT_EQ(replies.size(), 1U);
    EXPECT_EQ(replies[0]["pid"], getpid());
    EXPECT_EQ(replies[0]["protocol"], 1);
    EXPECT_EQ(replies[0]["context"], Json({{"build.ht_stats", "core"}}));
}

TEST(SliceServer, ListsWithTheTimeLastSeen) {
    const auto replies = answers("list\nrun A/1 5\nlist\n");
    ASSERT_EQ(replies.size(), 4U);
    const Json first{{"name", "A/1"}, {"full", "A/1/real_time"}, {"pass", nullptr},
                     {"once", false}, {"step", nullptr},         {"ns", nullptr}};
    const Json second{{"name", "B"}, {"full", "B/iterations:7"},
                      {"pass", 7},   {"once", true},
                      {"step", 2},   {"ns", nullptr}};
    EXPECT_EQ(replies[1], Json({{"benchmarks", {first, second}}}));
    EXPECT_EQ(replies[3]["benchmarks"][0]["ns"], 10.0);
}

TEST(SliceServer, AnswersARun) {
    const auto replies = answers("run A/1 5\nrun B 3\n");
    ASSERT_EQ(replies.size(), 3U);
    EXPECT_EQ(replies[1]["name"], "A/1");
    EXPECT_EQ(replies[1]["iterations"], 5);
    EXPECT_EQ(replies[1]["real_ns"], 50.0);
    EXPECT_EQ(replies[1]["cpu_ns"], 3.5);
    EXPECT_EQ(replies[1]["setup_ns"], 7.0);
    EXPECT_EQ(replies[1]["left"], nullptr);
    EXPECT_EQ(replies[1]["counters"], Json({{"stripes", 2.0}}));
    EXPECT_GE(replies[1]["wall_ns"], 0.0);
    EXPECT_EQ(replies[2]["cpu_ns"], nullptr);
    EXPECT_EQ(replies[2]["left"], 4);
}

TEST(SliceServer, ReportsErrorsAndContinues) {
    const auto replies =
            answers("run\nrun A/1 0\nrun A/1 x\nwalk\nrun broken 1\nreport\nquit\nlist\n");
    ASSERT_EQ(replies.size(), 7U);  // nothing after quit
    for (const size_t wrong : {1U, 2U, 3U, 4U}) {
        EXPECT_THAT(replies[wrong]["error"].get<std::string>(), testing::HasSubstr("expected: "));
    }
    EXPECT_EQ(replies[5]["error"], "an insert found its key");
    EXPECT_EQ(replies[6]["report"], Json({{"p50", 1}}));
}

}  // namespace
}  // namespace kv::slices
