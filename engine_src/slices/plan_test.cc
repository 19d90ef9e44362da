#include "slices/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace kv::slices {
namespace {

using namespace std::chrono_literals;

TEST(Plan, ReadsEveryKey) {
    const Plan plan = parsePlan(R"json({
        "arms": [{"name": "a", "argv": ["/bin/x", "--slices"], "env": {"B": "2", "A": "1=1"}, "cpus": [0, 3]},
                 {"name": "b", "argv": ["./x"], "env": {}, "cpus": null}],
        "filter": "HTB/(Insert|Find)", "slice_ms": 0.5, "min_seconds": 3, "min_rounds": 7, "seed": 18446744073709551615,
        "freeze": true, "timeout_s": 1.5})json");
    ASSERT_EQ(plan.arms.size(), 2U);
    EXPECT_EQ(plan.arms[0].name, "a");
    EXPECT_THAT(plan.arms[0].argv, testing::ElementsAre("/bin/x", "--slices"));
    EXPECT_THAT(plan.arms[0].env, testing::ElementsAre("A=1=1", "B=2"));
    EXPECT_EQ(plan.arms[0].cpus, (std::vector<size_t>{0, 3}));
    EXPECT_EQ(plan.arms[1].cpus, std::nullopt);
    EXPECT_EQ(plan.filter, "HTB/(Insert|Find)");
    EXPECT_EQ(plan.slice, 500us);
    EXPECT_EQ(plan.atLeast, 3s);
    EXPECT_EQ(plan.minRounds, 7U);
    EXPECT_EQ(plan.seed, UINT64_MAX);
    EXPECT_TRUE(plan.freeze);
    EXPECT_EQ(plan.timeout, 1500ms);
}

TEST(Plan, HasDefaults) {
    const Plan plan = parsePlan(R"({"arms": [{"name": "a", "argv": ["/bin/x"], "env": {}}]})");
    EXPECT_EQ(plan.slice, 2ms);
    EXPECT_EQ(plan.filter, ".");
    EXPECT_FALSE(plan.freeze);
}

struct Wrong {
    const char* text;
    const char* said;
};
class WrongPlan : public testing::TestWithParam<Wrong> {};

TEST_P(WrongPlan, IsRefusedByName) {
    try {
        parsePlan(GetParam().text);
        FAIL() << GetParam().text;
    } catch (const std::invalid_argument& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr(GetParam().said));
    }
}

#define KV_ARM R"({"name": "a", "argv": ["/bin/x"], "env": {}})"
INSTANTIATE_TEST_SUITE_P(
        Plans, WrongPlan,
        testing::Values(
                Wrong{"[", "plan: "}, Wrong{"[]", "expected an object"},
                Wrong{"{}", "$.arms: missing"}, Wrong{R"({"arms": []})", "at least one arm"},
                Wrong{R"({"arms": [)" KV_ARM R"(], "slices": 1})",
                      "$.slices: there is no such key"},
                Wrong{R"({"arms": [)" KV_ARM "," KV_ARM "]}", "$.arms[1].name: an arm before"},
                Wrong{R"({"arms": [)" KV_ARM R"json(], "filter": "(a"})json", "$.filter: "},
                Wrong{R"({"arms": [)" KV_ARM R"(], "slice_ms": 0})", "$.slice_ms: "},
                Wrong{R"({"arms": [)" KV_ARM R"(], "slice_ms": 1e300})", "$.slice_ms: "},
                Wrong{R"({"arms": [)" KV_ARM R"(], "min_seconds": -1})", "$.min_seconds: "},
                Wrong{R"({"arms": [)" KV_ARM R"(], "min_rounds": 0})", "$.min_rounds: "},
                Wrong{R"({"arms": [)" KV_ARM R"(], "freeze": "no"})", "$.freeze: "},
                Wrong{R"({"arms": [{"name": "a", "argv": [], "env": {}}]})", "$.arms[0].argv: "},
                Wrong{R"({"arms": [{"name": "a", "argv": ["x"], "env": {}}]})", "program's path"},
                Wrong{R"({"arms": [{"name": "a", "argv": ["/x"]}]})", "$.arms[0].env: missing"},
                Wrong{R"({"arms": [{"name": "a", "argv": ["/x"], "env": {"A": 1}}]})", "env"},
                Wrong{R"({"arms": [{"name": "a", "argv": ["/x"], "env": {}, "cpus": []}]})",
                      "no CPU at all"},
                Wrong{R"({"arms": [{"name": "a", "argv": ["/x"], "env": {}, "cpus": [99999]}]})",
                      "too large"}));
#undef KV_ARM

}  // namespace
}  // namespace kv::slices
