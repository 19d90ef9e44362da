// ReplicationLogin: a replica's login at its source, by SCRAM only: the password never crosses the
// wire, and the source must prove that it knows it too.
//
// No socket: frames go by the given function. One thread.
#pragma once

#include <optional>
#include <string>

#include "auth/scram_client.h"
#include "protocol/frame.h"
#include "server/frame_sink.h"
#include "server/replication_source.h"

namespace kv::server {

class ReplicationLogin {
  public:
    /// Both outlive it.
    ReplicationLogin(const ReplicationSource& source, const FrameSink& send)
        : source_(source), send_(send) {}

    /// Asks for the source's mechanisms; a login under way is forgotten.
    void begin();
    static bool isAnswer(protocol::Opcode opcode);
    /// An answer for which isAnswer() holds; true when the login is done. Throws std::runtime_error
    /// when it has failed or the answer is none to what was asked.
    bool handle(const protocol::FrameView& answer);

  private:
    void step(protocol::Opcode opcode, const std::string& message);

    const ReplicationSource& source_;
    const FrameSink& send_;
    std::string mechanism_;
    std::optional<auth::ScramClient> client_;  ///< while a login is under way
};

}  // namespace kv::server
