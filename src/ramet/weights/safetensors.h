#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/file.h"
#include "ramet/base/hash.h"
#include "ramet/base/shape.h"

namespace ramet::weights {

/// One tensor of a safetensors file; its bytes are [begin, end) of the file's data section.
struct SafetensorsEntry {
  std::string name;
  TensorType type;
  uint64_t begin = 0, end = 0;
  friend bool operator==(const SafetensorsEntry&, const SafetensorsEntry&) = default;
};

/// What stands before the data of a safetensors file.
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  ///< in order of their bytes, equal places in order of name
  std::map<std::string, std::string> metadata;
  uint64_t data_offset = 0;  ///< of the data section in the file
};

/// Reads and checks the header of the file whose bytes `file` are; `source` names it in messages. The rules are the
/// format's own, all of them: 8 bytes of length (at most 100 MB), a JSON object of tensors {dtype, shape, data_offsets}
/// and "__metadata__" of strings, no name twice, sizes that agree with shapes, and ranges that cover the data section
/// without a hole or an overlap. Throws Error that names the fault and its place; no input crashes it.
SafetensorsHeader parse_safetensors_header(std::string_view file, const std::string& source);

/// A safetensors file, open by memory map. Tensors' bytes are read when they are asked for.
class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::filesystem::path& path);

  const std::vector<SafetensorsEntry>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const std::filesystem::path& path() const { return path_; }
  /// The tensor of that name, or null.
  const SafetensorsEntry* find(std::string_view name) const;
  /// The tensor of that name; Error naming the file and the nearest name.
  const SafetensorsEntry& get(std::string_view name) const;
  /// The bytes of a tensor, in the map. They need not be aligned to the type.
  std::span<const std::byte> bytes(const SafetensorsEntry& tensor) const;
  /// Copies bytes [offset, offset + to.size()) of a tensor; Error when they are not all inside it.
  void read(const SafetensorsEntry& tensor, uint64_t offset, std::span<std::byte> to) const;

 private:
  std::filesystem::path path_;
  MappedFile file_;
  SafetensorsHeader header_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

/// Name and type of a tensor to be written.
struct SafetensorsSpec {
  std::string name;
  TensorType type;
};

/// What stands before the data of such a file: the bytes of the tensors follow it, in order. Throws Error for a name
/// given twice or not UTF-8; `source` names the file.
std::string safetensors_head(const std::vector<SafetensorsSpec>& tensors, const std::string& source);

/// Writes a safetensors file front to back: all names and types first, then each tensor's bytes in that order, in
/// pieces of any size. `close` checks that all was written and fsyncs.
class SafetensorsWriter {
 public:
  /// Throws Error for a name given twice or not UTF-8.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<SafetensorsSpec>& tensors,
                    const std::map<std::string, std::string>& metadata = {});
  ~SafetensorsWriter();

  /// Appends bytes of the tensors, in order.
  void write(const void* data, size_t size);
  void close();
  /// Of the whole file, once closed.
  Hash hash() const;
  uint64_t file_bytes() const { return file_bytes_; }

 private:
  std::filesystem::path path_;
  FileWriter file_;
  Hasher hasher_;
  uint64_t file_bytes_ = 0, written_ = 0;
};

}  // namespace ramet::weights
