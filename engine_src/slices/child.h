// Child: the process of a variant's program. It is started with exactly its environment, pinned, in
// its own process group; it is driven by lines, frozen and thawed.
//
// Ownership: the process does not outlive its object, nor (by PR_SET_PDEATHSIG) the thread that
// started it. Threads: one, the same for its whole life. Errors: every function throws VariantError
// when the program has ended, and Interrupted when SIGINT or SIGTERM came during a wait.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "slices/plan.h"
#include "types/fd.h"

namespace kv::slices {

/// A variant died, was silent for too long, or sent an invalid answer.
class VariantError : public std::runtime_error {
  public:
    VariantError(std::string variant, const std::string& what)
        : std::runtime_error(what), variant_(std::move(variant)) {}
    [[nodiscard]] const std::string& variant() const noexcept { return variant_; }

  private:
    std::string variant_;
};

/// SIGINT or SIGTERM came.
class Interrupted : public std::runtime_error {
  public:
    explicit Interrupted(int signal)
        : std::runtime_error("interrupted by signal " + std::to_string(signal)), signal_(signal) {}
    [[nodiscard]] int signal() const noexcept { return signal_; }

  private:
    int signal_;
};

/// Blocks SIGINT and SIGTERM and makes them readable while it lives. Create it before there are
/// other threads.
class SignalWatch {
  public:
    SignalWatch();
    SignalWatch(const SignalWatch&) = delete;
    SignalWatch& operator=(const SignalWatch&) = delete;
    ~SignalWatch();
    [[nodiscard]] int fd() const { return fd_.get(); }
    /// Throws Interrupted if a signal came.
    void check() const;

  private:
    sigset_t before_{};
    Fd fd_;
};

class Child {
  public:
    Child(const VariantPlan& plan, std::chrono::nanoseconds timeout, const SignalWatch& signals);
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    /// Kills the rest of the process group and waits for the program.
    ~Child();

    void send(const std::string& line);
    /// Returns the next line without its end; throws VariantError if it does not come in time.
    std::string receive();
    /// Stops every thread of the program, and returns when they are stopped.
    void freeze();
    void thaw();
    /// Waits for the program to end by itself with status 0.
    void expectEnd();

    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    /// The CPUs that the program may use.
    [[nodiscard]] std::vector<size_t> affinity() const;
    /// Returns the program's stderr, without the middle part if it is long.
    [[nodiscard]] std::string stderrText() const;

  private:
    [[noreturn]] void fail(const std::string& what) const;
    /// Throws a VariantError about how the program ended. Call it after the program has closed its
    /// end of a pipe.
    [[noreturn]] void failEnded();
    /// Returns how the program ended, if it has.
    std::optional<siginfo_t> reapIfEnded();

    std::string name_;
    std::chrono::nanoseconds timeout_;
    const SignalWatch& signals_;
    Fd stderr_;  ///< a file in memory, so nobody needs to empty it
    Fd in_;      ///< the program's stdin
    Fd out_;     ///< the program's stdout
    pid_t pid_{-1};
    bool reaped_{false};
    std::string received_;  ///< read from the program, and not yet returned
};

}  // namespace kv::slices
