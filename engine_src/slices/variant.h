// Variant: a child that speaks the line protocol; its answers are checked and converted.
//
// Threads: one. Errors: every function throws VariantError if the variant fails, sends an invalid
// answer, or reports that a benchmark failed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "slices/child.h"
#include "slices/plan.h"
#include "slices/slice_server.h"

namespace kv::slices {

/// A slice as the conductor records it.
struct TimedSlice : Slice {
    double wallNs{0};  ///< from the request to the answer, including the opening of a pass
};

class Variant {
  public:
    /// Starts the program.
    Variant(const VariantPlan& plan, std::chrono::nanoseconds timeout, const SignalWatch& signals);

    /// Receives its greeting.
    void meet();
    std::vector<Offer> list();
    TimedSlice run(const std::string& name, int64_t iterations);
    void report();
    /// Ends the program.
    void quit();

    void freeze();

    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    /// {"name","pid","cpus","context","report","stderr"}; null for answers that it has not given
    /// yet.
    [[nodiscard]] nlohmann::ordered_json json() const;

  private:
    /// Sends the line (thawing the program, if need be, when it can already read it).
    nlohmann::json ask(const std::string& line);
    nlohmann::json receive();

    std::string name_;
    Child child_;
    std::vector<size_t> cpus_;     ///< the CPUs that it may use
    std::string context_{"null"};  ///< JSON
    std::string report_{"null"};   ///< JSON
    bool frozen_{false};
};

}  // namespace kv::slices
