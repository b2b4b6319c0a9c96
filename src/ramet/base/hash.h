#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ramet/base/house.h"

namespace ramet {

/// A 128-bit content hash (XXH3). Not cryptographic.
struct Hash {
  uint64_t low = 0, high = 0;
  /// 32 hexadecimal digits, high half first.
  std::string hex() const;
  friend bool operator==(const Hash&, const Hash&) = default;
};

Hash hash_bytes(const void* data, size_t size);
inline Hash hash_text(std::string_view text) { return hash_bytes(text.data(), text.size()); }
/// 64-bit form, for logical tensor ids: the id of a tensor in random counters is `hash64(name)`.
uint64_t hash64(std::string_view text);

/// A hash fed in pieces; the result depends on the bytes alone, not on how they were cut.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  Hasher& update(const void* data, size_t size);
  Hasher& update(std::string_view text) { return update(text.data(), text.size()); }
  Hash digest() const;

 private:
  void* state_;
};

/// CRC-32C (Castagnoli) of bytes, continued from `crc` (0 to start). Frames of logs and records use it.
uint32_t crc32c(const void* data, size_t size, uint32_t crc = 0);
/// The same by tables alone, as on CPUs without a CRC-32C instruction.
uint32_t crc32c_by_table(const void* data, size_t size, uint32_t crc = 0);

}  // namespace ramet
