#include "server/connections/large_request.h"

#include <algorithm>
#include <new>

#include "server/commands/command.h"

namespace kv::server {

using protocol::Bytes;
using protocol::kHeaderSize;
using protocol::Magic;

namespace {

/// Returns the size of everything but the value, in bytes.
size_t headSize(const protocol::Header& header) {
    return kHeaderSize + header.framingLength + header.extrasLength + header.keyLength;
}

bool keepsValue(const ServerContext& server, const Session& session, protocol::Opcode opcode) {
    const Command& command = server.commands.at(opcode);
    return command.keepsValue && session.allows(command.needs);
}

}  // namespace

LargeRequest::LargeRequest(Bytes head, size_t valueSize, BucketMemory& owner) {
    head_.append(head);
    const BucketMemoryGuard guard(owner);
    draft_ = BlobDraft(valueSize);
    owner_ = &owner;
}

LargeRequest& LargeRequest::operator=(LargeRequest&& other) noexcept {
    if (this != &other) {
        drop();
        head_ = std::move(other.head_);
        draft_ = std::move(other.draft_);
        filled_ = other.filled_;
        owner_ = std::exchange(other.owner_, nullptr);
    }
    return *this;
}

void LargeRequest::drop() noexcept {
    if (owner_ != nullptr) {
        const BucketMemoryGuard guard(*owner_);
        draft_ = {};
        owner_ = nullptr;
    }
}

LargeRequest LargeRequest::start(const ServerContext& server, const Session& session, Bytes input) {
    if (input.size() < kHeaderSize ||
        (input[0] != raw(Magic::kClientRequest) && input[0] != raw(Magic::kAltClientRequest))) {
        return {};
    }
    const protocol::Header header = protocol::decodeHeader(input.data());
    const size_t head = headSize(header);
    if (!header.lengthsAgree() || input.size() < head || input.size() >= header.frameSize() ||
        !keepsValue(server, session, header.opcode)) {
        return {};
    }
    const size_t value = header.frameSize() - head;
    const size_t here = input.size() - head;
    const size_t longest =
            session.couchbase() ? protocol::kMaxValueLength : protocol::kMaxMemcachedValue;
    // Values that may never be complete leave room for those that are.
    auto& memory = server.bucket.memory();
    if (value > longest || value > std::max(kAtOnce, 2 * here) ||
        memory.estimate() + value > server.bucket.highWatermarkBytes()) {
        return {};
    }
    try {
        LargeRequest request(input.first(head), value, memory);
        std::copy_n(input.data() + head, here, request.room());
        request.commit(here);
        return request;
    } catch (const std::bad_alloc&) {
        return {};
    }
}

protocol::FrameView LargeRequest::view() const {
    const Bytes head = head_.view();
    protocol::FrameView frame;
    frame.header = protocol::decodeHeader(head.data());
    Bytes rest = head.subspan(kHeaderSize);
    frame.framing = rest.first(frame.header.framingLength);
    rest = rest.subspan(frame.header.framingLength);
    frame.extras = rest.first(frame.header.extrasLength);
    frame.key = rest.subspan(frame.header.extrasLength);
    frame.value = protocol::asBytes(draft_.view());
    return frame;
}

}  // namespace kv::server
