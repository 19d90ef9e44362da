#pragma once

// The servers of a run for both generators: connections, failures, CPU clocks, and the report.

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "load/core/event_loop.h"
#include "load/core/recorder.h"
#include "load/core/slice_schedule.h"
#include "load/generators/group_options.h"
#include "load/protocols/session.h"

namespace kv::load {

class Variants {
  public:
    Variants(const GroupFlags& flags, const ConnectionFlags& connection);

    std::size_t size() const noexcept { return variants_.size(); }
    const Variant& operator[](std::size_t variant) const noexcept { return variants_[variant]; }
    /// True if servers were given by --variant; otherwise there is one, and reports are those of a
    /// single server.
    bool group() const noexcept { return group_; }

    /// Runs `work` on a variant. In a group, a LoadError becomes a VariantFailure that names the
    /// variant.
    template <class Work>
    auto with(std::size_t variant, Work&& work) const {
        try {
            return work();
        } catch (const LoadError& error) {
            fail(variant, error);
        }
    }

    /// Asks the servers whose protocol is not known. Called by one thread, before others use this
    /// object.
    void detectProtocols(const std::atomic<bool>& stop);

    SliceSchedule::OpenClock openClock() const;

  private:
    [[noreturn]] void fail(std::size_t variant, const LoadError& error) const;

    std::vector<Variant> variants_;
    bool group_;
};

/// One thread's connections to one variant.
struct Connected {
    /// `sockets` become the channels; index = connection × servers of the map + server.
    Connected(std::vector<Socket> sockets, ClusterMap map, const std::atomic<bool>& stop,
              Nanos stallTimeout)
        : routes(std::move(map)), loop(channelsOf(std::move(sockets)), stop, stallTimeout) {}

    /// Runs until traffic.done(). Requests that were never answered are counted as timeouts.
    void drive(Traffic& traffic, Recorder& recorder);

    ClusterMap routes;
    EventLoop loop;

  private:
    static std::vector<std::unique_ptr<Channel>> channelsOf(std::vector<Socket> sockets);
};

/// One variant's part of a group's report.
struct VariantReport {  // NOLINT(bugprone-exception-escape): of the JSON's implicit members
    nlohmann::ordered_json report;  // as of a single server
    OpCounts warmup;
};

/// Returns the CPU time of each thread in the variant's measured slices.
std::vector<CpuTime> variantCpu(const SliceSchedule& schedule, std::size_t threads,
                                std::size_t variant);
/// Returns the CPU time of each thread in the whole measured time.
std::vector<CpuTime> wholeCpu(const SliceSchedule& schedule, std::size_t threads);

/// Adds "group" and "client" to a report. `slice` is the length of slices; `reports` has an entry
/// for each variant.
void addGroup(nlohmann::ordered_json& report, const Variants& variants,
              const SliceSchedule& schedule, std::size_t threads,
              const nlohmann::ordered_json& slice, std::uint64_t roundSeed,
              std::vector<VariantReport> reports);

/// Adds "interrupted", "failure" and "failed_variant" if they apply.
void addEnding(nlohmann::ordered_json& report, const RunResult& result);

}  // namespace kv::load
