#include "options/build_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "options/mutation.h"

namespace kv::options {

bool knows(const nlohmann::json& entry, const std::string& value) {
    if (entry.contains("number") && value.find_first_not_of("0123456789") == std::string::npos) {
        return entry.at("number").at("least") <= std::stoi(value) &&
               std::stoi(value) <= entry.at("number").at("most");
    }
    const auto& values = entry.at("values");
    return std::any_of(values.begin(), values.end(),
                       [&](const auto& known) { return known.at("value") == value; });
}

TEST(BuildInfo, ReportsEverySwitchWithOneOfItsValues) {
    const auto table = nlohmann::json::parse(std::ifstream(KV_SWITCHES)).at("switches");
    const auto info = buildInfo();
    ASSERT_EQ(info.size(), table.size() + 1);
    for (size_t i = 0; i < table.size(); ++i) {
        EXPECT_EQ(info[i].first, table[i].at("name").get<std::string>());
        EXPECT_TRUE(knows(table[i], info[i].second)) << info[i].first << "=" << info[i].second;
    }
    EXPECT_EQ(info.back().first, "type");
}

TEST(BuildInfo, HasNoFaultsBuiltInByDefault) {
    static_assert(!kMutationsBuilt);
    static_assert(!mutated(Mutation::CasIgnored));
}

}  // namespace kv::options
