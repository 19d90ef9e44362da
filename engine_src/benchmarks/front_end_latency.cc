// front_end_latency: how long a front-end thread's Add, Get, Replace and Delete take, alone or
// beside a background DCP client. One process, one pass over the items: one replicate.
//
// The historic set-up ("Latency [With background DCP]"): one vBucket, 100 000 items of 100 bytes,
// persistence stopped, one front-end thread. Where it differs: the flow control works in every
// build; the hash table has the size that the engine's resizer gives it (--ht-size); and the number
// of vBuckets is the producer's only (--producer-slots), since the historic engine makes a
// vBucket's hash table when it is first used and ours at once. Beyond it: documents in many
// vBuckets (--vbuckets, --busy-vbuckets), and a client that comes when they are there and finds a
// backlog (--backlog). The variants under test (dcp_ready, dcp_snapshot_queue, dcp_snapshot_yield)
// are chosen when this program is built; "build" in its JSON reads them back.
//
// With --slices it runs nothing by itself, but answers a conductor (slices/README.md): its phases
// are benchmarks that are passed once, an operation an iteration, each slice with its own
// percentiles (counters p50_us, p95_us, p99_us); `report` gives the JSON.
//
// Exit: 0 done, 1 an operation failed or the client did not get everything, 2 usage.
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
