// The file that tells a starter which port was taken and that the server is ready: "PORT\n".
#pragma once

#include <cstdint>
#include <filesystem>

namespace kv::server {

/// Appears complete or not at all. Throws std::runtime_error.
void writePortFile(const std::filesystem::path& file, uint16_t port);

}  // namespace kv::server
