// The file that reports the port to the process that started the server, and that the server is
// ready: "PORT\n".
#pragma once

#include <cstdint>
#include <filesystem>

namespace kv::server {

/// Writes the file atomically. Throws std::runtime_error.
void writePortFile(const std::filesystem::path& file, uint16_t port);

}  // namespace kv::server
