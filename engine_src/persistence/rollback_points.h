// RollbackPoints: seqnos at which the stored data of a vBucket was a consistent state of its
// history, without a partial snapshot. A rollback may end only there, because between two of them
// versions may never have been stored (a snapshot, a checkpoint or a flush had newer ones).
//
// The number is fixed: the newest are close together, older ones further apart, so a rollback goes
// back by little more than it must, at any distance. Plain data, no allocation.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "types/ids.h"

namespace kv {

class RollbackPoints {
  public:
    static constexpr size_t kMax = 16;

    /// Adds `seqno`, which is above all others, or the newest again.
    void add(Seqno seqno) {
        const Seqno newest = count_ != 0 ? seqnos_[count_ - 1] : Seqno{};
        if (seqno <= newest) {
            return;
        }
        if (count_ == kMax) {
            remove(leastMissed(seqno));
        }
        seqnos_[count_++] = seqno;
    }
    /// Returns the newest that is not above `seqno`; 0 if there is none.
    [[nodiscard]] Seqno lastUpTo(Seqno seqno) const {
        size_t below = count_;
        while (below != 0 && seqnos_[below - 1] > seqno) {
            --below;
        }
        return below != 0 ? seqnos_[below - 1] : Seqno{};
    }
    void removeAbove(Seqno seqno) {
        while (count_ != 0 && seqnos_[count_ - 1] > seqno) {
            seqnos_[--count_] = {};
        }
    }
    /// Ascending.
    [[nodiscard]] std::span<const Seqno> all() const { return {seqnos_.data(), count_}; }
    friend bool operator==(const RollbackPoints&, const RollbackPoints&) = default;

  private:
    /// Returns the point to give up when `high` is added: the distance to the point before it must
    /// be short compared with the distance from `high`.
    [[nodiscard]] size_t leastMissed(Seqno high) const {
        size_t least = 0;
        double lowest = 0;
        for (size_t i = 0; i < count_; ++i) {
            const uint64_t before = i != 0 ? seqnos_[i - 1].get() : 0;
            const double loss = static_cast<double>(seqnos_[i].get() - before) /
                                static_cast<double>(high.get() - seqnos_[i].get());
            if (i == 0 || loss < lowest) {
                least = i;
                lowest = loss;
            }
        }
        return least;
    }
    void remove(size_t at) {
        for (--count_; at < count_; ++at) {
            seqnos_[at] = seqnos_[at + 1];
        }
        seqnos_[count_] = {};
    }

    std::array<Seqno, kMax> seqnos_{};
    size_t count_{0};
};

}  // namespace kv
