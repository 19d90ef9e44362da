// DcpProducerConnection: the producer's side of one DCP connection on the wire: settings, streams,
// frames, noops.
//
// Lives on the connection's front-end thread. Runs under a BucketMemoryGuard of the bucket, which
// its functions take themselves. The DcpNode outlives it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dcp/dcp_node.h"
#include "protocol/dcp.h"
#include "server/conversation.h"

namespace kv::server {

class DcpProducerConnection final : public Conversation {
  public:
    using Clock = std::chrono::steady_clock;

    /// `openFlags` as on the wire; unknown ones have been refused.
    DcpProducerConnection(std::string_view name, dcp::DcpNode& node, std::shared_ptr<Waker> waker,
                          uint32_t openFlags);
    ~DcpProducerConnection() override;

    /// A CONTROL message.
    protocol::Status control(std::string_view key, std::string_view value);

    /// What a stream request was answered: the failover log (the stream is open), the seqno to roll
    /// back to, or why not.
    using StreamAnswer = std::variant<std::vector<FailoverEntry>, Seqno, protocol::Status>;
    StreamAnswer openStream(Vbid vbid, uint32_t opaque, const protocol::DcpStreamRequest& request);
    /// False when there is no such stream.
    bool closeStream(Vbid vbid);
    void acknowledged(uint32_t bytes);

    bool produce(Output& out, size_t limit) override;
    bool onAnswer(const protocol::FrameView& answer) override;
    bool tick(Clock::time_point now) override;

  private:
    dcp::DcpNode& node_;
    const std::shared_ptr<Waker> waker_;
    std::shared_ptr<dcp::BucketProducer> producer_;
    dcp::MessageFormat format_;
    bool endOnClose_{false};  ///< a closed stream says so

    bool noops_{false};
    std::chrono::seconds noopInterval_{20};
    bool noopDue_{false};
    bool noopUnanswered_{false};
    Clock::time_point noopSent_{Clock::now()};
};

}  // namespace kv::server
