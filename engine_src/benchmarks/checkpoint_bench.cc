// CheckpointBench: the time that a front-end writer waits while slow cursors are searched and old
// checkpoints removed.
//
//   GetCursorsToDrop/N
//       N checkpoints, only the persistence cursor, in the open one: an empty answer (historic)
//   GetCursorsToDrop/N/cursors:C
//       and C cursors left behind in the oldest checkpoint: C of them are the answer
//   ExtractClosedUnrefCheckpoints/N
//       the removal of the N-1 closed ones, without freeing them (historic)
//   GetCursorsToDropCold/N, ExtractClosedUnrefCheckpointsCold/N
//       the same two, once after all caches were emptied: the part of a growth with N that they
//       cause
//   QueueDirtyWithManyClosedUnrefCheckpoints/N
//       queueDirty while a thread persists and removes, N checkpoints at the start (historic)
//   QueueDirtyBesideCursorSearch/N
//       queueDirty while a thread searches for cursors to drop repeatedly, and a slow cursor keeps
//       all of the N checkpoints: the cost of the search for the front end
//
// The queueDirty times are those of single calls, each timed separately: mean, and p50_us, p95_us,
// p99_us as counters.
//
// Differences from the historic benchmark: GetCursorsToDrop changes nothing, so it runs as
// often as the timer needs instead of once (a single run of 6 us was the cost of
// Pause/ResumeTiming); the answer is also non-empty; extraction is timed manually, and the cost of
// an empty section is subtracted; the removal thread works until the writer is done.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "benchmarks/cold_caches.h"
#include "benchmarks/manual_timer.h"
#include "benchmarks/pass.h"
#include "benchmarks/registry.h"
#include "checkpoint/checkpoint_manager.h"

namespace kv {
namespace {

/// One item a checkpoint, any number of checkpoints.
CheckpointConfig oneItemEach() {
    CheckpointConfig config;
    config.maxItems = 1;
    config.maxCheckpoints = 100'000'000;
    config.period = std::chrono::hours(24);
    return config;
}

class Log {
  public:
    Log() : manager_(Vbid{0}, config_) { manager_.persistence().registerCursor(); }

    void fill(size_t checkpoints) {
        for (size_t i = 0; i < checkpoints; ++i) {
            const auto key = "key" + std::to_string(i);
            manager_.queueDirty(Item::create(Vbid{0}, ItemOp::Mutation, key, ItemMeta{}, BlobPtr{}),
                                Seqno{}, GenerateSeqno::Yes, GenerateCas::Yes, 1);
        }
    }
    void persistAll() {
        manager_.persistence().takeItemsToPersist(SIZE_MAX);
        manager_.persistence().persisted();
    }
    CheckpointManager& manager() { return manager_; }

  private:
    CheckpointConfig config_{oneItemEach()};
    CheckpointManager manager_;
};

template <class Make>
Log& kept(const std::string& name, int64_t length, Make make) {
    return bench::Pass::current().open<Log>(name, length, make);
}

void getCursorsToDrop(benchmark::State& state, size_t checkpoints, size_t lagging) {
    // The timed code does not change it, so any number of runs may share it.
    Log& log = kept("drop/" + std::to_string(checkpoints) + "/" + std::to_string(lagging), 0, [&] {
        auto made = std::make_unique<Log>();
        for (size_t c = 0; c < lagging; ++c) {
            made->manager().cursors().registerCursor("slow" + std::to_string(c), Seqno{});
        }
        made->fill(checkpoints);
        made->persistAll();
        return made;
    });
    for (auto _ : state) {
        auto found = log.manager().removal().getListOfCursorsToDrop();
        benchmark::DoNotOptimize(found);
        if (checkpoints > 1 && found.size() != lagging) {
            state.SkipWithError("wrong number of cursors");
            break;
        }
    }
    state.counters["checkpoints"] = static_cast<double>(log.manager().stats().checkpoints);
}

void getCursorsToDropCold(benchmark::State& state, size_t checkpoints) {
    Log& log = kept("cold/" + std::to_string(checkpoints), 0, [&] {
        auto made = std::make_unique<Log>();
        made->fill(checkpoints);
        made->persistAll();
        return made;
    });
    bench::ColdCaches caches;
    for (auto _ : state) {
        caches.evict();
        state.SetIterationTime(bench::timed([&] {
            auto found = log.manager().removal().getListOfCursorsToDrop();
            benchmark::DoNotOptimize(found);
        }));
    }
}

enum class Caches { AsTheyAre, Cold };

void extractClosedUnref(benchmark::State& state, size_t checkpoints, Caches caches) {
    bench::Pass::current().close();  // the remains of another benchmark must not stay in the heap
    std::optional<bench::ColdCaches> cold;
    if (caches == Caches::Cold) {
        cold.emplace();
    }
    for (auto _ : state) {
        Log log;
        log.fill(checkpoints);
        log.persistAll();
        if (cold) {
            cold->evict();
        }
        std::optional<ExtractedCheckpoints> extracted;  // freed after the timed section
        state.SetIterationTime(bench::timed([&] {
            extracted.emplace(log.manager().removal().extractClosedUnrefCheckpoints());
        }));
        if (extracted->size() + 1 < checkpoints) {
            state.SkipWithError("too few checkpoints extracted");
            break;
        }
    }
}

/// Times of single calls, for the percentiles that a mean hides.
class CallTimes {
  public:
    void add(double seconds) { micros_.push_back(seconds * 1e6); }

