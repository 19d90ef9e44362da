#include "persistence/checked_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

#include "persistence/store_error.h"

namespace kv {

namespace {

std::string withChecksum(const std::string& line) {
    const auto checksum = crc32_z(0, reinterpret_cast<const Bytef*>(line.data()), line.size());
    return fmt::format("{}\n{:08x}\n", line, checksum);
}

}  // namespace

bool syncPath(const std::filesystem::path& path) {
    const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return file && ::fsync(file.get()) == 0;
}

Fd lockFile(const std::filesystem::path& file) {
    Fd lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) {
        return lock;
    }
    if (errno == EWOULDBLOCK) {
        throw StoreError(file.parent_path().string() +
                         " is in use by another process: stop it, or use another --data-dir");
    }
    throw StoreError("cannot lock " + file.string() + ": " +
                     std::generic_category().message(errno));
}

namespace {

void writeText(const std::filesystem::path& path,
               const std::function<std::string(const std::string& identity)>& text) {
    const std::filesystem::path temporary = path.string() + ".new";
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out << text(identityOf(temporary));
    out.close();
    std::error_code error;
    if (out && syncPath(temporary)) {
        std::filesystem::rename(temporary, path, error);
        if (!error && syncPath(path.parent_path())) {
            return;
        }
    }
    throw StoreError("cannot write " + path.string());
}

}  // namespace

std::string identityOf(const std::filesystem::path& file) {
    struct statx info {};
    if (::statx(AT_FDCWD, file.c_str(), 0, STATX_INO | STATX_BTIME, &info) != 0) {
        return {};
    }
    // A number of a file that is removed is given to another one; a time of birth is not.
    const bool hasBirth = (info.stx_mask & STATX_BTIME) != 0;
    return fmt::format("{}:{}.{}", info.stx_ino, hasBirth ? info.stx_btime.tv_sec : 0,
                       hasBirth ? info.stx_btime.tv_nsec : 0);
}

std::string readWhole(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    try {
        if (in) {
            return {std::istreambuf_iterator<char>(in), {}};
        }
    } catch (const std::ios_base::failure&) {  // a directory can be opened, but not read
    }
    throw DamageError(path.string() + " cannot be read");
}

void writeWhole(const std::filesystem::path& path, const std::string& text) {
    writeText(path, [&text](const std::string&) { return text; });
}

void writeChecked(const std::filesystem::path& path, const std::string& line) {
    writeWhole(path, withChecksum(line));
}

void writeChecked(const std::filesystem::path& path,
                  const std::function<std::string(const std::string& identity)>& line) {
    writeText(path, [&line](const std::string& identity) { return withChecksum(line(identity)); });
}

std::optional<std::string> readChecked(const std::filesystem::path& path) {
    if (!std::filesystem::exists(path)) {
        return std::nullopt;
    }
    const std::string text = readWhole(path);
    std::string line = text.substr(0, text.find('\n'));
    if (text != withChecksum(line)) {
        throw DamageError(path.string() + " is damaged");
    }
    return line;
}

}  // namespace kv
