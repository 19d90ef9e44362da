#pragma once

// For the tests of this folder: a server on loopback inside the test's process, with configurable
// faults.
//
// Threads: one per connection, with blocking sockets. The contents may be read after the clients
// have ended. The destructor closes everything and joins.

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "load/core/socket.h"
#include "load/protocols/fake_lines.h"
#include "protocol/frame.h"

namespace kv::load {

/// Documents that have versions. Thread-safe.
class FakeDocuments {
  public:
    struct Found {
        std::string value;
        std::uint64_t cas = 0;  // 0: there is none
    };
    Found get(const std::string& key);
    /// `demanded`: the CAS that the document must have; 0: any. Fills in the new CAS.
    protocol::Status set(const std::string& key, std::string value, std::uint64_t demanded,
                         std::uint64_t& cas);
    /// Delays the next `sets` SETs: each is carried out only after the next GET of its document was
    /// answered, and its connection is lost.
    void delay(std::size_t sets);
    /// Returns true if this SET is one of them.
    bool isDelayed(const std::string& key, std::string value, std::uint64_t demanded);
    /// Returns the number of delayed SETs that have been carried out.
    [[nodiscard]] std::size_t madeLate();
    /// Removes the last version of a document: it has the one before, or is gone.
    void takeBack(const std::string& key);
    std::size_t size();

  private:
    std::mutex mutex_;
    std::map<std::string, std::vector<Found>> versions_;
    std::uint64_t lastCas_ = 0;
    std::size_t toDelay_ = 0;
    std::map<std::string, Found> delayed_;  // with the CAS that they demand
    std::size_t madeLate_ = 0;
};

struct FakeServerOptions {
    Protocol speaks = Protocol::kCouchbase;
    std::string password{};          // for the protocols of lines; the user is "user"
    std::string greeting{};          // a connection receives this and is closed
    std::string getLine{};           // for the protocols of lines: the answer to every GET
    std::uint32_t corruptEvery = 0;  // each n-th GET returns a value with a wrong byte
    std::uint32_t evictEvery = 0;    // each n-th SET is acknowledged and not kept
    std::string mechanisms{};        // answer to SASL_LIST_MECHS; the client knows none of them
    std::uint32_t vbuckets = 64;
    std::uint32_t tmpfailEvery = 0;       // each n-th SET is refused with Etmpfail
    std::uint32_t enomemEvery = 0;        // each n-th SET is refused with Enomem
    std::uint32_t notMyVbucketEvery = 0;  // each n-th GET
    std::uint32_t closeAfter = 0;         // data requests after which the connection is dropped
    std::uint32_t silentAfter = 0;        // data requests after which nothing is answered
    std::uint32_t dribble = 0;            // answers leave in pieces of this many bytes
    bool shuffleOpaques = false;          // answers carry wrong opaques
    bool keepRequests = false;            // for requests()
    std::map<std::string, std::string> stats{};
    std::uint32_t queueDrainsAfter = 0;  // ep_queue_size is "5" for this many STATs, then "0"
    /// Writes get a CAS and are refused if they demand another one; several servers may share
    /// `documents`, as copies that are always in sync.
    std::shared_ptr<FakeDocuments> documents{};
};

class FakeServer : private FakeStore {
  public:
    explicit FakeServer(FakeServerOptions options = {});
    ~FakeServer() override;
    FakeServer(const FakeServer&) = delete;
    FakeServer& operator=(const FakeServer&) = delete;

    std::uint16_t port() const noexcept { return port_; }
    /// Sets the answer to GET_CLUSTER_CONFIG, instead of a map of this server alone.
    void publish(std::string config);
    /// Answers "not my vBucket" from now on for all but these; at first all are served.
    void serveOnly(std::set<std::uint16_t> vbuckets);
    /// Carries out requests from now on without answering them.
    void mute() { muted_ = true; }
    /// Acts like a killed process: closes all connections and accepts no more.
    void kill();
    /// key -> value
    std::map<std::string, std::string> contents();
    /// Returns the keys whose request came with another vBucket than the map's; must be empty.
    std::set<std::string> misrouted();
    /// Returns "G key" and "S key" of all data requests, in the order of a connection; those of
    /// several connections are mixed.
    std::vector<std::string> requests();
    std::uint64_t gets() const noexcept { return gets_; }
    std::uint64_t sets() const noexcept { return sets_; }
    std::uint64_t sessions() const noexcept { return hellos_; }
    /// Number of logins that were begun, by any mechanism.
    std::uint64_t logins() const noexcept { return logins_; }

  private:
    void accept();
    void serve(int fd);
    /// Appends the answer; returns false if the connection is to be dropped.
    bool answer(const protocol::FrameView& request, std::vector<std::uint8_t>& out);
    void answerStat(const protocol::FrameView& request, std::vector<std::uint8_t>& out);
    bool answerData(const protocol::FrameView& request, protocol::FrameSpec& spec,
                    std::string& value);
    /// Counts a data request and returns its number among those of its kind. Empty: it gets no
    /// answer.
    std::optional<std::uint64_t> count(bool get);
    std::optional<protocol::Status> carryOut(bool get, const std::string& key,
                                             std::string_view value, std::string& found) override;
    /// Returns the status that the options require for this request; mutex_ is held.
    protocol::Status getOrSet(bool get, std::uint64_t nth, const std::string& key,
                              std::string_view value, std::string& found);
    /// Takes complete requests off the front of `in`; returns false if the connection is to be
    /// dropped.
    bool answerFrames(std::string& in, std::string& out);
    protocol::Status answerVersioned(const protocol::FrameView& request, protocol::FrameSpec& spec,
                                     std::string& value);

    FakeServerOptions options_;
    Socket listener_;
    std::uint16_t port_ = 0;
    std::mutex mutex_;
    std::map<std::string, std::string> contents_;
    std::set<std::string> misrouted_;
    std::vector<std::string> requests_;
    std::string config_;
    std::optional<std::set<std::uint16_t>> served_;  // empty: all
    std::list<int> open_;
    bool stopping_ = false;
    std::atomic<bool> muted_{false};
    std::atomic<std::uint64_t> gets_{0};
    std::atomic<std::uint64_t> sets_{0};
    std::atomic<std::uint64_t> hellos_{0};
    std::atomic<std::uint64_t> logins_{0};
    std::atomic<std::uint64_t> statsAsked_{0};
    std::vector<std::thread> threads_;  // guarded by mutex_
    std::thread acceptor_;
};

}  // namespace kv::load
