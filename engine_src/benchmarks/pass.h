// Pass: the state that the runs of one benchmark share, such as the table that is filled or the log
// that is searched.
//
// A run on its own is a whole pass. In slices (slices/slice_server.h) a pass is many runs, and its
// state is kept from one to the next. So a benchmark opens its pass in every run and advances it,
// and cannot tell the two apart. One state is alive at a time.
//
// Threads: the main thread opens, in a benchmark's Setup or before its timed loop; the others see
// it from their start on. Thread 0 advances after the timed loop, as the last thing it does with
// the state.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace kv::bench {

class Pass {
  public:
    /// The pass of the process.
    static Pass& current() {
        static Pass pass;
        return pass;
    }

    /// Returns the state of the current pass `name`, or a new one from `make()`, a
    /// std::unique_ptr<State>. `length`: iterations of the whole pass; 0: it has no end.
    template <class State, class Make>
    State& open(const std::string& name, int64_t length, Make make) {
        if (name != name_) {
            close();
            const auto start = std::chrono::steady_clock::now();
            state_ = std::shared_ptr<State>(make());
            setup_ += std::chrono::steady_clock::now() - start;
            name_ = name;
            length_ = length;
        }
        return *static_cast<State*>(state_.get());
    }
    /// Number of iterations that were done in it.
    [[nodiscard]] int64_t position() const { return position_; }
    /// Advances by `iterations`; the state is destroyed after the last one.
    void advance(int64_t iterations) {
        position_ += iterations;
        if (length_ != 0 && position_ >= length_) {
            close();
        }
    }
    /// Iterations to its end; empty if there is no current pass.
    [[nodiscard]] std::optional<int64_t> left() const {
        return length_ == 0 ? std::nullopt : std::optional(length_ - position_);
    }
    /// Abandons the current pass.
    void close() {
        state_.reset();
        name_.clear();
        length_ = 0;
        position_ = 0;
    }
    /// Returns the time that making states has taken since the last call.
    std::chrono::nanoseconds takeSetup() { return std::exchange(setup_, {}); }

  private:
    Pass() = default;

    std::string name_;  ///< empty: there is no current pass
    std::shared_ptr<void> state_;
    int64_t length_{0};
    int64_t position_{0};
    std::chrono::nanoseconds setup_{0};
};

}  // namespace kv::bench
