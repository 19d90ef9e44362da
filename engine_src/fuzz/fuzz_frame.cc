// Any bytes through the frame parser: its views must lie inside the input and fit together, and an
// accepted frame must survive being written again.
#include <algorithm>
#include <vector>

#include "fuzz/require.h"
#include "protocol/frame.h"
#include "protocol/frame_info.h"
#include "protocol/request_rules.h"

namespace {

using namespace kv::protocol;

bool inside(Bytes part, Bytes whole) {
    return part.empty() || (part.data() >= whole.data() &&
                            part.data() + part.size() <= whole.data() + whole.size());
}

void checkFrame(const FrameView& frame, Bytes input) {
    require(frame.size() <= input.size());
    const Bytes whole = input.first(frame.size());
    for (const Bytes part : {frame.framing, frame.extras, frame.key, frame.value}) {
        require(inside(part, whole));
    }
    require(kHeaderSize + frame.framing.size() + frame.extras.size() + frame.key.size() +
                    frame.value.size() ==
            frame.size());
    FrameInfoReader infos(frame.framing);
    while (const auto info = infos.next()) {
        require(inside(info->data, frame.framing));
    }
    require(!toString(validate(frame)).empty());

    std::vector<uint8_t> again;
    appendFrame(again, {.magic = frame.header.magic,
                        .opcode = frame.header.opcode,
                        .vbucketOrStatus = frame.header.vbucketOrStatus,
                        .opaque = frame.header.opaque,
                        .cas = frame.header.cas,
                        .datatype = frame.header.datatype,
                        .framing = frame.framing,
                        .extras = frame.extras,
                        .key = frame.key,
                        .value = frame.value});
    require(std::equal(again.begin(), again.end(), whole.begin(), whole.end()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Bytes input{data, size};
    while (!input.empty()) {
        const auto parsed = parseFrame(input, {.maxBody = 4096, .maxSkipped = 1U << 20U});
        if (parsed.outcome == ParseOutcome::kTooLong) {
            require(parsed.frame.value.empty() && inside(parsed.frame.key, input));
            input = input.subspan(std::min(parsed.frame.size(), input.size()));
            continue;
        }
        if (parsed.outcome != ParseOutcome::kFrame) {
            require(parsed.outcome == ParseOutcome::kBad || parsed.wanted > input.size());
            break;
        }
        checkFrame(parsed.frame, input);
        input = input.subspan(parsed.frame.size());
    }
    return 0;
}
