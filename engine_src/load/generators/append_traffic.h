#pragma once

// One connection of the append workload (on a cluster: one to each server), with many requests in
// flight.
//
// It has two phases: loading (SET of every document, highest id first) and updating (GET, append
// one field, SET of the whole value). Updates of one document never overlap: a second draw of it
// waits until the first is done, so no field is lost and the final contents depend only on the
// seed. A temporary failure is retried until the server takes the value. Threads: one.

#include <cstdint>
#include <memory>
#include <vector>

#include "load/core/event_loop.h"
#include "load/core/random.h"
#include "load/core/recorder.h"
#include "load/generators/append_document.h"
#include "load/protocols/binary_reader.h"
#include "load/protocols/key_codec.h"
#include "load/protocols/request_writer.h"
#include "load/protocols/session.h"

namespace kv::load {

/// The documents of one thread: ids with id % threads == thread.
struct AppendShare {
    std::uint64_t thread = 0;
    std::uint64_t threads = 1;
    std::uint32_t inFlight = 100;  // updates at a time (including drawn and waiting ones)
};

class AppendTraffic : public Traffic {
  public:
    /// Refers to all arguments except `share`; they outlive it.
    AppendTraffic(AppendStore& store, AppendShare share, const RequestWriter& requests,
                  const ClusterMap& routes, Recorder& recorder);

    void begin(std::vector<std::unique_ptr<Channel>>& channels) override;
    void onReadable(Channel& channel, Nanos now) override;
    void onWritable(Channel& channel, Nanos now) override;
    Nanos nextWake() const override { return retry_.empty() ? kNever : retryAt_; }
    void onWake(Nanos now) override;
    void stop() override { stopped_ = true; }
    bool done() const override;
    std::uint64_t inFlight() const override { return inFlight_; }
    bool spreads() const override { return pipes_.size() != 1; }

    /// Number of finished work items: documents loaded, or read-modify-writes.
    std::uint64_t finished() const noexcept { return finished_; }

  protected:
    /// Starts work until nothing more may be started or no slot is free.
    virtual void startMore() = 0;
    virtual bool exhausted() const = 0;
    virtual void onGet(std::uint64_t id, const protocol::Header& header, OpCounts& opCounts) = 0;
    /// Called when the value of `id` is stored (or refused permanently).
    virtual void onStored(std::uint64_t id, bool stored) = 0;
    /// Returns the number of fields that a SET of `id` sends.
    virtual std::uint32_t fieldsToSend(std::uint64_t id) const = 0;

    bool slotFree() const noexcept { return busy_ < share_.inFlight && !full(); }
    void sendGet(std::uint64_t id);
    void sendSet(std::uint64_t id);

    AppendStore& store_;
    AppendShare share_;
    std::uint32_t busy_ = 0;  // slots in use
    std::uint64_t finished_ = 0;
    bool stopped_ = false;

  private:
    struct Request {
        std::uint64_t id = 0;
        Nanos at = 0;
        OpKind kind = OpKind::kGet;
    };

    /// The connection to one server. Answers come in the order of its requests.
    struct Pipe {
        Channel* channel = nullptr;
        BinaryReader reader{};
        std::vector<Request> ring;  // by opaque
        std::uint64_t sent = 0;
        std::uint64_t answered = 0;
    };

    bool full() const noexcept;
    Pipe& pipeOf(std::uint64_t id);
    bool flush();
    void remember(Pipe& pipe, std::uint64_t id, OpKind kind);
    void answer(Pipe& pipe, const protocol::Header& header, Nanos now, OpCounts& opCounts);
    void retryLater(const Request& request, Nanos now);
    void goOn();

    static constexpr std::size_t kHighWater = 1U << 20U;

    const RequestWriter& requests_;
    const ClusterMap& routes_;
    Recorder& recorder_;
    std::vector<Pipe> pipes_;  // by server
    std::uint64_t inFlight_ = 0;
    Nanos now_ = 0;               // send time of the requests that are being written
    std::vector<Request> retry_;  // temporarily refused; sent again at retryAt_
    Nanos retryAt_ = 0;
    Nanos backOff_ = 0;
    Nanos lastTaken_ = 0;
};

/// Stores every document of the share, highest id first, as many at a time as are allowed.
class AppendLoad final : public AppendTraffic {
  public:
    AppendLoad(AppendStore& store, AppendShare share, const RequestWriter& requests,
               const ClusterMap& routes, Recorder& recorder);

    /// Allows this number of further documents.
    void allow(std::uint64_t documents) noexcept { allowed_ += documents; }
    /// True if every document was stored or permanently refused.
    bool complete() const noexcept { return next_ == 0; }

  protected:
    void startMore() override;
    bool exhausted() const override { return next_ == 0 || allowed_ == 0; }
    void onGet(std::uint64_t, const protocol::Header&, OpCounts&) override {}
    void onStored(std::uint64_t id, bool stored) override;
    std::uint32_t fieldsToSend(std::uint64_t id) const override { return store_.fields(id); }

  private:
    std::uint64_t next_;  // id to store next, 0 if none is left
    std::uint64_t allowed_ = 0;
};

/// One pass of read-modify-writes, as many of its draws at a time as are allowed.
class AppendUpdate final : public AppendTraffic {
  public:
    AppendUpdate(AppendStore& store, AppendShare share, const RequestWriter& requests,
                 const ClusterMap& routes, Recorder& recorder, AppendPass pass);

    /// Allows this number of further draws of the pass, counted over all threads' documents.
    void allow(std::uint64_t draws) noexcept { drawsLeft_ += draws; }

  protected:
    void startMore() override;
    bool exhausted() const override { return drawsLeft_ == 0; }
    void onGet(std::uint64_t id, const protocol::Header& header, OpCounts& opCounts) override;
    void onStored(std::uint64_t id, bool stored) override;
    std::uint32_t fieldsToSend(std::uint64_t id) const override { return store_.fields(id) + 1; }

  private:
    AppendPass pass_;
    Random random_;
    std::uint64_t drawsLeft_ = 0;  // of those that are allowed
};

}  // namespace kv::load
