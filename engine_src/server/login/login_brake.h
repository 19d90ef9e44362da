// LoginBrake: limits the passwords that may be tried for one user from one address, and from one
// address.
//
// Each failed login takes a token of the pair and one of the address; tokens come back at a steady
// rate. Without a token no login of that user from that address is answered, not even with the
// right password: otherwise the answer would reveal a correct guess. A successful login takes no
// token.
//
// Threads: shared by all front-end threads. Its memory is bounded: the oldest entries are removed
// first.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace kv::server {

class LoginBrake {
  public:
    using Clock = std::chrono::steady_clock;

    /// Failed logins that may follow each other at once, for a pair and for an address.
    static constexpr double kBurst = 10;
    static constexpr double kAddressBurst = 100;
    /// Rate at which an address gets tokens back, as a multiple of the rate of one user.
    static constexpr double kAddressShare = 10;
    /// Maximum number of remembered pairs and addresses.
    static constexpr size_t kMostEntries = 10'000;

    /// `perMinute`: failed logins of one user from one address that are answered per minute.
    explicit LoginBrake(uint32_t perMinute) : perMinute_(perMinute) {}

    /// Returns whether a login may be answered. Call it with the user's name even if that does not
    /// exist.
    [[nodiscard]] bool allows(std::string_view user, std::string_view address,
                              Clock::time_point now);
    void failed(std::string_view user, std::string_view address, Clock::time_point now);
    [[nodiscard]] size_t entries() const;

  private:
    struct Tokens {
        double left;
        Clock::time_point at;
    };
    [[nodiscard]] double left(const std::string& key, double burst, double perMinute,
                              Clock::time_point now) const;
    void take(const std::string& key, double burst, double perMinute, Clock::time_point now);
    void makeRoom(Clock::time_point now);

    const double perMinute_;
    mutable std::mutex mutex_;
    /// Of users and addresses with failed logins; guarded by mutex_.
    std::unordered_map<std::string, Tokens> tokens_;
};

}  // namespace kv::server
