#include "server/replication/replication_login.h"

#include <fmt/format.h>

#include <stdexcept>

namespace kv::server {

using protocol::FrameView;
using protocol::Opcode;
using protocol::Status;

void ReplicationLogin::begin() {
    client_.reset();
    send_({.opcode = Opcode::kSaslListMechs});
}

bool ReplicationLogin::isAnswer(Opcode opcode) {
    return opcode == Opcode::kSaslListMechs || opcode == Opcode::kSaslAuth ||
           opcode == Opcode::kSaslStep;
}

void ReplicationLogin::step(Opcode opcode, const std::string& message) {
    send_({.opcode = opcode,
           .key = protocol::asBytes(mechanism_),
           .value = protocol::asBytes(message)});
}

bool ReplicationLogin::handle(const FrameView& answer) {
    const Status status = answer.header.status();
    const Opcode opcode = answer.header.opcode;
    if (opcode == Opcode::kSaslListMechs && status == Status::kSuccess) {
        mechanism_ = auth::bestMechanism(answer.valueText());
        client_.emplace(mechanism_, source_.user, source_.password);
        step(Opcode::kSaslAuth, client_->firstMessage());
        return false;
    }
    if (opcode == Opcode::kSaslAuth && client_ && status == Status::kAuthContinue) {
        step(Opcode::kSaslStep, client_->finalMessage(answer.valueText()));
        return false;
    }
    if (opcode == Opcode::kSaslStep && client_ && status == Status::kSuccess) {
        client_->verify(answer.valueText());
        client_.reset();
        return true;
    }
    if (opcode == Opcode::kSaslAuth && status == Status::kSuccess) {
        throw std::runtime_error("the source has no users: follow it without a login");
    }
    throw std::runtime_error(fmt::format("the login as {} was answered {}", source_.user,
                                         protocol::toString(status)));
}

}  // namespace kv::server
