#include "slices/conductor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "slices/child.h"

namespace kv::slices {
namespace {

using Json = nlohmann::json;
using testing::Each;
using testing::HasSubstr;

VariantPlan fake(const std::string& name, const std::vector<std::string>& arguments = {}) {
    VariantPlan variant{.name = name, .argv = {KV_FAKE_VARIANT}, .env = {"A=" + name}};
    variant.argv.insert(variant.argv.end(), arguments.begin(), arguments.end());
    return variant;
}

/// Returns a plan with short slices of variants "a", "b", ...
Plan shortPlan(std::vector<VariantPlan> variants, const std::string& filter = "Fake/pure") {
    Plan plan;
    plan.variants = std::move(variants);
    plan.filter = filter;
    plan.slice = std::chrono::microseconds(100);
    plan.atLeast = std::chrono::milliseconds(5);
    plan.minRounds = 12;
    plan.seed = 1;
    return plan;
}

Json conducted(const Plan& plan) {
    const Outcome outcome = conduct(plan);
    EXPECT_EQ(outcome.failure, "");
    return Json::parse(outcome.document);
}

class FakeDir {
  public:
    FakeDir() {
        std::string name = (std::filesystem::temp_directory_path() / "slices_test.XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) {
            throw std::runtime_error("no directory");
        }
        path_ = name;
    }
    FakeDir(const FakeDir&) = delete;
    FakeDir& operator=(const FakeDir&) = delete;
    ~FakeDir() { std::filesystem::remove_all(path_); }
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    [[nodiscard]] std::vector<pid_t> pids() const {
        std::vector<pid_t> all;
        for (const auto& entry : std::filesystem::directory_iterator(path_)) {
            all.push_back(std::stoi(entry.path().filename()));
        }
        return all;
    }

