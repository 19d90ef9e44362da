// ConsumerBench: the receiving side of a DCP connection walks one slot a vBucket to drain what its
// streams hold back (dcp/consumer.h). Most slots are empty, and what is paid for those is the
// build switch dcp_consumer_probe.
//
//   Drain/N                one walk over 1024 slots, N of which have a stream with nothing to drain
//   DrainBesideReceiver/N  the same while the connection's thread looks up the streams of messages
//   ReceiverBesideDrain/N  such a look-up, while the task walks again and again
//
// The historic walk was 20 to 30 % of its thread; no time of a walk was published.
#include <benchmark/benchmark.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "benchmarks/own_cpu.h"
#include "benchmarks/pass.h"
#include "benchmarks/registry.h"
#include "dcp/consumer.h"

namespace kv {
namespace {

constexpr uint16_t kSlots = 1024;

/// A consumer whose streams are spread evenly over its vBuckets.
class Receiver {
  public:
    explicit Receiver(size_t streams) : step_(kSlots / streams) {
        for (size_t vb = 0; vb < kSlots; vb += step_) {
            const Vbid vbid{static_cast<uint16_t>(vb)};
            bucket_->setVBucketState(vbid, VbState::Replica, now_);
            consumer_.addStream(vbid, 1);
        }
    }
    /// Runs the work of the task.
    bool drain() { return consumer_.processBuffered(now_); }
    /// Looks up the stream of a message, of one stream after the other.
    std::shared_ptr<dcp::PassiveStream> lookUp() {
        next_ = (next_ + step_) % kSlots;
        return consumer_.findStream(Vbid{static_cast<uint16_t>(next_)});
    }
    Bucket& bucket() { return *bucket_; }

  private:
    static std::unique_ptr<Bucket> makeBucket() {
        BucketConfig config;
        config.vbuckets = kSlots;
        return Bucket::createEphemeral(config);
    }

    OpTime now_ = OpTime::now();
    std::unique_ptr<Bucket> bucket_ = makeBucket();
    BucketMemoryGuard guard_{bucket_->memory()};
    dcp::Consumer consumer_{*bucket_};
    size_t step_;
    size_t next_ = 0;
};

/// The timed code does not change it, so any number of runs may share it.
Receiver& receiverOf(size_t streams) {
    return bench::Pass::current().open<Receiver>(
            std::to_string(streams), 0, [&] { return std::make_unique<Receiver>(streams); });
}

/// A thread that repeats a function while this object lives, on another CPU if there are two.
class Beside {
  public:
    template <class Work>
    Beside(Bucket& bucket, Work work)
        : thread_([this, &bucket, work] {
              const bench::OwnCpu own(1, 2);
              const BucketMemoryGuard guard(bucket.memory());
              for (running_ = true; !stop_.load(std::memory_order_relaxed);) {
                  work();
              }
          }) {
        while (!running_) {
            std::this_thread::yield();
        }
    }
    Beside(const Beside&) = delete;
    Beside& operator=(const Beside&) = delete;
    ~Beside() {
        stop_ = true;
        thread_.join();
    }

  private:
    std::atomic<bool> running_{false};
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

void timedDrain(benchmark::State& state, Receiver& receiver) {
    bool left = false;
    for (auto _ : state) {
        left |= receiver.drain();
    }
    if (left) {
        state.SkipWithError("a stream holds something back");
    }
}

void drain(benchmark::State& state, size_t streams) {
    timedDrain(state, receiverOf(streams));
}

void drainBesideReceiver(benchmark::State& state, size_t streams) {
    Receiver& receiver = receiverOf(streams);
    const Beside beside(receiver.bucket(),
                        [&] { benchmark::DoNotOptimize(receiver.lookUp().get()); });
    const bench::OwnCpu own(0, 2);
    timedDrain(state, receiver);
}

void receiverBesideDrain(benchmark::State& state, size_t streams) {
    Receiver& receiver = receiverOf(streams);
    const Beside beside(receiver.bucket(), [&] { receiver.drain(); });
    const bench::OwnCpu own(0, 2);
    bool missed = false;
    for (auto _ : state) {
        missed |= receiver.lookUp() == nullptr;
    }
    if (missed) {
        state.SkipWithError("a stream is not there");
    }
}

void registerAll() {
    for (const size_t streams : {size_t{1}, size_t{16}, size_t{256}, size_t{1024}}) {
        const auto name = [&](const char* family) {
            return "ConsumerBench/" + std::string(family) + "/" + std::to_string(streams);
        };
        bench::add(name("Drain"), drain, streams);
        bench::add(name("DrainBesideReceiver"), drainBesideReceiver, streams)->UseRealTime();
        bench::add(name("ReceiverBesideDrain"), receiverBesideDrain, streams)->UseRealTime();
    }
}

const bool kRegistered = (registerAll(), true);

}  // namespace
}  // namespace kv
