#pragma once

// One thread of `consistency_checker`: batches of GET and SET on its own keys while the cluster
// changes.
//
// Nobody else writes these keys, and each key has at most one operation in progress. So the CAS of
// the last acknowledged write tells what the server must have: every GET is compared with it, and
// every SET demands it. A document that is absent or older is an acknowledged write that was lost.
// It is counted when it is found, and the version found becomes the expected one, so that no loss
// is counted twice.
//
// An operation that is refused as "not my vBucket" is sent again by the newest map, and so is one
// whose connection was lost. It is unknown whether a SET on a lost connection was carried out: the
// document is read first, and the SET is sent again only if it was not.
//
// A batch is complete when all its operations are, as in libcouchbase: a connection does nothing
// else while one of them waits for its vBucket.

#include <poll.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "load/core/channel.h"
#include "load/core/random.h"
#include "load/core/recorder.h"
#include "load/core/value_source.h"
#include "load/generators/access_plan.h"
#include "load/generators/consistency_checker.h"
#include "load/protocols/binary_reader.h"
#include "load/protocols/key_codec.h"
#include "load/protocols/request_writer.h"
#include "load/protocols/session.h"

namespace kv::load {

/// The findings about documents and cluster.
struct Findings {
    std::uint64_t lost = 0;          // acknowledged writes: the document is absent or older
    std::uint64_t foreign = 0;       // documents that are newer than anything that was written here
    std::uint64_t absent = 0;        // GETs that found nothing
    std::uint64_t notMyVbucket = 0;  // answers that redirected an operation
    std::uint64_t brokenOff = 0;     // operations whose connection was lost before their answer
    std::uint64_t maps = 0;          // newer maps that were taken

    void add(const Findings& other) noexcept;
};

/// A phase as a thread receives it.
struct ConsistencyCheckerPhase {
    enum class What : std::uint8_t {
        kLearn,  // GET of every key; the versions found are the expected ones
        kMix,    // GET and SET until it is stopped
        kCheck,  // GET of every key, compared
    };
    What what;
    Nanos until = kNever;
    const std::atomic<bool>& stop;  // nothing new is begun; operations in progress are completed
    Recorder& recorder;
};

class ConsistencyCheckerWorker {
  public:
    /// Refers to all of them; they outlive it. `lanes`: the range of all connections that it uses.
    ConsistencyCheckerWorker(const ConsistencyCheckerOptions& options, LaneRange lanes,
                             const KeyCodec& keys, const ValueSource& values);

    /// Connects to every server of the cluster. Throws LoadError.
    void connect();
    /// Runs a phase. Throws Stalled if no operation has been completed for --op-timeout although
    /// some are in progress, LoadError if a server violates the protocol.
    void run(const ConsistencyCheckerPhase& phase);

    /// Returns the findings since the last call.
    Findings takeFindings() { return std::exchange(findings_, {}); }
    /// For the mixed phase: operations without an error that were completed in each millisecond.
    const std::vector<std::uint32_t>& perMilli() const noexcept { return perMilli_; }

  private:
    enum class Kind : std::uint8_t {
        kGet,
        kSet,
        kAfterBreak,    // reads a document after the connection of its SET was lost
        kAfterRefusal,  // reads a document whose version did not match a SET
        kMap,
    };
    struct Op {
        Kind kind = Kind::kGet;
        std::uint32_t opaque = 0;
        std::uint64_t key = 0;
        Nanos at = 0;  // begin of its batch
        // A SET of it lost its connection, and may be carried out at any time.
        bool mayBeMade = false;
    };
    struct Link {
        ClusterMap::Server server{};
        std::unique_ptr<Channel> channel{};  // empty: not connected
        BinaryReader reader{};
        std::deque<Op> waiting{};  // in the order of their answers
        bool mapAsked = false;
        Nanos tryAgain = 0;  // not connected: when to try
    };
    struct Lane {
        Random random;
        std::uint64_t first;
        std::vector<std::uint64_t> cas;  // by key; 0: there is no document
        std::vector<bool> busy;          // by key
        std::vector<Link> links{};       // by server of the map
        std::vector<Op> parked{};        // to be sent when their vBucket is served again
        Nanos sendAgain = 0;             // time of that attempt
        std::uint64_t cursor = 0;        // the next key that is read in order
        std::uint32_t unanswered = 0;    // operations of the batch
        std::uint32_t opaque = 0;

        std::uint64_t& casOf(std::uint64_t key) { return cas[key - first]; }
        std::uint64_t size() const { return cas.size(); }
    };
    struct News {
        std::string map;
        ClusterMap::Server from;
    };

    static bool ended(const Lane& lane, const ConsistencyCheckerPhase& phase, Nanos now);
    void beginBatch(Lane& lane, const ConsistencyCheckerPhase& phase, Nanos now);
    Op drawn(Lane& lane, Nanos now);
    void send(Lane& lane, Op op);
    /// Writes the request into request_ and returns its size.
    std::size_t write(Lane& lane, const Op& op);
    void sendParked(Lane& lane, Nanos now);
    void park(Lane& lane, const Op& op);
    void flush(Lane& lane);

    /// Waits for answers and reads them.
    void wait(const ConsistencyCheckerPhase& phase);
    void read(Lane& lane, Link& link, const ConsistencyCheckerPhase& phase);
    void answered(Lane& lane, Link& link, const protocol::Header& header, protocol::Bytes body,
                  const ConsistencyCheckerPhase& phase, Nanos now);
    void getAnswer(Lane& lane, Op op, const protocol::Header& header,
                   const ConsistencyCheckerPhase& phase, Nanos now);
    void setAnswer(Lane& lane, Op op, const protocol::Header& header,
                   const ConsistencyCheckerPhase& phase, Nanos now);
    /// Compares the server's version of a key with the expected one; the server's version is the
    /// expected one from here on.
    void compare(Lane& lane, std::uint64_t key, std::uint64_t cas);
    void complete(Lane& lane, const Op& op, OpKind kind, protocol::Status status,
                  const ConsistencyCheckerPhase& phase, Nanos now);

    void lose(Lane& lane, Link& link, const std::string& why);
    void reconnect(Nanos now);
    void askForMap(Nanos now);
    void takeNews();
    void follow(Lane& lane);

    const ConsistencyCheckerOptions& options_;
    const LaneRange range_;
    const KeyCodec& keys_;
    const ValueSource& values_;
    const std::uint64_t setBelow_;
    std::optional<RequestWriter> requests_;
    std::vector<Lane> lanes_;
    ClusterMap map_;
    std::vector<std::uint8_t> request_;  // the request that is being made
    std::vector<pollfd> polled_;         // by lane and link
    std::vector<News> news_;
    bool wantMap_ = false;
    Nanos askAgain_ = 0;
    Nanos lastService_ = 0;
    std::string trouble_;  // the last error, for a message
    Findings findings_;
    std::vector<std::uint32_t> perMilli_;
};

}  // namespace kv::load
