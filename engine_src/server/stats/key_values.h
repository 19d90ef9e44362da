// KeyValues: the content of a STAT group, in the order in which it is sent.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace kv::server {

using KeyValues = std::vector<std::pair<std::string, std::string>>;

/// Produces one STAT group. Any thread.
using StatSource = std::function<KeyValues()>;

}  // namespace kv::server
