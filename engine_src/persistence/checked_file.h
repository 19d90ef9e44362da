// Small files that survive the loss of power as a whole, and that show if a byte of them has
// changed. Threads: functions; one writer of a file at a time.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "types/fd.h"

namespace kv {

/// Makes changes of a file, or of the names in a directory, survive the loss of power. Returns
/// false if that is not possible.
bool syncPath(const std::filesystem::path& path);

/// Locks a file of a data directory, which keeps other engines away until the result is destroyed.
/// Throws StoreError, also if another one has locked it.
Fd lockFile(const std::filesystem::path& file);

/// Returns the contents of a file. Throws DamageError if it cannot be read.
std::string readWhole(const std::filesystem::path& path);

/// Writes atomically: a crash or a power cut leaves the old file or the new one. Throws StoreError.
void writeWhole(const std::filesystem::path& path, const std::string& text);

/// Writes a line, with its checksum in a second line. Throws StoreError.
void writeChecked(const std::filesystem::path& path, const std::string& line);

/// As above, for a line that contains the identity of the file.
void writeChecked(const std::filesystem::path& path,
                  const std::function<std::string(const std::string& identity)>& line);

/// Distinguishes a file from its copies, however they are made, but not from a snapshot of the
/// whole file system. Stays the same when the file is renamed. Empty if the file cannot be read.
std::string identityOf(const std::filesystem::path& file);

/// Returns the line that writeChecked() wrote; nothing if there is no file. Throws DamageError if
/// it cannot be read or the checksum does not match.
std::optional<std::string> readChecked(const std::filesystem::path& path);

}  // namespace kv
