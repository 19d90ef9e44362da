#pragma once

// One thread of `witness`: batches of GET and SET on keys of its own, while the cluster changes.
//
// Nobody else writes these keys, and of each key one operation at a time is under way. So the CAS
// of the last acknowledged write says what the server must have: every GET is compared with it,
// every SET demands it. A document that is absent or older is an acknowledged write that was lost;
// it is counted when it is met, and what was found is then the truth, so that no loss is counted
// twice.
//
// An operation that is refused as "not my vBucket" is sent again by the newest map, and so is one
// whose connection was lost. Nobody knows whether a SET that was broken off has been made: the
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

#include "load/access_plan.h"
#include "load/channel.h"
#include "load/random.h"
#include "load/recorder.h"
#include "load/session.h"
#include "load/witness_options.h"

namespace kv::load {

/// What was found out about documents and cluster.
struct Findings {
    std::uint64_t lost = 0;          // acknowledged writes: the document is absent or older
    std::uint64_t foreign = 0;       // documents that are newer than anything that was written here
    std::uint64_t absent = 0;        // GETs that found nothing
    std::uint64_t notMyVbucket = 0;  // answers that sent an operation elsewhere
    std::uint64_t brokenOff = 0;     // operations whose connection was lost before their answer
    std::uint64_t maps = 0;          // newer ones that were taken

    void add(const Findings& other) noexcept;
};

/// A phase as a thread is told of it.
struct WitnessPhase {
    enum class What : std::uint8_t {
        kLearn,  // GET of every key; what is found is the truth
        kMix,    // GET and SET until it is stopped
        kCheck,  // GET of every key, compared
    };
    What what;
    Nanos until = kNever;
    const std::atomic<bool>& stop;  // nothing new is begun; what is under way is completed
    Recorder& recorder;
};

class WitnessWorker {
  public:
    /// Refers to all of them; they outlive it. `lanes`: which of all connections are its own.
    WitnessWorker(const WitnessOptions& options, LaneRange lanes, const KeyCodec& keys,
                  const ValueSource& values);

    /// To every server of the cluster. Throws LoadError.
    void connect();
    /// Throws Stalled when no operation has been completed for --op-timeout although some are under
    /// way, LoadError when a server says what it must not.
    void run(const WitnessPhase& phase);

    /// Since the last call.
    Findings takeFindings() { return std::exchange(findings_, {}); }
    /// Of the mixed phase: operations without an error that were completed in each millisecond.
    const std::vector<std::uint32_t>& perMilli() const noexcept { return perMilli_; }

  private:
    enum class Kind : std::uint8_t {
        kGet,
        kSet,
        kAfterBreak,    // reads a document of which a SET was broken off
        kAfterRefusal,  // reads a document that was not as a SET demanded
        kMap,
    };
    struct Op {
        Kind kind = Kind::kGet;
        std::uint32_t opaque = 0;
        std::uint64_t key = 0;
        Nanos at = 0;            // begin of its batch
        bool mayBeMade = false;  // a SET of it lost its connection, and may be made at any time
    };
    struct Link {
        ClusterMap::Server server{};
        std::unique_ptr<Channel> channel{};  // empty: not connected
        std::deque<Op> waiting{};            // in the order of their answers
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
        Nanos sendAgain = 0;             // when to try that
        std::uint64_t cursor = 0;        // of the next key that is read in order
        std::uint32_t unanswered = 0;    // operations of the batch
        std::uint32_t opaque = 0;

        std::uint64_t& casOf(std::uint64_t key) { return cas[key - first]; }
        std::uint64_t size() const { return cas.size(); }
    };
    struct News {
        std::string map;
        ClusterMap::Server from;
    };

    static bool ended(const Lane& lane, const WitnessPhase& phase, Nanos now);
    void beginBatch(Lane& lane, const WitnessPhase& phase, Nanos now);
    Op drawn(Lane& lane, Nanos now);
    void send(Lane& lane, Op op);
    /// Into request_.
    std::size_t write(Lane& lane, const Op& op);
    void sendParked(Lane& lane, Nanos now);
    void park(Lane& lane, const Op& op);
    void flush(Lane& lane);

    /// For answers, and reads them.
    void wait(const WitnessPhase& phase);
    void read(Lane& lane, Link& link, const WitnessPhase& phase);
    void answered(Lane& lane, Link& link, const protocol::Header& header, protocol::Bytes body,
                  const WitnessPhase& phase, Nanos now);
    void getAnswer(Lane& lane, Op op, const protocol::Header& header, const WitnessPhase& phase,
                   Nanos now);
    void setAnswer(Lane& lane, Op op, const protocol::Header& header, const WitnessPhase& phase,
                   Nanos now);
    /// What the server has of a key, compared with what it must have; from here on it is the truth.
    void compare(Lane& lane, std::uint64_t key, std::uint64_t cas);
    void complete(Lane& lane, const Op& op, OpKind kind, protocol::Status status,
                  const WitnessPhase& phase, Nanos now);

    void lose(Lane& lane, Link& link, const std::string& why);
    void reconnect(Nanos now);
    void askForMap(Nanos now);
    void takeNews();
    void follow(Lane& lane);

    const WitnessOptions& options_;
    const LaneRange range_;
    const KeyCodec& keys_;
    const ValueSource& values_;
    const std::uint64_t setBelow_;
    std::optional<RequestWriter> requests_;
    std::vector<Lane> lanes_;
    ClusterMap map_;
    std::vector<std::uint8_t> request_;  // one that is being made
    std::vector<pollfd> polled_;         // by lane and link
    std::vector<News> news_;
    bool wantMap_ = false;
    Nanos askAgain_ = 0;
    Nanos lastService_ = 0;
    std::string trouble_;  // the last one that was met, for a message
    Findings findings_;
    std::vector<std::uint32_t> perMilli_;
};

}  // namespace kv::load
