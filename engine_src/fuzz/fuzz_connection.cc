// A client that sends any bytes, in two pieces, to the request loop over an in-memory bucket.
// Checks that answers are complete, that nothing is charged to the bucket that does not belong to
// it, and that the answers are the same wherever the stream is cut, also if the value at the cut is
// read into its Blob.

#include "fuzz/require.h"
#include "logging/log.h"
#include "server/test_support.h"

namespace {

using namespace kv;
using namespace kv::server;
using namespace kv::server::testing_support;

bool isOpen(Stop stop) {
    return stop == Stop::NeedInput || stop == Stop::Penalty;
}

/// Runs until the input is used up or the connection would be closed.
Stop pump(Bench& bench, std::string_view bytes) {
    auto progress = bench.feed(bytes, {64, size_t{1} << 20});
    while (progress.stop == Stop::TurnOver || progress.stop == Stop::OutputFull ||
           progress.stop == Stop::Penalty) {
        progress = bench.feed({}, {64, bench.out.size() + (size_t{1} << 20)});
    }
    return progress.stop;
}

/// Every answer is a complete frame, and nothing follows the last one.
size_t wholeAnswers(const Bench& bench) {
    const std::string bytes = Bench::bytesOf(bench.out);
    auto rest = protocol::asBytes(bytes);
    size_t count = 0;
    while (!rest.empty()) {
        const auto parsed = protocol::parseFrame(rest);
        require(parsed.outcome == protocol::ParseOutcome::kFrame);
        require(parsed.frame.header.magic == protocol::Magic::kClientResponse);
        rest = rest.subspan(parsed.frame.size());
        ++count;
    }
    return count;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    log::setLevel(log::Level::Off);
    if (size < 2) {
        return 0;
    }
    static const UserStore users(std::map<std::string, std::string>{{"ann", "secret"}});
    const bool login = (data[0] & 1U) != 0;
    const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
    const size_t cut = bytes.empty() ? 0 : data[1] * bytes.size() / 256;

    Bench whole(login ? &users : nullptr, 2);
    const Stop stop = pump(whole, bytes);
    const size_t answers = wholeAnswers(whole);

    Bench cutUp(login ? &users : nullptr, 2);
    if ((data[0] & 2U) != 0) {
        cutUp.largeFrom = 0;  // the incomplete request at the cut is read into its Blob
    }
    Stop cutStop = pump(cutUp, bytes.substr(0, cut));
    if (isOpen(cutStop)) {
        cutStop = pump(cutUp, bytes.substr(cut));
    }
    require(stop == cutStop);
    require(answers == wholeAnswers(cutUp));
    return 0;
}
