// What a conductor is told to do: one JSON document (README.md lists its keys).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kv::slices {

struct ArmPlan {
    std::string name;
    std::vector<std::string> argv;  ///< argv[0] is the program's path
    std::vector<std::string> env;   ///< "NAME=value": the whole environment, nothing is inherited
    std::optional<std::vector<size_t>> cpus{};  ///< empty: the conductor's own
};

struct Plan {
    std::vector<ArmPlan> arms;  ///< in the order in which they are started
    std::string filter{"."};    ///< POSIX extended regular expression; "-..." takes the others
    std::chrono::nanoseconds slice{std::chrono::milliseconds(2)};
    std::chrono::nanoseconds atLeast{std::chrono::seconds(1)};  ///< per benchmark and arm
    size_t minRounds{1};                                        ///< per benchmark
    uint64_t seed{0};                                           ///< of the orders within the rounds
    bool freeze{false};  ///< an arm that is not in turn is stopped
    std::chrono::nanoseconds timeout{std::chrono::seconds(60)};  ///< for an answer
};

/// Throws std::invalid_argument that says which key is wrong, and why; unknown keys are wrong.
Plan parsePlan(const std::string& text);

}  // namespace kv::slices
