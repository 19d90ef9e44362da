// The reasons for which a conductor gives up.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace kv::slices {

/// A variant died, was silent for too long, or sent an invalid answer.
class VariantError : public std::runtime_error {
  public:
    VariantError(std::string variant, const std::string& what)
        : std::runtime_error(what), variant_(std::move(variant)) {}
    [[nodiscard]] const std::string& variant() const noexcept { return variant_; }

  private:
    std::string variant_;
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
