#pragma once

// For the tests of this room: a server on loopback inside the test's process, with faults to order.
//
// One thread per connection, blocking sockets. The contents may be read after the clients have
// ended. The destructor closes everything and joins.

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

#include "load/socket.h"
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
    /// `demanded`: the CAS that the document must have; 0: any. Gives the new CAS.
    protocol::Status set(const std::string& key, std::string value, std::uint64_t demanded,
                         std::uint64_t& cas);
    /// So many SETs from now on are made only after the next GET of their document was answered,
    /// and their connection is lost.
    void delay(std::size_t sets);
    /// Whether this SET is one of them.
    bool isDelayed(const std::string& key, std::string value, std::uint64_t demanded);
    /// Those that are made now.
    [[nodiscard]] std::size_t madeLate();
    /// Takes the last version of a document away: it has the one before, or is gone.
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
    std::string mechanisms{};  // answer to SASL_LIST_MECHS; PLAIN only is understood
    std::uint32_t vbuckets = 64;
    std::uint32_t tmpfailEvery = 0;       // each n-th SET is refused with Etmpfail
    std::uint32_t enomemEvery = 0;        // each n-th SET is refused with Enomem
    std::uint32_t notMyVbucketEvery = 0;  // each n-th GET
    std::uint32_t closeAfter = 0;         // data requests after which the connection is dropped
    std::uint32_t silentAfter = 0;        // data requests after which nothing is answered
    std::uint32_t dribble = 0;            // answers leave in pieces of so many bytes
    bool shuffleOpaques = false;          // answers carry wrong opaques
    bool keepRequests = false;            // for requests()
    std::map<std::string, std::string> stats{};
    std::uint32_t queueDrainsAfter = 0;  // ep_queue_size is "5" for so many STATs, then "0"
    /// Writes get a CAS and are refused where they demand another; several servers may share
    /// `documents`, as copies that are always in sync.
    std::shared_ptr<FakeDocuments> documents{};
};

class FakeServer {
  public:
    explicit FakeServer(FakeServerOptions options = {});
    ~FakeServer();
    FakeServer(const FakeServer&) = delete;
    FakeServer& operator=(const FakeServer&) = delete;

    std::uint16_t port() const noexcept { return port_; }
    /// What GET_CLUSTER_CONFIG answers from now on, instead of a map of this server alone.
    void publish(std::string config);
    /// From now on "not my vBucket" is the answer for all but these; at first all are served.
    void serveOnly(std::set<std::uint16_t> vbuckets);
    /// From now on requests are carried out, and not answered.
    void mute() { muted_ = true; }
    /// As a process that was killed: all connections are closed, none is taken any more.
    void kill();
    /// key -> value
    std::map<std::string, std::string> contents();
    /// Keys whose request came with another vBucket than the map's; must be empty.
    std::set<std::string> misrouted();
    /// "G key" and "S key" of all data requests, in the order of a connection; of several
    /// connections intermingled.
    std::vector<std::string> requests();
    std::uint64_t gets() const noexcept { return gets_; }
    std::uint64_t sets() const noexcept { return sets_; }
    std::uint64_t sessions() const noexcept { return hellos_; }

  private:
    void accept();
    void serve(int fd);
    /// Appends the answer; false: drop the connection.
    bool answer(const protocol::FrameView& request, std::vector<std::uint8_t>& out);
    void answerStat(const protocol::FrameView& request, std::vector<std::uint8_t>& out);
    bool answerData(const protocol::FrameView& request, protocol::FrameSpec& spec,
                    std::string& value);
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
    std::atomic<std::uint64_t> statsAsked_{0};
    std::vector<std::thread> threads_;  // guarded by mutex_
    std::thread acceptor_;
};

}  // namespace kv::load
