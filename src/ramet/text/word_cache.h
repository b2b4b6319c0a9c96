#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::text {

/// A small direct-mapped memory of words and their tokens, one for each thread, shared by all tokenizers by `owner`.
/// Most words of a text are few and short; a hit costs one cache line.
class WordCache {
 public:
  static constexpr int kMaxBytes = 24, kMaxTokens = 8;
  struct Entry {
    std::array<uint64_t, 3> word;
    uint32_t owner;        // serial number of a tokenizer; 0: none
    uint16_t size, count;  // bytes of the word, tokens
    std::array<int32_t, kMaxTokens> ids;
  };

  /// The calling thread's.
  static WordCache& of_thread() {
    thread_local WordCache cache;
    return cache;
  }
  /// A new owner number, never used before in this process.
  static uint32_t new_owner();

  /// A word of 1 to kMaxBytes bytes as a key, zero-filled; `readable` >= size bytes may be read.
  static std::array<uint64_t, 3> key(const char* word, size_t size, size_t readable) {
    std::array<uint64_t, 3> key{};
    if (readable < kMaxBytes) {
      std::memcpy(key.data(), word, size);
      return key;
    }
    std::memcpy(key.data(), word, kMaxBytes);
    constexpr auto keep = [](size_t bytes) { return bytes >= 8 ? ~0ull : (1ull << (8 * bytes)) - 1; };
    key[0] &= keep(size);
    key[1] &= size > 8 ? keep(size - 8) : 0;
    key[2] &= size > 16 ? keep(size - 16) : 0;
    return key;
  }
  /// The entry that holds `key`, or would.
  Entry& slot(const std::array<uint64_t, 3>& key) {
    uint64_t h = (key[0] ^ key[1] * 0x9E3779B97F4A7C15ull ^ (key[2] << 17 | key[2] >> 47)) * 0xD6E8FEB86659FD93ull;
    h ^= h >> 32;
    return entries_[h * 0xD6E8FEB86659FD93ull >> (64 - kBits)];
  }

 private:
  static constexpr int kBits = 14;  // 1 MiB: most of a text's words, within a second-level cache
  WordCache() : entries_(size_t{1} << kBits) {}
  std::vector<Entry> entries_;
};

}  // namespace ramet::text
