#include "ramet/base/hash.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ramet {
namespace {

/// kCrcTables[k][b] carries byte b over k further bytes of zeros, so that eight bytes go in at once.
constexpr std::array<std::array<uint32_t, 256>, 8> make_crc_tables() {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
    tables[0][i] = crc;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t i = 0; i < 256; ++i) tables[k][i] = tables[k - 1][i] >> 8 ^ tables[0][tables[k - 1][i] & 255];
  return tables;
}
constexpr auto kCrcTables = make_crc_tables();

#if defined(__x86_64__)
/// The instruction takes eight bytes every three cycles; three streams would hide that, but this outruns any disk.
__attribute__((target("sse4.2"))) uint32_t crc32c_by_instruction(const unsigned char* bytes, size_t size,
                                                                 uint32_t crc) {
  uint64_t wide = ~crc;
  for (; size >= 8; size -= 8, bytes += 8) {
    uint64_t word;
    std::memcpy(&word, bytes, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  auto narrow = static_cast<uint32_t>(wide);
  for (; size > 0; --size) narrow = _mm_crc32_u8(narrow, *bytes++);
  return ~narrow;
}
#endif

}  // namespace

std::string Hash::hex() const {
  static const char* digits = "0123456789abcdef";
  std::string text(32, '0');
  for (int i = 0; i < 16; ++i) {
    text[15 - i] = digits[high >> 4 * i & 15];
    text[31 - i] = digits[low >> 4 * i & 15];
  }
  return text;
}

Hash hash_bytes(const void* data, size_t size) {
  const XXH128_hash_t hash = XXH3_128bits(data, size);
  return {hash.low64, hash.high64};
}

uint64_t hash64(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

Hasher::Hasher() : state_(XXH3_createState()) { XXH3_128bits_reset(static_cast<XXH3_state_t*>(state_)); }
Hasher::~Hasher() { XXH3_freeState(static_cast<XXH3_state_t*>(state_)); }
Hasher& Hasher::update(const void* data, size_t size) {
  XXH3_128bits_update(static_cast<XXH3_state_t*>(state_), data, size);
  return *this;
}
Hash Hasher::digest() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(static_cast<const XXH3_state_t*>(state_));
  return {hash.low64, hash.high64};
}

uint32_t crc32c_by_table(const void* data, size_t size, uint32_t crc) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  crc = ~crc;
  for (; size >= 8; size -= 8, bytes += 8) {
    uint32_t next = 0;
    for (size_t k = 0; k < 4; ++k) next ^= kCrcTables[7 - k][(crc >> 8 * k ^ bytes[k]) & 255];
    for (size_t k = 4; k < 8; ++k) next ^= kCrcTables[7 - k][bytes[k]];
    crc = next;
  }
  for (; size > 0; --size) crc = kCrcTables[0][(crc ^ *bytes++) & 255] ^ crc >> 8;
  return ~crc;
}

uint32_t crc32c(const void* data, size_t size, uint32_t crc) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return crc32c_by_instruction(static_cast<const unsigned char*>(data), size, crc);
#endif
  return crc32c_by_table(data, size, crc);
}

}  // namespace ramet
