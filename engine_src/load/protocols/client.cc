#include "load/protocols/client.h"

#include <array>

#include "load/core/load_error.h"

namespace kv::load {

using protocol::Opcode;
using protocol::ParseOutcome;
using protocol::Status;

Client::Client(Socket socket, std::chrono::milliseconds timeout)
    : socket_(std::move(socket)), peer_(peerOf(socket_)), timeout_(timeout) {}

Answer Client::ask(protocol::FrameSpec spec) {
    spec.opaque = ++opaque_;
    std::vector<std::uint8_t> request;
    protocol::appendFrame(request, spec);
    return about(peer_, [&] {
        sendAll(socket_, request, timeout_);
        return readAnswer(spec.opcode, spec.opaque);
    });
}

Answer Client::readAnswer(Opcode opcode, std::uint32_t opaque) {
    std::array<std::uint8_t, 16384> chunk{};
    for (;;) {
        const auto parsed = protocol::parseFrame(buffer_);
        if (parsed.outcome == ParseOutcome::kBad) {
            throw LoadError("the server does not speak the memcached binary protocol");
        }
        if (parsed.outcome == ParseOutcome::kFrame) {
            const auto& frame = parsed.frame;
            // A server may send unasked (a new cluster map): nothing requests an answer.
            const bool ours = !protocol::isRequest(frame.header.magic);
            if (ours && (frame.header.opaque != opaque || frame.header.opcode != opcode)) {
                throw LoadError("the server answered another request than the one asked");
            }
            Answer answer{frame.header.status(), std::string(protocol::asText(frame.extras)),
                          std::string(frame.keyText()), std::string(frame.valueText())};
            buffer_.erase(buffer_.begin(),
                          buffer_.begin() + static_cast<std::ptrdiff_t>(frame.size()));
            if (ours) {
                return answer;
            }
            continue;
        }
        const auto got = socket_.receive(chunk.data(), chunk.size());
        if (!got) {
            throw LoadError("connection closed by the server");
        }
        buffer_.insert(buffer_.end(), chunk.data(), chunk.data() + *got);
        if (*got == 0) {
            waitReady(socket_, false, timeout_);
        }
    }
}

std::map<std::string, std::string> Client::stat(std::string_view group) {
    protocol::FrameSpec spec;
    spec.opcode = Opcode::kStat;
    spec.key = protocol::asBytes(group);
    std::map<std::string, std::string> figures;
    const auto next = [this] { return readAnswer(Opcode::kStat, opaque_); };
    for (auto answer = ask(spec);; answer = about(peer_, next)) {
        if (answer.status != Status::kSuccess) {
            throw LoadError(peer_ + ": STAT " + std::string(group) + ": " +
                            std::string(protocol::toString(answer.status)));
        }
        if (answer.key.empty()) {
            return figures;
        }
        figures[answer.key] = answer.value;
    }
}

}  // namespace kv::load
