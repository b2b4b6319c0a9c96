#pragma once

#include "ramet/base/house.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace ramet::weights {

/// Reads the entries of a zip file. Errors name the file; `expected` says what kind of file it should be. Not for
/// several threads at once.
class ZipFile {
 public:
  ZipFile(const std::filesystem::path& path, std::string expected);
  /// The same of a file's bytes, which must live as long as this; `source` names them in messages.
  ZipFile(const void* bytes, size_t size, const std::string& source, std::string expected);
  ~ZipFile();
  ZipFile(const ZipFile&) = delete;
  ZipFile& operator=(const ZipFile&) = delete;

  /// Names of all entries, in the order of the file.
  std::vector<std::string> names() const;
  bool has(const std::string& name) const;
  /// Size of an entry, as the file tells it; throws Error when there is none.
  uint64_t size(const std::string& name) const;
  /// The bytes of an entry; throws Error when it is larger than `most`, ends early, or has a wrong checksum. An entry
  /// that lies about its size takes no more memory than it has bytes.
  std::string read(const std::string& name, uint64_t most) const;

  /// Throws FormatError with this file's name.
  [[noreturn]] void refuse(const std::string& what, const std::string& found = "",
                           const std::string& remedy = "") const;

 private:
  struct Open;
  void open(const void* bytes, size_t size);
  std::string source_, expected_;
  std::unique_ptr<Open> open_;
};

}  // namespace ramet::weights
