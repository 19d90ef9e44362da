#include "benchmarks/benchmark_source.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "benchmarks/build_context.h"
#include "benchmarks/pass.h"
#include "benchmarks/registry.h"

namespace kv::bench {

namespace {

using slices::Offer;
using slices::Slice;

constexpr std::string_view kIterations = "iterations:";
constexpr std::string_view kManual = "manual_time";

/// Stores the one run that is reported to it.
class OneRun final : public benchmark::BenchmarkReporter {
  public:
    bool ReportContext(const Context& /*context*/) override { return true; }
    void ReportRuns(const std::vector<Run>& runs) override {
        runs_.insert(runs_.end(), runs.begin(), runs.end());
    }
    [[nodiscard]] const Run& run(const std::string& name) const {
        if (runs_.size() != 1) {
            throw std::logic_error(name + " ran " + std::to_string(runs_.size()) + " times");
        }
        return runs_.front();
    }

  private:
    std::vector<Run> runs_;
};

/// Returns why a benchmark has no figures; nothing if it has some. The library renamed this in 1.8.
template <class Run>
std::optional<std::string> whyWithoutFigures(const Run& run) {
    if constexpr (requires { run.error_occurred; }) {
        return run.error_occurred ? std::optional(run.error_message) : std::nullopt;
    } else {
        const bool ran = run.skipped == decltype(run.skipped){};
        return ran ? std::nullopt : std::optional(run.skip_message);
    }
}

/// The library's flags can only be set by its command line.
void setFlag(std::string flag) {
    std::string program = "slices";
    std::array<char*, 3> argv{program.data(), flag.data(), nullptr};
    int argc = 2;
    benchmark::Initialize(&argc, argv.data());
}

/// Returns the full names, including the library's bookkeeping.
std::vector<std::string> listAll() {
    setFlag("--benchmark_list_tests=true");
    OneRun reporter;
    std::stringstream names;
    reporter.SetOutputStream(&names);
    benchmark::RunSpecifiedBenchmarks(&reporter, ".");
    setFlag("--benchmark_list_tests=false");
    std::vector<std::string> all;
    for (std::string name; std::getline(names, name);) {
        all.push_back(name);
    }
    return all;
}

/// Returns the parts of `full` between slashes, without its family: "iterations:9", "real_time",
/// "threads:2".
std::vector<std::string> extras(const std::string& full, const std::string& family) {
    std::vector<std::string> parts;
    std::istringstream rest(full.substr(std::min(full.size(), family.size() + 1)));
    for (std::string part; std::getline(rest, part, '/');) {
        parts.push_back(part);
    }
    return parts;
}

bool isBookkeeping(std::string_view part) {
    return part.starts_with(kIterations) || part.starts_with("repeats:") || part == "real_time" ||
           part == "process_time" || part == kManual;
}

/// Returns the family's name and the part that distinguishes its benchmarks.
std::string plainName(const std::string& full, const std::string& family) {
    std::string name = family;
    for (const std::string& part : extras(full, family)) {
        if (!isBookkeeping(part)) {
            name += "/" + part;
        }
    }
    return name;
}

/// Returns the registration whose name begins `full`; the name of one family may begin that of
/// another.
const Registered& familyOf(const std::string& full) {
    const Registered* found = nullptr;
    for (const Registered& each : registered()) {
        const bool begins = full == each.family || full.starts_with(each.family + "/");
        if (begins && (found == nullptr || each.family.size() > found->family.size())) {
            found = &each;
        }
    }
    if (found == nullptr) {
        throw std::logic_error(full + " was not registered by kv::bench::add");
    }
    return *found;
}

struct Known {
    Offer offer;
    const Registered* family;
};

/// Computed once: registration is over when main() runs.
const std::vector<Known>& known() {
    static const std::vector<Known> kAll = [] {
        std::vector<Known> all;
        for (const std::string& full : listAll()) {
            const Registered& family = familyOf(full);
            all.push_back(
                    {{.name = plainName(full, family.family), .full = full, .pass = family.pass},
                     &family});
        }
        return all;
    }();
    return kAll;
}

const Known& find(const std::string& name) {
    const auto& all = known();
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const Known& each) { return each.offer.name == name; });
    if (found == all.end()) {
        throw std::invalid_argument("there is no benchmark " + name);
    }
    return *found;
}

/// Returns a regular expression that matches only this text.
std::string exactly(const std::string& text) {
    std::string expression = "^";
    for (const char c : text) {
        if (std::string_view(R"(.[]{}()\*+?|^$)").find(c) != std::string_view::npos) {
            expression += '\\';
        }
        expression += c;
    }
    return expression + "$";
}

/// Returns the library's name of a benchmark whose family has this number of iterations.
std::string fullName(const Known& benchmark, int64_t iterations) {
    const std::string& family = benchmark.family->family;
    std::string name = family + "/" + std::string(kIterations) + std::to_string(iterations);
    for (const std::string& part : extras(benchmark.offer.full, family)) {
        if (!part.starts_with(kIterations)) {
            name += "/" + part;
        }
    }
    return name;
}

}  // namespace

std::vector<Registered>& registered() {
    static std::vector<Registered> all;
    return all;
}

std::vector<std::pair<std::string, std::string>> BenchmarkSource::context() {
    return buildContext();
}

std::vector<Offer> BenchmarkSource::offers() {
    std::vector<Offer> offers;
    for (const Known& each : known()) {
        offers.push_back(each.offer);
    }
    return offers;
}

Slice BenchmarkSource::run(const std::string& name, int64_t iterations) {
    const Known& benchmark = find(name);
    Pass& pass = Pass::current();
    if (name != name_) {
        pass.close();
        name_ = name;
    }
    const auto length = benchmark.offer.pass;
    if (length && iterations > pass.left().value_or(*length)) {
        throw std::invalid_argument(name + " has " + std::to_string(pass.left().value_or(*length)) +
                                    " iterations left");
    }
    benchmark.family->benchmark->Iterations(iterations);
    OneRun reporter;
    benchmark::RunSpecifiedBenchmarks(&reporter, exactly(fullName(benchmark, iterations)));
    const auto& run = reporter.run(name);
    if (const auto why = whyWithoutFigures(run)) {
        throw std::runtime_error(name + ": " + *why);
    }
    Slice slice{.iterations = run.iterations, .realNs = run.real_accumulated_time * 1e9};
    // Timed manually: the library counts the CPU time of the whole loop, including set-up.
    if (run.run_name.time_type != kManual) {
        slice.cpuNs = run.cpu_accumulated_time * 1e9;
    }
    slice.setupNs = static_cast<double>(pass.takeSetup().count());
    if (length) {
        slice.left = pass.left().value_or(0);
    }
    for (const auto& [counter, value] : run.counters) {
        slice.counters[counter] = value.value;
    }
    return slice;
}

}  // namespace kv::bench