  private:
    std::filesystem::path path_;
};

std::vector<int64_t> numbers(const Json& array) {
    return array.get<std::vector<int64_t>>();
}

TEST(Conductor, VisitsTheVariantsInARandomOrderEachRound) {
    const Json document = conducted(shortPlan({fake("a"), fake("b"), fake("c")}));
    ASSERT_EQ(document["benchmarks"].size(), 1U);
    const Json& benchmark = document["benchmarks"][0];
    EXPECT_EQ(benchmark["name"], "Fake/pure");
    const auto rounds = benchmark["rounds"].get<size_t>();
    EXPECT_GE(rounds, 12U);
    EXPECT_GE(benchmark["warm_up"], 1);
    std::set<std::vector<int64_t>> orders;
    for (size_t round = 0; round < rounds; ++round) {
        std::vector<int64_t> order;
        for (const Json& variant : benchmark["variants"]) {
            order.push_back(variant["position"][round]);
        }
        orders.insert(order);
        EXPECT_TRUE(std::is_permutation(order.begin(), order.end(),
                                        std::array<int64_t, 3>{0, 1, 2}.begin()));
    }
    EXPECT_GE(orders.size(), 3U);
    for (const Json& variant : benchmark["variants"]) {
        for (const char* column : {"iterations", "real_ns", "cpu_ns", "wall_ns", "setup_ns"}) {
            EXPECT_EQ(variant[column].size(), rounds) << column;
        }
        EXPECT_EQ(variant["counters"]["peers"].size(), rounds);
        EXPECT_THAT(numbers(variant["real_ns"]), Each(testing::Ge(10'000)));
    }
    for (const Json& variant : document["variants"]) {
        EXPECT_EQ(variant["context"], Json({{"env.A", variant["name"]}}));  // nothing is inherited
        EXPECT_GE(variant["report"]["runs"], rounds);
        EXPECT_EQ(kill(variant["pid"].get<pid_t>(), 0), -1);
    }
}

TEST(Conductor, ASeedGivesTheSameOrders) {
    const auto orders = [](uint64_t seed) {
        Plan plan = shortPlan({fake("a"), fake("b"), fake("c")});
        plan.seed = seed;
        const Json document = conducted(plan);
        std::vector<std::vector<int64_t>> all;
        for (const Json& variant : document["benchmarks"][0]["variants"]) {
            all.push_back(numbers(variant["position"]));
            all.back().resize(12);
        }
        return all;
    };
    const auto first = orders(7);
    EXPECT_EQ(first, orders(7));
    EXPECT_NE(first, orders(8));
}

TEST(Conductor, APassIsRunWholeAndInStep) {
    const Json document = conducted(shortPlan({fake("a"), fake("b")}, "Fake/pass"));
    const Json& variants = document["benchmarks"][0]["variants"];
    const auto iterations = numbers(variants[0]["iterations"]);
    EXPECT_EQ(iterations, numbers(variants[1]["iterations"]));
    EXPECT_EQ(std::accumulate(iterations.begin(), iterations.end(), int64_t{0}) % 60, 0);
    int64_t done = 0;
    for (const int64_t slice : iterations) {
        done += slice;
        EXPECT_LE(done, 60) << "over the end of a pass";
        done %= 60;
    }
    EXPECT_EQ(document["benchmarks"][0]["pass"], 60);
}

TEST(Conductor, ASinglePassIsRecordedFromItsFirstSlice) {
    const Json document = conducted(shortPlan({fake("a"), fake("b")}, "Fake/once"));
    const Json& benchmark = document["benchmarks"][0];
    EXPECT_EQ(benchmark["warm_up"], 0);
    for (const Json& variant : benchmark["variants"]) {
        const auto iterations = numbers(variant["iterations"]);
        EXPECT_EQ(std::accumulate(iterations.begin(), iterations.end(), int64_t{0}), 90);
        EXPECT_THAT(iterations, Each(testing::AllOf(testing::Ge(18), testing::Le(23))))
                << "of the size that it asks for, shared evenly";
        EXPECT_EQ(variant["cpu_ns"], nullptr);
    }
}

TEST(Conductor, RunsTheBenchmarksThatMatchTheFilter) {
    const auto names = [](const std::string& filter) {
        const Json document = conducted(shortPlan({fake("a")}, filter));
        std::vector<std::string> all;
        for (const Json& benchmark : document["benchmarks"]) {
            all.push_back(benchmark["name"]);
        }
        return all;
    };
    EXPECT_THAT(names("."), testing::ElementsAre("Fake/pure", "Fake/pass", "Fake/once"));
    EXPECT_THAT(names("real_time|iterations"), testing::ElementsAre("Fake/pure", "Fake/pass"));
    EXPECT_THAT(names("-pa"), testing::ElementsAre("Fake/pure", "Fake/once"));
    const Outcome none = conduct(shortPlan({fake("a")}, "Flake"));
    EXPECT_THAT(none.failure, HasSubstr("has no benchmark that matches Flake; it has Fake/pure/"));
}

TEST(Conductor, VariantsOutsideTheirTurnAreStopped) {
    for (const bool freeze : {true, false}) {
        const FakeDir dir;
        Plan plan = shortPlan({fake("a"), fake("b"), fake("c")}, ".");
        plan.freeze = freeze;
        for (VariantPlan& variant : plan.variants) {
            variant.env.push_back("FAKE_DIR=" + dir.path().string());
        }
        const Json document = conducted(plan);
        for (const Json& benchmark : document["benchmarks"]) {
            for (const Json& variant : benchmark["variants"]) {
                EXPECT_THAT(numbers(variant["counters"]["peers"]), Each(2));
                EXPECT_THAT(numbers(variant["counters"]["stopped"]), Each(freeze ? 2 : 0));
            }
        }
    }
}

TEST(Conductor, PinsAVariantAndReportsItsCpus) {
    cpu_set_t own;
    ASSERT_EQ(sched_getaffinity(0, sizeof own, &own), 0);
    std::vector<size_t> cpus;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &own)) {
            cpus.push_back(cpu);
        }
    }
    Plan plan = shortPlan({fake("pinned"), fake("free")});
    plan.variants[0].cpus = {cpus.back()};
    const Json document = conducted(plan);
    EXPECT_EQ(document["variants"][0]["cpus"], Json({cpus.back()}));
    EXPECT_EQ(document["variants"][1]["cpus"], Json(cpus));
}

struct Misdeed {
    const char* name;
    const char* at;
    const char* message;
};
class FailingVariant : public testing::TestWithParam<Misdeed> {};

TEST_P(FailingVariant, EndsAllAndIsNamed) {
    const FakeDir dir;
    Plan plan =
            shortPlan({fake("good"), fake("bad", {GetParam().name, GetParam().at})}, "Fake/pass");
    plan.variants[0].env.push_back("FAKE_DIR=" + dir.path().string());
    plan.variants[1].env.push_back("FAKE_DIR=" + dir.path().string());
    for (const bool freeze : {false, true}) {
        plan.freeze = freeze;
        const Outcome outcome = conduct(plan);
        const Json document = Json::parse(outcome.document);
        EXPECT_THAT(outcome.failure, HasSubstr(GetParam().message));
        EXPECT_EQ(document["failure"], outcome.failure);
        EXPECT_EQ(document["failed_variant"], "bad");
        ASSERT_EQ(document["variants"].size(), 2U);
        EXPECT_EQ(document["variants"][0]["stderr"], "");
        if (GetParam().name == std::string("die")) {
            EXPECT_EQ(document["variants"][1]["stderr"], "fake_variant: no more of this\n");
        }
    }
    for (const pid_t pid : dir.pids()) {
        EXPECT_EQ(kill(pid, 0), -1) << "a variant is left";
        EXPECT_EQ(errno, ESRCH);
    }
}

INSTANTIATE_TEST_SUITE_P(
        Misdeeds, FailingVariant,
        testing::Values(Misdeed{"die", "3", "ended with status 3"},
                        Misdeed{"die", "0", "ended with status 3"},
                        Misdeed{"kill", "3", "was killed by signal 9"},
                        Misdeed{"rubbish", "3", "an invalid answer: Segmentation fault"},
                        Misdeed{"wrong-name", "3", "it ran \"Fake/other\""},
                        Misdeed{"chatter", "3", "no answer to a run of Fake/pass"},
                        Misdeed{"fail", "3", "an insert found its key"},
                        Misdeed{"out-of-step", "3", "is out of step in Fake/pass"}),
        [](const auto& misdeed) {
            std::string name = std::string(misdeed.param.name) + misdeed.param.at;
            std::erase(name, '-');
            return name;
        });

TEST(Conductor, DoesNotWaitIndefinitely) {
    Plan plan = shortPlan({fake("bad", {"silence", "2"})});
    plan.timeout = std::chrono::seconds(1);
    EXPECT_THAT(conduct(plan).failure, HasSubstr("did not answer for 1.0"));
}

TEST(Conductor, ReportsWhyAVariantCannotBeStarted) {
    Plan plan = shortPlan({fake("good"), fake("bad")});
    plan.variants[1].argv[0] = "/there/is/no/such/program";
    const Outcome outcome = conduct(plan);
    EXPECT_THAT(outcome.failure, HasSubstr("could not be executed: No such file"));
    EXPECT_EQ(Json::parse(outcome.document)["failed_variant"], "bad");
}

/// The conductor program, with endless rounds.
class EndlessConductor {
  public:
    /// `silent`: the second variant does not even send its greeting.
    explicit EndlessConductor(bool freeze, bool silent) {
        Json variants = Json::array();
        for (const char* name : {"a", "b"}) {
            variants.push_back({{"name", name},
                                {"argv", Json::array({KV_FAKE_VARIANT})},
                                {"env", Json{{"FAKE_DIR", dir_.path().string()}}}});
        }
        if (silent) {
            variants[1]["argv"] = Json::array({KV_FAKE_VARIANT, "silence", "0"});
        }
        std::ofstream(file_) << Json{{"variants", variants},
                                     {"filter", "Fake/pure"},
                                     {"min_seconds", 3600},
                                     {"timeout_s", 3600},
                                     {"freeze", freeze}};
        child_.emplace(VariantPlan{.name = "conductor", .argv = {KV_CONDUCTOR, file_}, .env = {}},
                       std::chrono::seconds(60), signals_);
        while (dir_.pids().size() < 2) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            siginfo_t end{};
            waitid(P_PID, static_cast<id_t>(child_->pid()), &end, WEXITED | WNOHANG | WNOWAIT);
            if (end.si_pid != 0) {
                throw std::runtime_error("the conductor has ended: " + child_->stderrText());
            }
        }
    }
    EndlessConductor(const EndlessConductor&) = delete;
    EndlessConductor& operator=(const EndlessConductor&) = delete;
    ~EndlessConductor() { std::filesystem::remove(file_); }

