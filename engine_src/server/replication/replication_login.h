// ReplicationLogin: the login of a replica at its source. It uses SCRAM only: the password never
// crosses the wire, and the source must prove that it also knows it.
//
// It has no socket: frames go to the given function. Threads: one.
#pragma once

#include <optional>
#include <string>

#include "auth/scram_client.h"
#include "protocol/frame.h"
#include "server/replication/replication_source.h"

namespace kv::server {

class ReplicationLogin {
  public:
    /// Both arguments outlive it.
    ReplicationLogin(const ReplicationSource& source, const FrameSink& send)
        : source_(source), send_(send) {}

    /// Asks for the mechanisms of the source; abandons a login in progress.
    void begin();
    static bool isAnswer(protocol::Opcode opcode);
    /// Handles an answer for which isAnswer() is true. Returns true when the login is done. Throws
    /// std::runtime_error if it failed or if the answer does not match the question.
    bool handle(const protocol::FrameView& answer);

  private:
    void step(protocol::Opcode opcode, const std::string& message);

    const ReplicationSource& source_;
    const FrameSink& send_;
    std::string mechanism_;
    std::optional<auth::ScramClient> client_;  ///< set while a login is in progress
};

}  // namespace kv::server
