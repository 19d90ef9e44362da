// Changes of tests to files that an engine has left.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <vector>

namespace kv {

/// Changes one bit; the same call changes it back.
inline void flipBit(const std::filesystem::path& file, uint64_t byte, unsigned bit = 0) {
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekg(static_cast<std::streamoff>(byte));
    const int value = stream.get() ^ (1 << bit);
    stream.seekp(static_cast<std::streamoff>(byte));
    stream.put(static_cast<char>(value));
}

/// Returns the files in a directory and below it whose names end with `ending`; sorted.
inline std::vector<std::filesystem::path> filesBelow(const std::filesystem::path& directory,
                                                     std::string_view ending) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
        if (entry.is_regular_file() && entry.path().string().ends_with(ending)) {
            files.push_back(entry.path());
        }
    }
    std::sort(files.begin(), files.end());
    return files;
}

}  // namespace kv
