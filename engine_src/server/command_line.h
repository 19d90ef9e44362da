// kv_engine's flags, checked. One struct out; nothing is opened or started here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "server/key_values.h"
#include "server/params.h"
#include "server/replication_source.h"

namespace kv::server {

struct CommandLine {
    std::string host{"127.0.0.1"};
    uint16_t port{11210};
    std::filesystem::path portFile;
    std::filesystem::path dataDir{"data"};
    std::string bucketName{"default"};
    BucketType bucketType{BucketType::Persistent};
    uint64_t quotaMb{1024};
    uint16_t vbuckets{1024};
    uint32_t threads{2};
    uint32_t shards{2};
    std::filesystem::path usersFile;
    ReplicationSource replicateFrom;  ///< without a host this node is nobody's replica
    std::filesystem::path replicateLogin;
    std::string logLevel{"info"};
    EngineParams params;  ///< bucket name, quota and vBuckets are filled in from the flags
};

struct ParsedCommandLine {
    std::optional<CommandLine> line;  ///< nothing: leave with exitCode, the text has been printed
    int exitCode{0};
};

/// Prints help on stdout (exit code 0) and mistakes on stderr (exit code 2).
ParsedCommandLine parseCommandLine(int argc, const char* const* argv);

/// Every flag, every parameter and every build switch ("build.*"), as STAT config reads them back.
KeyValues configStats(const CommandLine& line);

}  // namespace kv::server
