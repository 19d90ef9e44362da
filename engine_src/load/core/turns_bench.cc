// Measures the work between two slices: the clocks of all variants and the accounting. It is in no
// slice, so it takes time and no throughput; a slice is 2 ms.
#include <benchmark/benchmark.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "load/core/turns.h"

namespace kv::load {
namespace {

/// A process that is stopped until it is killed.
class Server {
  public:
    Server() : pid_(::fork()) {
        if (pid_ == 0) {
            for (;;) {
                ::raise(SIGSTOP);
            }
        }
        ::waitpid(pid_, nullptr, WUNTRACED);
    }
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    ~Server() {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    int pid() const { return pid_; }

  private:
    pid_t pid_;
};

/// `clocks` variants have a clock; 1, its own, is the least that a slice needs.
void switchOver(benchmark::State& state) {
    const auto variants = static_cast<std::size_t>(state.range(0));
    const auto clocks = static_cast<std::size_t>(state.range(1));
    std::vector<std::unique_ptr<Server>> servers;
    for (std::size_t i = 0; i < clocks; ++i) {
        servers.push_back(std::make_unique<Server>());
    }
    ThreadTeam team(1);
    Turns turns(team, {.variants = variants, .warmup = kNever},
                [&](std::size_t variant) -> std::unique_ptr<CpuClock> {
                    if (variant >= clocks) {
                        return nullptr;
                    }
                    return std::make_unique<ProcessCpuClock>(servers[variant]->pid());
                });
    turns.next(0, {});
    for (auto _ : state) {
        benchmark::DoNotOptimize(turns.next(0, {.ops = 1}));
    }
}

BENCHMARK(switchOver)
        ->ArgNames({"variants", "clocks"})
        ->Args({2, 1})
        ->Args({2, 2})
        ->Args({4, 1})
        ->Args({4, 4})
        ->Args({7, 1})
        ->Args({7, 7});

}  // namespace
}  // namespace kv::load

BENCHMARK_MAIN();
