// Child: an arm's program as a process: started with exactly its environment, pinned, in a process
// group of its own, spoken to by lines, frozen and thawed. It does not outlive its object, nor (by
// PR_SET_PDEATHSIG) the thread that started it.
//
// Threads: one, the same for all its life. Every function throws ArmError when the program has
// ended, and Interrupted when SIGINT or SIGTERM came while it waited.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "slices/conductor_error.h"
#include "slices/plan.h"
#include "types/fd.h"

namespace kv::slices {

/// SIGINT and SIGTERM, blocked and readable, while it lives. Of one thread: before there are
/// others.
class SignalWatch {
  public:
    SignalWatch();
    SignalWatch(const SignalWatch&) = delete;
    SignalWatch& operator=(const SignalWatch&) = delete;
    ~SignalWatch();
    [[nodiscard]] int fd() const { return fd_.get(); }
    /// Throws Interrupted when one came.
    void check() const;

  private:
    sigset_t before_{};
    Fd fd_;
};

class Child {
  public:
    Child(const ArmPlan& plan, std::chrono::nanoseconds timeout, const SignalWatch& signals);
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    /// Kills what is left of the process group, and waits for the program.
    ~Child();

    void send(const std::string& line);
    /// The next line without its end; ArmError when it does not come in time.
    std::string receive();
    /// Stops every thread of the program, and returns when they stand still.
    void freeze();
    void thaw();
    /// Waits for the program to end by itself with status 0.
    void expectEnd();

    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    /// The CPUs that the program may use.
    [[nodiscard]] std::vector<size_t> affinity() const;
    /// What the program wrote to its stderr; the middle of much is left out.
    [[nodiscard]] std::string stderrText() const;

  private:
    [[noreturn]] void fail(const std::string& what) const;
    /// Says how the program ended, once it has closed its end of a pipe.
    [[noreturn]] void failEnded();
    /// How the program ended, if it has.
    std::optional<siginfo_t> reapIfEnded();

    std::string name_;
    std::chrono::nanoseconds timeout_;
    const SignalWatch& signals_;
    Fd stderr_;  ///< a file in memory: nobody needs to empty it
    Fd in_;      ///< the program's stdin
    Fd out_;     ///< its stdout
    pid_t pid_{-1};
    bool reaped_{false};
    std::string received_;  ///< read, and not yet given out
};

}  // namespace kv::slices
