// Why a conductor gave up.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace kv::slices {

/// An arm died, was silent too long, or said what cannot be.
class ArmError : public std::runtime_error {
  public:
    ArmError(std::string arm, const std::string& what)
        : std::runtime_error(what), arm_(std::move(arm)) {}
    [[nodiscard]] const std::string& arm() const noexcept { return arm_; }

  private:
    std::string arm_;
};

/// SIGINT or SIGTERM came.
class Interrupted : public std::runtime_error {
  public:
    explicit Interrupted(int signal)
        : std::runtime_error("interrupted by signal " + std::to_string(signal)), signal_(signal) {}
    [[nodiscard]] int signal() const noexcept { return signal_; }

  private:
    int signal_;
};

}  // namespace kv::slices
