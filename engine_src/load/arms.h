#pragma once

// The servers of a run as both generators need them: who failed, their CPU clocks, the report.

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "load/ensemble_options.h"
#include "load/event_loop.h"
#include "load/recorder.h"
#include "load/request_writer.h"
#include "load/session.h"
#include "load/turns.h"

namespace kv::load {

class Arms {
  public:
    Arms(const EnsembleFlags& flags, const ConnectionFlags& connection);

    std::size_t size() const noexcept { return arms_.size(); }
    const Arm& operator[](std::size_t arm) const noexcept { return arms_[arm]; }
    /// Servers given by --arm; otherwise there is one, and reports are those of a single server.
    bool ensemble() const noexcept { return ensemble_; }

    /// Does something with an arm: of an ensemble, a LoadError becomes an ArmFailure that names it.
    template <class Work>
    auto with(std::size_t arm, Work&& work) const {
        try {
            return work();
        } catch (const LoadError& error) {
            fail(arm, error);
        }
    }

    Turns::OpenClock openClock() const;

  private:
    [[noreturn]] void fail(std::size_t arm, const LoadError& error) const;

    std::vector<Arm> arms_;
    bool ensemble_;
};

/// One thread's connections to one arm.
struct Connected {
    /// `sessions` become the channels; index = connection × servers + server.
    Connected(const RequestWriter& writer, ClusterSessions sessions, const std::atomic<bool>& stop,
              Nanos stallTimeout)
        : requests(writer),
          routes(std::move(sessions.map)),
          loop(channelsOf(std::move(sessions.sessions)), stop, stallTimeout) {}

    /// Until traffic.done(). Requests that were never answered are counted as timeouts.
    void drive(Traffic& traffic, Recorder& recorder);

    RequestWriter requests;
    ClusterMap routes;
    EventLoop loop;

  private:
    static std::vector<std::unique_ptr<Channel>> channelsOf(std::vector<Session> sessions);
};

/// One arm's part of an ensemble's report.
struct ArmReport {  // NOLINT(bugprone-exception-escape): of the JSON's implicit members
    nlohmann::ordered_json report;  // as of a single server
    Tally warmup;
};

/// CPU of each thread in the arm's measured slices.
std::vector<CpuTime> armCpu(const Turns& turns, std::size_t threads, std::size_t arm);
/// CPU of each thread in all the measured time.
std::vector<CpuTime> wholeCpu(const Turns& turns, std::size_t threads);

/// Adds "ensemble" and "client" to a report. `slice` says how long slices are; `reports` has an
/// entry for each arm.
void addEnsemble(nlohmann::ordered_json& report, const Arms& arms, const Turns& turns,
                 std::size_t threads, const nlohmann::ordered_json& slice, std::uint64_t roundSeed,
                 std::vector<ArmReport> reports);

/// Adds "interrupted", "failure" and "failed_arm" where they apply.
void addEnding(nlohmann::ordered_json& report, const CrewResult& result);

}  // namespace kv::load