    Child& child() { return *child_; }
    [[nodiscard]] std::vector<pid_t> variants() const { return dir_.pids(); }

  private:
    FakeDir dir_;
    std::string file_{dir_.path().string() + ".json"};
    SignalWatch signals_;
    std::optional<Child> child_;
};

/// Waits for its end and returns the signal that killed it, or 0.
int endOfOrphan(pid_t pid) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(ConductorProgram, LeavesNothingBehindWhenItIsKilled) {
    ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // this process adopts orphans
    for (const bool freeze : {false, true}) {
        EndlessConductor conductor(freeze, true);
        kill(conductor.child().pid(), SIGKILL);
        EXPECT_THROW(conductor.child().receive(), VariantError);
        std::vector<int> ends;
        for (const pid_t pid : conductor.variants()) {
            ends.push_back(endOfOrphan(pid));
        }
        // One of them neither reads nor writes. The other may have found its pipes closed before.
        EXPECT_THAT(ends, testing::Contains(SIGKILL));
    }
}

TEST(ConductorProgram, ASignalEndsAllAndIsReported) {
    EndlessConductor conductor(true, false);
    kill(conductor.child().pid(), SIGTERM);
    const Json document = Json::parse(conductor.child().receive());
    EXPECT_EQ(document["failure"], "interrupted by signal 15");
    EXPECT_EQ(document["failed_variant"], nullptr);
    try {
        conductor.child().expectEnd();
        FAIL() << "its status was 0";
    } catch (const VariantError& error) {
        EXPECT_STREQ(error.what(), "ended with status 143");
    }
    for (const pid_t pid : conductor.variants()) {
        EXPECT_EQ(kill(pid, 0), -1);
    }
}

TEST(ConductorProgram, RefusesAPlanItDoesNotUnderstand) {
    const FakeDir dir;
    const std::string file = dir.path() / "plan.json";
    std::ofstream(file) << R"({"variants": []})";
    const SignalWatch signals;
    for (const auto& arguments : {std::vector<std::string>{file}, {file + "x"}, {}}) {
        VariantPlan plan{.name = "conductor", .argv = {KV_CONDUCTOR}, .env = {}};
        plan.argv.insert(plan.argv.end(), arguments.begin(), arguments.end());
        Child child(plan, std::chrono::seconds(60), signals);
        try {
            child.receive();
            FAIL() << "it wrote to stdout";
        } catch (const VariantError& error) {
            EXPECT_STREQ(error.what(), "ended with status 2");
            EXPECT_THAT(child.stderrText(), testing::MatchesRegex("(conductor|usage): .*\n"));
        }
    }
}

}  // namespace
}  // namespace kv::slices
