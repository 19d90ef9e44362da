// Arm: a child that speaks the line protocol, its answers checked and typed.
//
// Threads: one. Every function throws ArmError when the arm fails, says rubbish, or says that a
// benchmark failed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "slices/child.h"
#include "slices/plan.h"
#include "slices/slice_server.h"

namespace kv::slices {

/// A slice as the conductor gets it.
struct TimedSlice : Slice {
    double wallNs{0};  ///< from the order to the answer, opening a pass included
};

class Arm {
  public:
    /// Starts the program.
    Arm(const ArmPlan& plan, std::chrono::nanoseconds timeout, const SignalWatch& signals);

    /// Takes its greeting.
    void meet();
    std::vector<Offer> list();
    TimedSlice run(const std::string& name, int64_t iterations);
    void report();
    /// Ends the program.
    void quit();

    void freeze();

    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    /// {"name","pid","cpus","context","report","stderr"}; null is what it has not said yet.
    [[nodiscard]] nlohmann::ordered_json json() const;

  private:
    /// Sends the line (thawing the program, if need be, when it can already read it).
    nlohmann::json ask(const std::string& line);
    nlohmann::json receive();

    std::string name_;
    Child child_;
    std::vector<size_t> cpus_;     ///< that it may use
    std::string context_{"null"};  ///< JSON
    std::string report_{"null"};   ///< JSON
    bool frozen_{false};
};

}  // namespace kv::slices
