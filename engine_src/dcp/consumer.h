// Consumer: the receiving side of one DCP connection: passive streams of many vBuckets, the
// messages that they hold back while memory is short, and the bytes that may be acknowledged.
//
// There is one slot per vBucket for its stream. The task that drains the streams visits all slots;
// whether it tests a slot before or after it copies the ref-counted stream is a policy
// (options/dcp_consumer_probe.h). Threads: receive(), addStream() and closeStream() by the
// connection's thread; processBuffered() by one background task at a time; everything else by any.
// Memory: under a BucketMemoryGuard of the bucket. Ownership: the bucket outlives it.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "bucket/bucket.h"
#include "dcp/passive_stream.h"
#include "options/selected/dcp_consumer_probe.h"

namespace kv::dcp {

struct ConsumerStats {
    uint64_t messages{0};
    uint64_t bytes{0};
    uint64_t heldBack{0};  ///< messages that were buffered first
    uint64_t refused{0};
};

/// One vBucket's stream, or none. Testing is one load; copying takes a spin lock while the
/// reference count is incremented, as the historic ref-counted pointer did.
class StreamSlot {
  public:
    [[nodiscard]] bool test() const { return taken_.load(std::memory_order_acquire); }
    [[nodiscard]] std::shared_ptr<PassiveStream> copy() const {
        const Spin spin(busy_);
        return stream_;
    }
    void set(std::shared_ptr<PassiveStream> stream) {
        const Spin spin(busy_);
        stream_.swap(stream);  // the old one is freed after the lock
        taken_.store(stream_ != nullptr, std::memory_order_release);
    }
    /// Removes the stream and returns it; with `only`, that one or none.
    std::shared_ptr<PassiveStream> take(const PassiveStream* only = nullptr) {
        const Spin spin(busy_);
        if (only != nullptr && stream_.get() != only) {
            return nullptr;
        }
        taken_.store(false, std::memory_order_release);
        return std::exchange(stream_, nullptr);
    }

  private:
    class Spin {
      public:
        explicit Spin(std::atomic_flag& busy) : busy_(busy) {
            while (busy_.test_and_set(std::memory_order_acquire)) {
                std::this_thread::yield();
            }
        }
        Spin(const Spin&) = delete;
        Spin& operator=(const Spin&) = delete;
        ~Spin() { busy_.clear(std::memory_order_release); }

      private:
        std::atomic_flag& busy_;
    };

    std::atomic<bool> taken_{false};
    mutable std::atomic_flag busy_;
    std::shared_ptr<PassiveStream> stream_;  ///< guarded by busy_
};

template <class Probe>
class BasicConsumer {
  public:
    /// Above this share of the quota, messages are held back instead of applied.
    static constexpr double kThrottle = 0.99;
    /// Messages of one stream that the task applies before it continues with the next.
    static constexpr size_t kBatch = 10;

    explicit BasicConsumer(Bucket& bucket) : bucket_(bucket), slots_(bucket.vbucketCount()) {}
    BasicConsumer(const BasicConsumer&) = delete;
    BasicConsumer& operator=(const BasicConsumer&) = delete;

    void addStream(Vbid vbid, uint32_t opaque) {
        slots_[vbid.get()].set(std::make_shared<PassiveStream>(bucket_.vbucket(vbid), opaque));
    }
    /// When it returns, nothing of the stream is applied any more. Messages that it held back count
    /// as applied for the producer's flow control.
    void closeStream(Vbid vbid) { close(slots_[vbid.get()].take()); }
    [[nodiscard]] bool hasStream(Vbid vbid) const { return slots_[vbid.get()].test(); }
    [[nodiscard]] std::shared_ptr<PassiveStream> findStream(Vbid vbid) const {
        return vbid.get() < slots_.size() ? slots_[vbid.get()].copy() : nullptr;
    }

    /// Handles a message of the producer. Ended or Refused: the stream is gone.
    Applied receive(Message message, const OpTime& now) {
        const Vbid vbid = message.vbid;
        const auto stream = findStream(vbid);
        const size_t bytes = message.wireSize();
        ++messages_;
        bytes_ += bytes;
        if (!stream || stream->opaque() != message.opaque) {
            // A message of a stream that has been closed in the meantime.
            unacknowledged_ += bytes;
            return Applied::Ok;
        }
        const bool hold = isShort();
        heldBack_ += hold ? 1U : 0U;
        Acknowledging applied(unacknowledged_);
        return finish(*stream, stream->receive(std::move(message), hold, now, applied.bytes));
    }

    /// Applies held-back messages, a batch of every stream. Returns true if some are left. Does
    /// nothing while memory is still short.
    bool processBuffered(const OpTime& now) {
        bool left = false;
        for (size_t i = 0; i < slots_.size(); ++i) {
            const auto stream = Probe::take(slots_[i]);
            if (!stream) {
                continue;
            }
            if (!isShort()) {
                Acknowledging applied(unacknowledged_);
                finish(*stream, stream->processBuffered(kBatch, now, applied.bytes));
            }
            left = left || stream->buffered() != 0;
        }
        return left;
    }

    /// Returns the bytes to acknowledge to the producer now; 0 until there are at least `least`.
    size_t takeAcknowledgement(size_t least) {
        return unacknowledged_.load() < least ? 0 : unacknowledged_.exchange(0);
    }
    /// Forgets pending acknowledgements on a new connection: the former producer no longer waits
    /// for them.
    void forgetAcknowledgement() { unacknowledged_.store(0); }
    [[nodiscard]] ConsumerStats stats() const { return {messages_, bytes_, heldBack_, refused_}; }

  private:
    /// Counts the applied bytes, also if the rest found no memory.
    struct Acknowledging {
        explicit Acknowledging(std::atomic<size_t>& total) : total_(total) {}
        Acknowledging(const Acknowledging&) = delete;
        Acknowledging& operator=(const Acknowledging&) = delete;
        ~Acknowledging() { total_ += bytes; }

        size_t bytes{0};

      private:
        std::atomic<size_t>& total_;
    };

    [[nodiscard]] bool isShort() const {
        return static_cast<double>(bucket_.memory().estimate()) >
               kThrottle * static_cast<double>(bucket_.memory().quota());
    }
    void close(const std::shared_ptr<PassiveStream>& stream) {
        if (stream) {
            unacknowledged_ += stream->close();
        }
    }
    Applied finish(const PassiveStream& stream, Applied applied) {
        if (applied != Applied::Ok) {
            refused_ += applied == Applied::Refused ? 1U : 0U;
            // The vBucket may have another stream by now.
            close(slots_[stream.vbid().get()].take(&stream));
        }
        return applied;
    }

    Bucket& bucket_;
    std::vector<StreamSlot> slots_;
    std::atomic<size_t> unacknowledged_{0};
    std::atomic<uint64_t> messages_{0};
    std::atomic<uint64_t> bytes_{0};
    std::atomic<uint64_t> heldBack_{0};
    std::atomic<uint64_t> refused_{0};
};

using Consumer = BasicConsumer<options::SelectedDcpConsumerProbe>;

}  // namespace kv::dcp
