// A variant for the conductor's tests: three benchmarks that only wait, and every kind of failure.
//
//   fake_variant [MISDEED AT]   fails at the AT-th run (from 1), or at the greeting (0), by: die,
//                               kill, rubbish, silence, fail, wrong-name, out-of-step, chatter
//
// If FAKE_DIR is set, it creates a file named by its pid there. Each run counts the other programs
// that did so (counter "peers"), and how many of them are stopped ("stopped").
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>

#include "slices/slice_server.h"

namespace {

using namespace kv::slices;
using Clock = std::chrono::steady_clock;

constexpr auto kIteration = std::chrono::microseconds(10);

/// Field 3 of /proc/PID/stat.
char stateOf(const std::string& pid) {
    std::ifstream file("/proc/" + pid + "/stat");
    std::string text;
    std::getline(file, text);
    const size_t name = text.rfind(") ");
    return name == std::string::npos ? '?' : text[name + 2];
}

class FakeSource final : public SliceSource {
  public:
    FakeSource(std::string misdeed, long at) : misdeed_(std::move(misdeed)), at_(at) {
        const char* dir = std::getenv("FAKE_DIR");  // NOLINT(concurrency-mt-unsafe): one thread
        if (dir != nullptr) {
            dir_ = dir;
            std::ofstream(dir_ / std::to_string(getpid())) << "here\n";
        }
        misbehave();
    }

    std::vector<std::pair<std::string, std::string>> context() override {
        std::vector<std::pair<std::string, std::string>> variables;
        for (char** entry = environ; *entry != nullptr; ++entry) {
            const std::string variable = *entry;
            const size_t equals = variable.find('=');
            variables.emplace_back("env." + variable.substr(0, equals),
                                   variable.substr(equals + 1));
        }
        return variables;
    }
    std::vector<Offer> offers() override {
        return {{.name = "Fake/pure", .full = "Fake/pure/real_time"},
                {.name = "Fake/pass", .full = "Fake/pass/iterations:60", .pass = 60},
                {.name = "Fake/once", .full = "Fake/once", .pass = 90, .once = true, .step = 20}};
    }
    Slice run(const std::string& name, int64_t iterations) override {
        ++runs_;
        misbehave();
        int64_t pass = 0;
        for (const Offer& offer : offers()) {
            pass = offer.name == name ? offer.pass.value_or(0) : pass;
        }
        if (name != name_ || left_ == 0) {
            name_ = name;
            left_ = pass;
        }
        if (pass != 0 && iterations > left_) {
            throw std::invalid_argument("past the end of the pass");
        }
        const auto start = Clock::now();
        while (Clock::now() < start + kIteration * iterations) {
        }
        const double ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
        left_ -= pass == 0 ? 0 : iterations;
        const bool drop = misdeed_ == "out-of-step" && runs_ >= at_ && left_ > 1;
        return {.iterations = iterations,
                .realNs = ns,
                .cpuNs = name == "Fake/once" ? std::nullopt : std::optional(ns / 2),
                .left = pass == 0 ? std::nullopt : std::optional(left_ - (drop ? 1 : 0)),
                .counters = look()};
    }
    std::string report() override { return R"({"runs": )" + std::to_string(runs_) + "}"; }

  private:
    std::map<std::string, double> look() const {
        double peers = 0;
        double stopped = 0;
        if (!dir_.empty()) {
            for (const auto& entry : std::filesystem::directory_iterator(dir_)) {
                const auto pid = entry.path().filename().string();
                if (pid != std::to_string(getpid())) {
                    ++peers;
                    stopped += stateOf(pid) == 'T' ? 1 : 0;
                }
            }
        }
        return {{"peers", peers}, {"stopped", stopped}};
    }

    void misbehave() {
        if (runs_ != at_) {
            return;
        }
        if (misdeed_ == "die") {
            std::cerr << "fake_variant: no more of this\n";
            std::exit(3);  // NOLINT(concurrency-mt-unsafe): one thread
        } else if (misdeed_ == "kill") {
            kill(getpid(), SIGKILL);
        } else if (misdeed_ == "rubbish") {
            std::cout << "Segmentation fault (core dumped)" << std::endl;
        } else if (misdeed_ == "wrong-name") {
            std::cout << R"({"name": "Fake/other"})" << std::endl;
        } else if (misdeed_ == "chatter") {
            std::cout << R"({"name": "Fake/pure", "iterations": 0})" << std::endl;
        } else if (misdeed_ == "silence") {
            for (;;) {
                std::this_thread::sleep_for(std::chrono::hours(1));
            }
        } else if (misdeed_ == "fail") {
            throw std::runtime_error("an insert found its key");
        }
    }

    std::string misdeed_;
    long at_;
    long runs_{0};
    std::filesystem::path dir_;
    std::string name_;
    int64_t left_{0};
};

}  // namespace

int main(int argc, char** argv) try {
    FakeSource source(argc > 1 ? argv[1] : "", argc > 2 ? std::stol(argv[2]) : -1);
    return serveSlices(source, std::cin, std::cout);
} catch (const std::exception& error) {
    std::fprintf(stderr, "fake_variant: %s\n", error.what());
    return 2;
}
