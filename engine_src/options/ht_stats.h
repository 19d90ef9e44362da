// Build switch ENGINE_HT_STATS: how the statistics of a hash table are spread over stripes, so that
// CPUs do not contend for one cache line. Each policy exists with and without cache-line padding of
// its stripes (ht_stats_padded.h).
//
//   single   one set of counters, inside the hash table itself (the historic "before")
//   llc      one per last-level cache
//   core     one per CPU
//   N        a fixed number of stripes; CPUs are spread over them in locality order
//
// Every policy has: kName, stripes(topology), stripeOf(topology, cpu), and Store<T>: local()
// returns the stripe of the CPU on which the thread runs (a hint: T's members must be atomic),
// forEach() visits all of them, bytes() returns their size. A stripe may be negative; the sum over
// all is not, and it is exact while nobody changes it.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "options/current_cpu.h"
#include "options/digits.h"
#include "options/topology.h"

namespace kv::options {

inline constexpr size_t kCacheLine = 64;

/// One stripe; padded to whole cache lines on request.
template <class T, bool Padded>
struct HtStripe {
    T counters;
};
template <class T>
struct alignas(kCacheLine) HtStripe<T, true> {
    T counters;
};

/// Stripes in an array outside the table; `Policy` determines their number and the one that a CPU
/// uses.
template <class Policy, class T, bool Padded>
class StripedStore {
  public:
    explicit StripedStore(const Topology& topology)
        : topology_(&topology), count_(Policy::stripes(topology)), stripes_(new Stripe[count_]) {}

    T& local() noexcept { return stripes_[Policy::stripeOf(*topology_, currentCpu())].counters; }
    template <class Visit>
    void forEach(Visit visit) const {
        for (unsigned i = 0; i < count_; ++i) {
            visit(stripes_[i].counters);
        }
    }
    template <class Visit>
    void forEach(Visit visit) {
        for (unsigned i = 0; i < count_; ++i) {
            visit(stripes_[i].counters);
        }
    }
    [[nodiscard]] unsigned stripes() const { return count_; }
    [[nodiscard]] size_t bytes() const { return count_ * sizeof(Stripe); }

  private:
    using Stripe = HtStripe<T, Padded>;
    const Topology* topology_;
    unsigned count_;
    std::unique_ptr<Stripe[]> stripes_;
};

/// The counters themselves, without determining the CPU.
template <class T, bool Padded>
class SingleStore {
  public:
    explicit SingleStore(const Topology&) {}

    T& local() noexcept { return stripe_.counters; }
    template <class Visit>
    void forEach(Visit visit) const {
        visit(stripe_.counters);
    }
    template <class Visit>
    void forEach(Visit visit) {
        visit(stripe_.counters);
    }
    [[nodiscard]] unsigned stripes() const { return 1; }
    [[nodiscard]] size_t bytes() const { return sizeof(stripe_); }

  private:
    HtStripe<T, Padded> stripe_;
};

template <bool Padded>
struct SingleHtStats {
    static constexpr bool kPadded = Padded;
    static constexpr std::string_view kName = "single";
    static unsigned stripes(const Topology&) { return 1; }
    static unsigned stripeOf(const Topology&, unsigned) { return 0; }
    template <class T>
    using Store = SingleStore<T, Padded>;
};

template <bool Padded>
struct LlcHtStats {
    static constexpr bool kPadded = Padded;
    static constexpr std::string_view kName = "llc";
    static unsigned stripes(const Topology& topology) { return topology.lastLevelCaches(); }
    static unsigned stripeOf(const Topology& topology, unsigned cpu) {
        return topology.cacheOf(cpu);
    }
    template <class T>
    using Store = StripedStore<LlcHtStats, T, Padded>;
};

template <bool Padded>
struct CoreHtStats {
    static constexpr bool kPadded = Padded;
    static constexpr std::string_view kName = "core";
    static unsigned stripes(const Topology& topology) { return topology.cpus(); }
    static unsigned stripeOf(const Topology& topology, unsigned cpu) {
        return topology.localityOf(cpu);
    }
    template <class T>
    using Store = StripedStore<CoreHtStats, T, Padded>;
};

template <unsigned N, bool Padded>
struct FixedHtStats {
    static_assert(N > 0);
    static constexpr bool kPadded = Padded;
    static constexpr std::string_view kName = kDigits<N>;
    static unsigned stripes(const Topology&) { return N; }
    static unsigned stripeOf(const Topology& topology, unsigned cpu) {
        const unsigned cpus = topology.cpus();
        // Fewer stripes than CPUs: neighbours share one. Otherwise every CPU has one.
        return cpus > N ? topology.localityOf(cpu) * N / cpus : topology.localityOf(cpu);
    }
    template <class T>
    using Store = StripedStore<FixedHtStats, T, Padded>;
};

}  // namespace kv::options
