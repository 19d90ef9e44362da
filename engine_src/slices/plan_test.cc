#include "slices/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace kv::slices {
namespace {

using namespace std::chrono_literals;

TEST(Plan, ReadsEveryKey) {
    const Plan plan = parsePlan(R"json({
        "variants": [{"name": "a", "argv": ["/bin/x", "--slices"], "env": {"B": "2", "A": "1=1"}, "cpus": [0, 3]},
                 {"name": "b", "argv": ["./x"], "env": {}, "cpus": null}],
        "filter": "HTB/(Insert|Find)", "slice_ms": 0.5, "min_seconds": 3, "min_rounds": 7, "seed": 18446744073709551615,
        "freeze": true, "timeout_s": 1.5})json");
    ASSERT_EQ(plan.variants.size(), 2U);
    EXPECT_EQ(plan.variants[0].name, "a");
    EXPECT_THAT(plan.variants[0].argv, testing::ElementsAre("/bin/x", "--slices"));
    EXPECT_THAT(plan.variants[0].env, testing::ElementsAre("A=1=1", "B=2"));
    EXPECT_EQ(plan.variants[0].cpus, (std::vector<size_t>{0, 3}));
    EXPECT_EQ(plan.variants[1].cpus, std::nullopt);
    EXPECT_EQ(plan.filter, "HTB/(Insert|Find)");
    EXPECT_EQ(plan.slice, 500us);
    EXPECT_EQ(plan.atLeast, 3s);
    EXPECT_EQ(plan.minRounds, 7U);
    EXPECT_EQ(plan.seed, UINT64_MAX);
    EXPECT_TRUE(plan.freeze);
    EXPECT_EQ(plan.timeout, 1500ms);
}

TEST(Plan, HasDefaults) {
    const Plan plan = parsePlan(R"({"variants": [{"name": "a", "argv": ["/bin/x"], "env": {}}]})");
    EXPECT_EQ(plan.slice, 2ms);
    EXPECT_EQ(plan.filter, ".");
    EXPECT_FALSE(plan.freeze);
}

struct Wrong {
    const char* text;
    const char* message;
};
class WrongPlan : public testing::TestWithParam<Wrong> {};

TEST_P(WrongPlan, IsRefusedByName) {
    try {
        parsePlan(GetParam().text);
        FAIL() << GetParam().text;
    } catch (const std::invalid_argument& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr(GetParam().message));
    }
}

#define KV_VARIANT R"({"name": "a", "argv": ["/bin/x"], "env": {}})"
INSTANTIATE_TEST_SUITE_P(
        Plans, WrongPlan,
        testing::Values(
                Wrong{"[", "plan: "}, Wrong{"[]", "expected an object"},
                Wrong{"{}", "$.variants: missing"},
                Wrong{R"({"variants": []})", "at least one variant"},
                Wrong{R"({"variants": [)" KV_VARIANT R"(], "slices": 1})", "$.slices: unknown key"},
                Wrong{R"({"variants": [)" KV_VARIANT "," KV_VARIANT "]}",
                      "$.variants[1].name: an earlier variant"},
                Wrong{R"({"variants": [)" KV_VARIANT R"json(], "filter": "(a"})json", "$.filter: "},
                Wrong{R"({"variants": [)" KV_VARIANT R"(], "slice_ms": 0})", "$.slice_ms: "},
                Wrong{R"({"variants": [)" KV_VARIANT R"(], "slice_ms": 1e300})", "$.slice_ms: "},
                Wrong{R"({"variants": [)" KV_VARIANT R"(], "min_seconds": -1})", "$.min_seconds: "},
                Wrong{R"({"variants": [)" KV_VARIANT R"(], "min_rounds": 0})", "$.min_rounds: "},
                Wrong{R"({"variants": [)" KV_VARIANT R"(], "freeze": "no"})", "$.freeze: "},
                Wrong{R"({"variants": [{"name": "a", "argv": [], "env": {}}]})",
                      "$.variants[0].argv: "},
                Wrong{R"({"variants": [{"name": "a", "argv": ["x"], "env": {}}]})",
                      "program's path"},
                Wrong{R"({"variants": [{"name": "a", "argv": ["/x"]}]})",
                      "$.variants[0].env: missing"},
                Wrong{R"({"variants": [{"name": "a", "argv": ["/x"], "env": {"A": 1}}]})", "env"},
                Wrong{R"({"variants": [{"name": "a", "argv": ["/x"], "env": {}, "cpus": []}]})",
                      "expected at least one CPU"},
                Wrong{R"({"variants": [{"name": "a", "argv": ["/x"], "env": {}, "cpus": [99999]}]})",
                      "too large"}));
#undef KV_VARIANT

}  // namespace
}  // namespace kv::slices
