// Session: what the protocol knows of one connection: who it is, what it negotiated, which bucket
// it uses.
//
// Owned by its connection and touched by that connection's front-end thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "server/conversation.h"
#include "server/sasl.h"

namespace kv::server {

/// Whether data commands may run, decided when something changes instead of at every command.
enum class DataAccess : uint8_t { Granted, NotAuthenticated, NoBucket };

class Session {
  public:
    Session(uint64_t id, bool needsLogin) : id_(id), needsLogin_(needsLogin) { update(); }

    [[nodiscard]] uint64_t id() const { return id_; }
    [[nodiscard]] DataAccess dataAccess() const { return access_; }
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
    void loggedIn(std::string user) {
        user_ = std::move(user);
        failedLogins_ = 0;
        update();
    }
    /// Forgets who was logged in before, too; returns how often login has failed in a row.
    unsigned loginFailed() {
        user_.clear();
        update();
        return ++failedLogins_;
    }

    /// True once per connection when the client asked for it: the config need not be repeated in
    /// every NotMyVbucket.
    bool shouldSendConfig() {
        if (features_.dedupeNotMyVbucket && configSent_) {
            return false;
        }
        configSent_ = true;
        return true;
    }

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
        if (needsLogin_ && user_.empty()) {
            access_ = DataAccess::NotAuthenticated;
        } else if (couchbase_ && features_.selectBucket && !bucketSelected_) {
            access_ = DataAccess::NoBucket;
        } else {
            access_ = DataAccess::Granted;
        }
    }

    uint64_t id_;
    bool needsLogin_;
    bool couchbase_{false};
    bool bucketSelected_{false};
    bool configSent_{false};
    DataAccess access_{DataAccess::Granted};
    Features features_;
    unsigned failedLogins_{0};
    std::string user_;
    std::string agent_;
    std::optional<SaslExchange> login_;
    std::shared_ptr<Waker> waker_;
    std::unique_ptr<Conversation> conversation_;
};

}  // namespace kv::server
