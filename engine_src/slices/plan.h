// The plan of a conductor: one JSON document (README.md lists its keys). Filter: its selection of
// benchmarks.
#pragma once

#include <regex.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kv::slices {

struct VariantPlan {
    std::string name;
    std::vector<std::string> argv;  ///< argv[0] is the program's path
    std::vector<std::string> env;   ///< "NAME=value": the whole environment; nothing is inherited
    std::optional<std::vector<size_t>> cpus{};  ///< empty: the conductor's CPUs
};

struct Plan {
    std::vector<VariantPlan> variants;  ///< in the order in which they are started
    std::string filter{"."};  ///< POSIX extended regular expression; "-..." selects the others
    std::chrono::nanoseconds slice{std::chrono::milliseconds(2)};
    std::chrono::nanoseconds atLeast{std::chrono::seconds(1)};  ///< per benchmark and variant
    size_t minRounds{1};                                        ///< per benchmark
    uint64_t seed{0};                                           ///< of the orders within rounds
    bool freeze{false};  ///< stop a variant while another one has its slice
    std::chrono::nanoseconds timeout{std::chrono::seconds(60)};  ///< for an answer
};

/// Throws std::invalid_argument that names the wrong key and the reason; unknown keys are wrong.
Plan parsePlan(const std::string& text);

/// Selects benchmarks by a POSIX extended regular expression, like Google Benchmark's filter.
class Filter {
  public:
    /// "-..." selects those that do not match. Throws std::invalid_argument.
    explicit Filter(const std::string& expression);
    /// Returns true if the expression matches anywhere in `full`.
    [[nodiscard]] bool takes(const std::string& full) const;

  private:
    // Not std::regex: that of gcc 12 does not compile without warnings under a sanitizer.
    struct Free {
        void operator()(regex_t* regex) const;
    };
    bool negative_;
    std::unique_ptr<regex_t, Free> regex_;
};

}  // namespace kv::slices
