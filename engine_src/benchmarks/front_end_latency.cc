// front_end_latency: measures the Add, Get, Replace and Delete of a front-end thread, alone or with
// a background DCP client. One process does one pass over the items: one replicate.
//
// The historic set-up ("Latency [With background DCP]"): one vBucket, 100 000 items of 100 bytes,
// persistence stopped, one front-end thread. Differences: the flow control works in every build;
// the hash table has the size that the engine's resizer gives it (--ht-size); and the number of
// vBuckets is only the producer's (--producer-slots), because the historic engine makes a vBucket's
// hash table on first use and ours at once. Extensions: documents in many vBuckets (--vbuckets,
// --busy-vbuckets), and a client that connects when the documents are there and finds a backlog
// (--backlog). The variants under test (dcp_ready, dcp_snapshot_queue, dcp_snapshot_yield) are
// chosen when this program is built; "build" in its JSON reads them back.
//
// With --slices it runs nothing by itself but answers a conductor (slices/README.md): its phases
// are benchmarks with a single pass, one operation per iteration, each slice with its own
// percentiles (counters p50_us, p95_us, p99_us); `report` returns the JSON.
//
// Exit status: 0 done, 1 an operation failed or the client did not get everything, 2 usage.
#include <cstdio>
#include <exception>
#include <iostream>

#include "benchmarks/latency_options.h"
#include "benchmarks/latency_session.h"
#include "benchmarks/latency_source.h"
#include "slices/slice_server.h"

namespace {

using namespace kv::bench;

int run(const LatencyOptions& options) {
    if (options.slices) {
        LatencySource source(options);
        return kv::slices::serveSlices(source, std::cin, std::cout);
    }
    LatencySession session(options);
    while (!session.phases().done()) {
        session.advance(session.phases().left());
    }
    const LatencyReport report = session.finish();
    std::fputs(latencyTable(report).c_str(), stderr);
    std::puts(latencyJson(report).c_str());
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    int exitCode = 0;
    const auto options = parseLatencyOptions(argc, argv, exitCode);
    if (!options) {
        return exitCode;
    }
    try {
        return run(*options);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}
