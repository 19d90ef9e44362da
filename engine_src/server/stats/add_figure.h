// Adds a figure of STAT as text.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "server/stats/key_values.h"

namespace kv::server {

template <class Value>
void addFigure(KeyValues& out, std::string key, const Value& value) {
    out.emplace_back(std::move(key), fmt::format("{}", value));
}

}  // namespace kv::server
