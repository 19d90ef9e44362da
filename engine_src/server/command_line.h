// The checked flags of kv_engine. Parsing returns one struct; it opens and starts nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "server/params.h"
#include "server/replication/replication_source.h"
#include "server/stats/key_values.h"

namespace kv::server {

struct CommandLine {
    std::string host{"127.0.0.1"};
    uint16_t port{11210};
    std::filesystem::path portFile;
    std::filesystem::path dataDir{"data"};
    bool acceptLoss{false};  ///< see PersistenceConfig
    /// vBuckets that were never stored get their state from a cluster manager.
    bool cluster{false};
    std::string bucketName{"default"};
    BucketType bucketType{BucketType::Persistent};
    uint64_t quotaMb{1024};
    uint16_t vbuckets{1024};
    uint32_t threads{2};
    uint32_t shards{2};
    std::filesystem::path usersFile;
    ReplicationSource replicateFrom;  ///< without a host this node replicates from nobody
    std::filesystem::path replicateLogin;
    std::filesystem::path replicateTlsCa;  ///< empty: replication does not use TLS
    std::optional<uint16_t> tlsPort;       ///< empty: TLS is not served
    std::filesystem::path tlsCert;
    std::filesystem::path tlsKey;
    std::filesystem::path tlsClientCa;
    std::string logLevel{"info"};
    EngineParams params;  ///< bucket name, quota and vBuckets are filled in from the flags
};

struct ParsedCommandLine {
    std::optional<CommandLine> line;  ///< empty: exit with exitCode; the text has been printed
    int exitCode{0};
};

/// Prints help on stdout (exit code 0) and mistakes on stderr (exit code 2).
ParsedCommandLine parseCommandLine(int argc, const char* const* argv);

/// Returns every flag, every parameter and every build switch ("build.*") for STAT config.
KeyValues configStats(const CommandLine& line);

}  // namespace kv::server
