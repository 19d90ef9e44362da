// DcpProducerConnection: the producer's side of one DCP connection on the wire: settings, streams,
// frames, no-ops.
//
// Threads: the connection's front-end thread only. Its functions take the bucket's
// BucketMemoryGuard, so callers need none. Ownership: the DcpNode outlives it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <variant>
#include <vector>

#include "dcp/dcp_node.h"
#include "protocol/dcp.h"
#include "server/connections/conversation.h"
#include "server/replication/dcp_noop_timer.h"

namespace kv::server {

class DcpProducerConnection final : public Conversation {
  public:
    using Clock = std::chrono::steady_clock;

    /// Who opens the connection, under which name.
    struct Client {
        std::string_view name;
        std::string_view user{};
    };
    /// `openFlags` are those on the wire; the caller has refused unknown ones. The node has room
    /// for another connection of the user.
    DcpProducerConnection(const Client& client, dcp::DcpNode& node, std::shared_ptr<Waker> waker,
                          uint32_t openFlags);
    ~DcpProducerConnection() override;

    /// Changes a setting by DCP_CONTROL. Returns Einval for an unknown setting or value.
    protocol::Status control(std::string_view key, std::string_view value);

    /// The answer to a stream request: the failover log (the stream is open), the seqno to roll
    /// back to, or the refusal.
    using StreamAnswer = std::variant<std::vector<FailoverEntry>, Seqno, protocol::Status>;
    StreamAnswer openStream(Vbid vbid, uint32_t opaque, const protocol::DcpStreamRequest& request);
    /// Returns false if there is no such stream.
    bool closeStream(Vbid vbid);
    void acknowledged(uint32_t bytes);

    bool produce(Output& out, size_t limit) override;
    bool onAnswer(const protocol::FrameView& answer) override;
    bool tick(Clock::time_point now, const Delivery& delivery) override;

  private:
    dcp::DcpNode& node_;
    const std::shared_ptr<Waker> waker_;
    std::shared_ptr<dcp::BucketProducer> producer_;
    dcp::MessageFormat format_;
    bool endOnClose_{false};  ///< a closed stream sends an end message
    DcpNoopTimer noops_{Clock::now()};
};

}  // namespace kv::server
