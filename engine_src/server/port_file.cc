#include "server/port_file.h"

#include <unistd.h>

#include <fstream>
#include <stdexcept>
#include <string>

namespace kv::server {

void writePortFile(const std::filesystem::path& file, uint16_t port) {
    auto temporary = file;
    temporary += ".tmp." + std::to_string(::getpid());
    {
        std::ofstream out(temporary, std::ios::trunc);
        out << port << '\n';
        if (!out.flush()) {
            throw std::runtime_error("cannot write " + temporary.string());
        }
    }
    std::error_code error;
    std::filesystem::rename(temporary, file, error);
    if (error) {
        std::filesystem::remove(temporary, error);
        throw std::runtime_error("cannot write " + file.string());
    }
}

}  // namespace kv::server
