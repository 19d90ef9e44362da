#include "server/params.h"

#include <gtest/gtest.h>

#include <set>

namespace kv::server {
namespace {

std::string errorOf(std::string_view setting) {
    EngineParams params;
    try {
        applyParam(params, setting);
    } catch (const ParamError& error) {
        return error.what();
    }
    return {};
}

TEST(Params, SetTheirMembers) {
    EngineParams params;
    applyParam(params, "ht_size=3079");
    applyParam(params, "max_unsent_kb=64");
    applyParam(params, "mem_low_wat_pct=62.5");
    applyParam(params, "expiry_pass_s=5");
    EXPECT_EQ(params.bucket.htSize, 3079U);
    EXPECT_EQ(params.server.maxUnsentBytes, 65'536U);
    EXPECT_DOUBLE_EQ(params.bucket.lowWatermark, 0.625);
    EXPECT_EQ(params.expiryPassSeconds, 5U);
}

TEST(Params, EachReadsItsValueBackAndItsDefaultIsInRange) {
    std::set<std::string> names;
    for (const auto& param : paramTable()) {
        EXPECT_TRUE(names.insert(param.name).second) << param.name << " twice";
        EXPECT_FALSE(param.description.empty());
        EngineParams params;
        const auto standard = param.get(params);
        EXPECT_NO_THROW(applyParam(params, param.name + "=" + standard)) << param.name;
        const bool choice = param.range.find("..") == std::string::npos;
        const std::string separator = choice ? "|" : "..";
        const auto low = param.range.substr(0, param.range.find(separator));
        applyParam(params, param.name + "=" + low);
        EXPECT_EQ(param.get(params), low) << param.name;
        const auto high = param.range.substr(param.range.rfind(separator) + separator.size());
        applyParam(params, param.name + "=" + high);
        EXPECT_EQ(param.get(params), high) << param.name;
    }
}

TEST(Params, MistakesAreNamed) {
    EXPECT_EQ(errorOf("ht_sise=5"), "unknown parameter 'ht_sise'; nearest: ht_size");
    EXPECT_EQ(errorOf("max_conections=5"),
              "unknown parameter 'max_conections'; nearest: max_connections");
    EXPECT_EQ(errorOf("ht_size"), "'ht_size': expected name=value");
    EXPECT_EQ(errorOf("ht_size=0"), "parameter ht_size: '0' is not a number in 1..100000000");
    for (const char* bad : {"ht_size=", "ht_size=12x", "ht_size=-1", "ht_size=1e3", "ht_size= 5",
                            "fsync=yes", "rocksdb_compression=", "mem_low_wat_pct=0",
                            "mem_low_wat_pct=nan", "mem_low_wat_pct=101"}) {
        EXPECT_FALSE(errorOf(bad).empty()) << bad;
    }
}

}  // namespace
}  // namespace kv::server
