// The program's side of the line protocol by which a conductor asks for a benchmark in slices (see
// README.md): one line in, one line of JSON out.
//
// Threads: serveSlices answers on the calling thread, one line at a time; between two lines the
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

/// One benchmark that can be asked for.
struct Offer {
    std::string name;  ///< as in reports, e.g. "HTB/Insert/sized/threads:2"
    std::string full;  ///< what a filter looks at: with the library's bookkeeping in it
    std::optional<int64_t> pass{};  ///< iterations of a pass; empty: every run is like every other
    bool once{false};               ///< there is one pass in the life of the process
    std::optional<int64_t> step{};  ///< iterations of a slice; empty: as many as fill its time

    friend bool operator==(const Offer&, const Offer&) = default;
};

/// What one run of a benchmark came to.
struct Slice {
    int64_t iterations{0};  ///< of all threads together
    double realNs{0};       ///< timed, over all iterations: per iteration realNs / iterations
    std::optional<double> cpuNs{};  ///< empty where it would count what is not timed
    double setupNs{0};  ///< opening a pass; neither timed nor part of the slice's length
    std::optional<int64_t> left{};  ///< iterations to the end of the pass
    std::map<std::string, double> counters{};
};

/// What a program has to offer. Its functions throw std::exception when the benchmark fails.
class SliceSource {
  public:
    SliceSource() = default;
    SliceSource(const SliceSource&) = delete;
    SliceSource& operator=(const SliceSource&) = delete;
    virtual ~SliceSource() = default;

    /// What the program was built with: {"build.ht_stats", "core"}, {"allocator.name", ...}.
    virtual std::vector<std::pair<std::string, std::string>> context() = 0;
    /// In the order in which they are to be asked for.
    virtual std::vector<Offer> offers() = 0;
    /// The next `iterations` (> 0) of an offer's benchmark, never past the end of its pass. Another
    /// name than last time gives up the pass under way.
    virtual Slice run(const std::string& name, int64_t iterations) = 0;
    /// A JSON document about all that was run, or "null".
    virtual std::string report() = 0;
};

/// Greets, and answers until "quit" or the end of the input: both are an exit status of 0.
int serveSlices(SliceSource& source, std::istream& in, std::ostream& out);

}  // namespace kv::slices
