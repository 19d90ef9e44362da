// The benchmarks of this program by name: Google Benchmark keeps its own list private, and to run
// one for a given number of iterations needs the object that its registration returned.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kv::bench {

struct Registered {
    std::string family;
    benchmark::internal::Benchmark* benchmark;
    std::optional<int64_t> pass;  ///< iterations of a pass (pass.h)
};

/// In the order of their registration.
std::vector<Registered>& registered();

/// As benchmark::RegisterBenchmark, with a record of the benchmark.
template <class Body, class... Arguments>
benchmark::internal::Benchmark* add(const std::string& family, Body&& body,
                                    Arguments&&... arguments) {
    auto* made = benchmark::RegisterBenchmark(family.c_str(), std::forward<Body>(body),
                                              std::forward<Arguments>(arguments)...);
    registered().push_back({family, made, std::nullopt});
    return made;
}

/// The same for a benchmark whose runs are parts of a pass of `length` iterations: run on its own,
/// it does a whole pass.
template <class Body, class... Arguments>
benchmark::internal::Benchmark* addPass(const std::string& family, int64_t length, Body&& body,
                                        Arguments&&... arguments) {
    auto* made = add(family, std::forward<Body>(body), std::forward<Arguments>(arguments)...);
    registered().back().pass = length;
    return made->Iterations(length);
}

}  // namespace kv::bench
