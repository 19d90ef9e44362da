// TempDir: a directory that is removed with its owner, for tests and benchmarks.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace kv {

class TempDir {
  public:
    TempDir() {
        std::string pattern = (std::filesystem::temp_directory_path() / "kv-test-XXXXXX").string();
        if (mkdtemp(pattern.data()) == nullptr) {
            throw std::filesystem::filesystem_error(
                    pattern, std::error_code(errno, std::generic_category()));
        }
        path_ = pattern;
    }
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;
    ~TempDir() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    [[nodiscard]] const std::filesystem::path& root() const { return path_; }
    /// Returns a path in it that does not exist yet.
    [[nodiscard]] std::string path() const { return (path_ / "data").string(); }

  private:
    std::filesystem::path path_;
};

}  // namespace kv