    void report(benchmark::State& state) {
        std::sort(micros_.begin(), micros_.end());
        for (const auto& [name, percent] :
             {std::pair{"p50_us", 50}, {"p95_us", 95}, {"p99_us", 99}}) {
            state.counters[name] = micros_[micros_.size() * static_cast<size_t>(percent) / 100];
        }
    }

  private:
    std::vector<double> micros_;
};

/// Writes of a pass of queueDirty: each adds a checkpoint, in both variants equally many.
constexpr int64_t kWrites = 20'000;

/// The timed loop: one queueDirty per iteration, `gap` apart, while another thread runs `beside`
/// repeatedly. Keys from number `first` on.
template <class Beside>
void queueDirtyBeside(benchmark::State& state, Log& log, size_t first, std::chrono::nanoseconds gap,
                      Beside beside) {
    size_t number = first + static_cast<size_t>(bench::Pass::current().position());
    std::atomic<bool> stop{false};
    uint64_t rounds = 0;
    std::thread other([&] {
        for (; !stop.load(std::memory_order_relaxed); ++rounds) {
            beside();
        }
    });
    CallTimes times;
    for (auto _ : state) {
        const auto key = "key" + std::to_string(number++);
        auto item = Item::create(Vbid{0}, ItemOp::Mutation, key, ItemMeta{}, BlobPtr{});
        for (const auto due = bench::Clock::now() + gap; bench::Clock::now() < due;) {
        }
        const double seconds = bench::timed([&] {
            log.manager().queueDirty(std::move(item), Seqno{}, GenerateSeqno::Yes, GenerateCas::Yes,
                                     1);
        });
        state.SetIterationTime(seconds);
        times.add(seconds);
    }
    stop = true;
    other.join();
    times.report(state);
    state.counters["rounds_beside"] = static_cast<double>(rounds);
    bench::Pass::current().advance(static_cast<int64_t>(state.iterations()));
}

void queueDirtyBesideRemover(benchmark::State& state, size_t checkpoints) {
    Log& log = kept("remover/" + std::to_string(checkpoints), kWrites, [&] {
        auto made = std::make_unique<Log>();
        made->fill(checkpoints);
        made->persistAll();
        return made;
    });
    queueDirtyBeside(state, log, checkpoints, {}, [&] {
        log.persistAll();
        const auto extracted = log.manager().removal().extractClosedUnrefCheckpoints();
    });
}

void queueDirtyBesideCursorSearch(benchmark::State& state, size_t checkpoints) {
    Log& log = kept("search/" + std::to_string(checkpoints), kWrites, [&] {
        auto made = std::make_unique<Log>();
        made->manager().cursors().registerCursor("slow", Seqno{});
        made->fill(checkpoints);
        made->persistAll();
        return made;
    });
    // Pauses between searches and between writes: neither thread keeps the lock from the other by
    // taking it again at once.
    queueDirtyBeside(state, log, checkpoints, std::chrono::microseconds(5), [&] {
        auto found = log.manager().removal().getListOfCursorsToDrop();
        benchmark::DoNotOptimize(found);
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    });
}

std::string numbered(const std::string& name, size_t number) {
    return "CheckpointBench/" + name + std::to_string(number);
}

/// Emptying the caches takes some 10 ms.
constexpr int64_t kColdRuns = 10;

void registerAll() {
    for (const size_t n :
         {size_t{1}, size_t{10}, size_t{100}, size_t{1'000}, size_t{10'000}, size_t{100'000}}) {
        const auto drop = numbered("GetCursorsToDrop/", n);
        bench::add(drop, getCursorsToDrop, n, size_t{0});
        for (const size_t cursors : {size_t{1}, size_t{10}, size_t{100}, size_t{1'000}}) {
            auto name = drop;
            name.append("/cursors:").append(std::to_string(cursors));
            bench::add(name, getCursorsToDrop, n, cursors);
        }
        bench::add(numbered("ExtractClosedUnrefCheckpoints/", n), extractClosedUnref, n,
                   Caches::AsTheyAre)
                ->UseManualTime()
                ->Iterations(n > 1'000 ? 20 : 500);  // bounds the set-up, which is not timed
        bench::add(numbered("GetCursorsToDropCold/", n), getCursorsToDropCold, n)
                ->UseManualTime()
                ->Iterations(kColdRuns);
        bench::add(numbered("ExtractClosedUnrefCheckpointsCold/", n), extractClosedUnref, n,
                   Caches::Cold)
                ->UseManualTime()
                ->Iterations(kColdRuns);
    }
    for (const size_t n : {size_t{10'000}, size_t{1'000'000}}) {
        bench::addPass(numbered("QueueDirtyWithManyClosedUnrefCheckpoints/", n), kWrites,
                       queueDirtyBesideRemover, n)
                ->UseManualTime();
    }
    bench::addPass(numbered("QueueDirtyBesideCursorSearch/", 10'000), kWrites,
                   queueDirtyBesideCursorSearch, size_t{10'000})
            ->UseManualTime();
}

const bool kRegistered = (registerAll(), true);

}  // namespace
}  // namespace kv
