// Session: the protocol state of one connection: the user, the negotiated features, and the bucket.
//
// Owned by its connection and used only by that connection's front-end thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "protocol/extras.h"
#include "server/connections/connection_slot.h"
#include "server/connections/conversation.h"
#include "server/login/sasl.h"

namespace kv::server {

/// What a command requires before it may run.
enum class Needs : uint8_t {
    Nothing,  ///< allowed before login
    Login,    ///< a login, if users are configured
    Admin,    ///< a login as an administrator
    // The following need a bucket as well, and run with its memory bound to the thread.
    Read,
    Write,   ///< a user with permission to change documents
    Manage,  ///< an administrator
};
constexpr bool needsBucket(Needs needs) noexcept {
    return needs >= Needs::Read;
}

class BucketJob;
class StatJob;

/// The origin of a connection.
struct PeerAddress {
    std::string text{};  ///< numeric; for IPv6 the network, which belongs to one customer
    bool secret{true};   ///< nobody else can read the traffic: loopback or TLS
};

class Session {
  public:
    Session(uint64_t id, bool needsLogin, PeerAddress peer = {})
        : id_(id), needsLogin_(needsLogin), peer_(std::move(peer)) {
        update();
    }

    [[nodiscard]] uint64_t id() const { return id_; }
    [[nodiscard]] const PeerAddress& peer() const { return peer_; }
    /// The permissions are computed when something changes, not at every command.
    [[nodiscard]] bool allows(Needs needs) const {
        return ((allowed_ >> static_cast<unsigned>(needs)) & 1U) != 0;
    }
    [[nodiscard]] bool hasBucket() const {
        return !couchbase_ || !features_.selectBucket || bucketSelected_;
    }
    /// True when logged in, or when no login is needed.
    [[nodiscard]] bool authenticated() const { return !needsLogin_ || !user_.empty(); }

    /// True after HELLO or SELECT_BUCKET: Couchbase semantics. Otherwise plain memcached semantics
    /// in the default bucket: keys are mapped to vBuckets here, values end at 1 MiB, DELETE answers
    /// CAS 0, and an oversized key closes the connection.
    [[nodiscard]] bool couchbase() const { return couchbase_; }

    // --- negotiated by HELLO; a second HELLO starts over
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
    /// Counts the session in `waiting` until a login succeeds. Returns false if it is counted, or
    /// need not log in.
    bool awaitLogin(std::atomic<uint32_t>& waiting) {
        if (authenticated() || waiting_) {
            return false;
        }
        waiting_ = ConnectionSlot(waiting);
        return true;
    }
    [[nodiscard]] const std::string& user() const { return user_; }
    std::optional<SaslExchange>& login() { return login_; }
    /// `place` is one of the connections of users, and empty for an administrator.
    void loggedIn(std::string user, Role role, ConnectionSlot place = {}) {
        user_ = std::move(user);
        role_ = role;
        waiting_ = {};
        place_ = std::move(place);
        failedLogins_ = 0;
        update();
    }
    /// Gives back the place of an earlier login.
    void leave() { place_ = {}; }
    /// Also forgets an earlier login, and ends what was opened for that user. Returns the number of
    /// consecutive failed logins.
    unsigned loginFailed() {
        user_.clear();
        leave();
        conversation_.reset();
        update();
        return ++failedLogins_;
    }

    /// True once per connection and config if the client asked for it: then later NotMyVbucket
    /// answers need not repeat the config.
    bool shouldSendConfig(protocol::ConfigVersion version) {
        if (features_.dedupeNotMyVbucket && configSent_ == version) {
            return false;
        }
        configSent_ = version;
        return true;
    }

    // --- a request that waits and is executed again until it can be answered
    /// True while the current request has waited for less than `patience` since its first call.
    bool waits(std::chrono::steady_clock::time_point now, std::chrono::seconds patience) {
        waitsSince_ = waitsSince_ ? waitsSince_ : now;
        if (now - *waitsSince_ < patience) {
            return true;
        }
        endWait();
        return false;
    }
    void endWait() { waitsSince_.reset(); }

    /// The STAT job that the request waits for; nullptr if none.
    std::shared_ptr<StatJob>& statJob() { return statJob_; }
    /// The bucket job that the request waits for; nullptr if none.
    std::shared_ptr<const BucketJob>& bucketJob() { return bucketJob_; }

    // --- DCP
    /// The object that makes the connection send unasked; nullptr on most connections.
    [[nodiscard]] Conversation* conversation() const { return conversation_.get(); }
    void converse(std::unique_ptr<Conversation> conversation) {
        conversation_ = std::move(conversation);
    }
    /// Wakes this connection. It is made on first use and connected by the connection.
    const std::shared_ptr<Waker>& waker() {
        if (!waker_) {
            waker_ = std::make_shared<Waker>();
        }
        return waker_;
    }
    /// After this call nobody wakes the connection any more.
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
    const PeerAddress peer_;
    bool couchbase_{false};
    bool bucketSelected_{false};
    std::optional<protocol::ConfigVersion> configSent_;
    unsigned allowed_{0};  ///< one bit for each of Needs
    Role role_{Role::ReadOnly};
    Features features_;
    unsigned failedLogins_{0};
    std::optional<std::chrono::steady_clock::time_point> waitsSince_;
    std::shared_ptr<StatJob> statJob_;
    std::shared_ptr<const BucketJob> bucketJob_;
    std::string user_;
    ConnectionSlot waiting_;  ///< for its login
    ConnectionSlot place_;    ///< among the connections of users
    std::string agent_;
    std::optional<SaslExchange> login_;
    std::shared_ptr<Waker> waker_;
    std::unique_ptr<Conversation> conversation_;
};

}  // namespace kv::server
