#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "ramet/base/house.h"

namespace ramet {

/// Whole contents of a file. Throws Error naming the path and the system's reason.
std::string read_file(const std::filesystem::path& path);

/// Writes a file so that a reader sees the old contents or the new, never a part: to a sibling temporary
/// name, fsync, rename, fsync of the folder. On failure (a full disk) the temporary is removed, the old file
/// stays, and Error says why (kind kFailure).
void write_file_atomic(const std::filesystem::path& path, std::string_view contents);

/// A file being written with explicit error checks; `close` fsyncs. Destroying it unclosed closes quietly.
class FileWriter {
 public:
  explicit FileWriter(const std::filesystem::path& path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  void write(const void* data, size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  uint64_t position() const { return position_; }
  void close();

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  uint64_t position_ = 0;
};

/// Read-only memory map of a file.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  const char* data() const { return data_; }
  size_t size() const { return size_; }
  std::string_view view() const { return {data_, size_}; }

 private:
  const char* data_ = nullptr;
  size_t size_ = 0;
};

/// fsync of a directory, so that a rename in it is durable.
void sync_directory(const std::filesystem::path& path);

/// "64 MiB", "1.5 GiB", "123456" and so on as bytes; throws Error on anything else. KiB, MiB, GiB, TiB are
/// powers of 1024; KB, MB, GB, TB powers of 1000.
int64_t parse_size(std::string_view text);
/// Bytes as a person reads them: "1.50 GiB".
std::string format_size(int64_t bytes);

}  // namespace ramet
