#include "server/login/login_brake.h"

#include <algorithm>
#include <vector>

namespace kv::server {

namespace {

/// Addresses contain no NUL, so an address alone cannot equal a pair.
std::string pairKey(std::string_view user, std::string_view address) {
    std::string key(address);
    key.append(1, '\0').append(user);
    return key;
}

}  // namespace

bool LoginBrake::allows(std::string_view user, std::string_view address, Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    return left(pairKey(user, address), kBurst, perMinute_, now) >= 1 &&
           left(std::string(address), kAddressBurst, kAddressShare * perMinute_, now) >= 1;
}

void LoginBrake::failed(std::string_view user, std::string_view address, Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    makeRoom(now);
    take(pairKey(user, address), kBurst, perMinute_, now);
    take(std::string(address), kAddressBurst, kAddressShare * perMinute_, now);
}

size_t LoginBrake::entries() const {
    const std::lock_guard lock(mutex_);
    return tokens_.size();
}

double LoginBrake::left(const std::string& key, double burst, double perMinute,
                        Clock::time_point now) const {
    const auto found = tokens_.find(key);
    if (found == tokens_.end()) {
        return burst;
    }
    const std::chrono::duration<double, std::ratio<60>> minutes = now - found->second.at;
    return std::min(burst, found->second.left + std::max(0.0, minutes.count()) * perMinute);
}

void LoginBrake::take(const std::string& key, double burst, double perMinute,
                      Clock::time_point now) {
    const double before = left(key, burst, perMinute, now);
    tokens_.insert_or_assign(key, Tokens{std::max(0.0, before - 1), now});
}

void LoginBrake::makeRoom(Clock::time_point now) {
    if (tokens_.size() + 2 <= kMostEntries) {
        return;
    }
    // Removes the older half, most of which have all their tokens back.
    std::vector<Clock::time_point> times;
    times.reserve(tokens_.size());
    for (const auto& [key, tokens] : tokens_) {
        times.push_back(tokens.at);
    }
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    const auto before = std::min(*middle, now);
    std::erase_if(tokens_, [before](const auto& entry) { return entry.second.at <= before; });
}

}  // namespace kv::server
