// Session: what the protocol knows of one connection: who it is, what it negotiated, which bucket
// it uses.
//
// Owned by its connection and touched by that connection's front-end thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "protocol/extras.h"
#include "server/conversation.h"
#include "server/sasl.h"

namespace kv::server {

/// What a command needs to run.
enum class Needs : uint8_t {
    Nothing,  ///< allowed before login
    Login,    ///< where users are configured
    Admin,    ///< login as an administrator
    // The others need a bucket too, and run with its memory bound to the thread.
    Read,
    Write,   ///< a user who may change documents
    Manage,  ///< an administrator
};
constexpr bool needsBucket(Needs needs) noexcept {
    return needs >= Needs::Read;
}

class BucketJob;
class StatJob;

class Session {
  public:
    Session(uint64_t id, bool needsLogin) : id_(id), needsLogin_(needsLogin) { update(); }

    [[nodiscard]] uint64_t id() const { return id_; }
    /// Decided when something changes instead of at every command.
    [[nodiscard]] bool allows(Needs needs) const {
        return ((allowed_ >> static_cast<unsigned>(needs)) & 1U) != 0;
    }
    [[nodiscard]] bool hasBucket() const {
        return !couchbase_ || !features_.selectBucket || bucketSelected_;
    }
    /// Logged in, or nobody needs to.
    [[nodiscard]] bool authenticated() const { return !needsLogin_ || !user_.empty(); }

    /// HELLO or SELECT_BUCKET seen: Couchbase semantics. Otherwise plain memcached semantics in the
    /// default bucket: keys are mapped to vBuckets here, values end at 1 MiB, DELETE answers CAS 0,
    /// an oversized key closes the connection.
    [[nodiscard]] bool couchbase() const { return couchbase_; }

    // --- negotiated by HELLO; a second HELLO starts anew
    struct Features {
        bool mutationSeqno{false};
        bool xerror{false};
        bool selectBucket{false};
        bool json{false};
        bool configWithKnownVersion{false};
        bool dedupeNotMyVbucket{false};
    };
    [[nodiscard]] const Features& features() const { return features_; }
    void hello(const Features& features, std::string agent) {
        couchbase_ = true;
        features_ = features;
        agent_ = std::move(agent);
        update();
    }
    [[nodiscard]] const std::string& agent() const { return agent_; }

    // --- bucket
    void selectBucket(bool selected) {
        couchbase_ = true;
        bucketSelected_ = selected;
        update();
    }

    // --- login
    [[nodiscard]] const std::string& user() const { return user_; }
    std::optional<SaslExchange>& login() { return login_; }
    void loggedIn(std::string user, Role role) {
        user_ = std::move(user);
        role_ = role;
        failedLogins_ = 0;
        update();
    }
    /// Forgets who was logged in before, too; returns how often login has failed in a row.
    unsigned loginFailed() {
        user_.clear();
        update();
        return ++failedLogins_;
    }

    /// True once per connection and config when the client asked for it: the config need not be
    /// repeated in every NotMyVbucket.
    bool shouldSendConfig(protocol::ConfigVersion version) {
        if (features_.dedupeNotMyVbucket && configSent_ == version) {
            return false;
        }
        configSent_ = version;
        return true;
    }

    // --- a request that waits for something and is executed again until it has come
    /// True while the request at work, first seen at the first call, has not waited `patience`.
    bool waits(std::chrono::steady_clock::time_point now, std::chrono::seconds patience) {
        waitsSince_ = waitsSince_ ? waitsSince_ : now;
        if (now - *waitsSince_ < patience) {
            return true;
        }
        endWait();
        return false;
    }
    void endWait() { waitsSince_.reset(); }

    /// The STAT that it waits for; nullptr: none.
    std::shared_ptr<const StatJob>& statJob() { return statJob_; }
    /// The change of the bucket that it waits for; nullptr: none.
    std::shared_ptr<const BucketJob>& bucketJob() { return bucketJob_; }

    // --- DCP
    /// What makes the connection speak by itself; nullptr on most connections.
    [[nodiscard]] Conversation* conversation() { return conversation_.get(); }
    void converse(std::unique_ptr<Conversation> conversation) {
        conversation_ = std::move(conversation);
    }
    /// Wakes this connection; made when it is first asked for, connected by the connection.
    const std::shared_ptr<Waker>& waker() {
        if (!waker_) {
            waker_ = std::make_shared<Waker>();
        }
        return waker_;
    }
    /// After this nobody wakes the connection any more.
    void disconnectWaker() {
        if (waker_) {
            waker_->disconnect();
        }
    }

  private:
    void update() {
        const auto allow = [this](Needs needs) { allowed_ |= 1U << static_cast<unsigned>(needs); };
        allowed_ = 0;
        allow(Needs::Nothing);
        if (!authenticated()) {
            return;
        }
        const Role role = needsLogin_ ? role_ : Role::Admin;
        allow(Needs::Login);
        if (role == Role::Admin) {
            allow(Needs::Admin);
        }
        if (!hasBucket()) {
            return;
        }
        allow(Needs::Read);
        if (role != Role::ReadOnly) {
            allow(Needs::Write);
        }
        if (role == Role::Admin) {
            allow(Needs::Manage);
        }
    }

    uint64_t id_;
    bool needsLogin_;
    bool couchbase_{false};
    bool bucketSelected_{false};
    std::optional<protocol::ConfigVersion> configSent_;
    unsigned allowed_{0};  ///< a bit for each of Needs
    Role role_{Role::ReadOnly};
    Features features_;
    unsigned failedLogins_{0};
    std::optional<std::chrono::steady_clock::time_point> waitsSince_;
    std::shared_ptr<const StatJob> statJob_;
    std::shared_ptr<const BucketJob> bucketJob_;
    std::string user_;
    std::string agent_;
    std::optional<SaslExchange> login_;
    std::shared_ptr<Waker> waker_;
    std::unique_ptr<Conversation> conversation_;
};

}  // namespace kv::server
