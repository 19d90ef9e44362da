// The program's side of the line protocol by which a conductor asks for a benchmark in slices (see
// README.md): one line in, one line of JSON out.
//
// Threads: serveSlices answers on the calling thread, one line at a time. Between two lines the
// program does nothing that it would not do without a conductor.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kv::slices {

/// One benchmark that can be requested.
struct Offer {
    std::string name;  ///< as in reports, e.g. "HTB/Insert/sized/threads:2"
    std::string full;  ///< the name that a filter matches, including the library's bookkeeping
    std::optional<int64_t> pass{};  ///< iterations of a pass; empty: all runs are alike
    bool once{false};               ///< there is only one pass in the life of the process
    std::optional<int64_t> step{};  ///< iterations of a slice; empty: as many as fill its time

    friend bool operator==(const Offer&, const Offer&) = default;
};

/// The result of one run of a benchmark.
struct Slice {
    int64_t iterations{0};          ///< of all threads together
    double realNs{0};               ///< timed, for all iterations together
    std::optional<double> cpuNs{};  ///< empty if it would include work that is not timed
    double setupNs{0};  ///< opening a pass; neither timed nor part of the slice's length
    std::optional<int64_t> left{};  ///< iterations to the end of the pass
    std::map<std::string, double> counters{};
};

/// The benchmarks of a program. Functions throw std::exception if the benchmark fails.
class SliceSource {
  public:
    SliceSource() = default;
    SliceSource(const SliceSource&) = delete;
    SliceSource& operator=(const SliceSource&) = delete;
    virtual ~SliceSource() = default;

    /// The build settings of the program: {"build.ht_stats", "core"}, {"allocator.name", ...}.
    virtual std::vector<std::pair<std::string, std::string>> context() = 0;
    /// In the order in which they are to be requested.
    virtual std::vector<Offer> offers() = 0;
    /// Runs the next `iterations` (> 0) of an offer's benchmark, never past the end of its pass.
    /// Another name than last time abandons the current pass.
    virtual Slice run(const std::string& name, int64_t iterations) = 0;
    /// Returns a JSON document about everything that was run, or "null".
    virtual std::string report() = 0;
};

/// Sends the greeting and answers until "quit" or the end of the input; both give exit status 0.
int serveSlices(SliceSource& source, std::istream& in, std::ostream& out);

}  // namespace kv::slices
