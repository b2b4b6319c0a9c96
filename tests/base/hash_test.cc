#include "ramet/base/hash.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

namespace ramet::tests {
namespace {

std::string random_bytes(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// CRC-32C bit by bit, from the polynomial alone (Castagnoli 1993; reflected 0x82F63B78).
uint32_t plain_crc32c(const std::string& bytes) {
  uint32_t crc = ~0u;
  for (const unsigned char byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
  }
  return ~crc;
}

TEST(Crc32c, KnownAnswers) {
  EXPECT_EQ(crc32c("123456789", 9), 0xE3069283u);
  EXPECT_EQ(crc32c("", 0), 0u);
  // RFC 3720, B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0').data(), 32), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff').data(), 32), 0x62A8AB43u);
  std::string rising(32, '\0');
  for (int i = 0; i < 32; ++i) rising[static_cast<size_t>(i)] = static_cast<char>(i);
  EXPECT_EQ(crc32c(rising.data(), 32), 0x46DD794Eu);
  EXPECT_EQ(crc32c_by_table("123456789", 9), 0xE3069283u);
}

TEST(Crc32c, InstructionTableAndDefinitionAgree) {
  const std::string bytes = random_bytes(1100, 1);
  for (size_t begin = 0; begin < 9; ++begin)  // all alignments
    for (size_t size = 0; size < 300; ++size) {
      const std::string piece = bytes.substr(begin, size);
      const uint32_t expected = plain_crc32c(piece);
      ASSERT_EQ(crc32c(bytes.data() + begin, size), expected) << begin << " " << size;
      ASSERT_EQ(crc32c_by_table(bytes.data() + begin, size), expected) << begin << " " << size;
    }
}

TEST(Crc32c, ContinuesFromAnyCut) {
  const std::string bytes = random_bytes(257, 2);
  const uint32_t whole = crc32c(bytes.data(), bytes.size());
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    ASSERT_EQ(crc32c(bytes.data() + cut, bytes.size() - cut, crc32c(bytes.data(), cut)), whole) << cut;
    ASSERT_EQ(crc32c_by_table(bytes.data() + cut, bytes.size() - cut, crc32c(bytes.data(), cut)), whole) << cut;
  }
}

TEST(Crc32c, NoticesEveryFlippedBit) {
  std::string bytes = random_bytes(64, 3);
  const uint32_t whole = crc32c(bytes.data(), bytes.size());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    ASSERT_NE(crc32c(bytes.data(), bytes.size()), whole) << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  }
}

TEST(Hash, KnownAnswerAndForm) {
  // XXH3 128 of nothing, as published with xxHash.
  EXPECT_EQ(hash_text("").hex(), "99aa06d3014798d86001c324468d497f");
  const Hash hash{0x0123456789abcdefull, 0xfedcba9876543210ull};
  EXPECT_EQ(hash.hex(), "fedcba98765432100123456789abcdef");
}

TEST(Hash, PiecesDoNotMatter) {
  const std::string bytes = random_bytes(5000, 4);
  std::mt19937 random(5);
  for (const size_t size : {0ul, 1ul, 16ul, 17ul, 128ul, 129ul, 240ul, 241ul, 1024ul, 5000ul}) {
    const Hash whole = hash_bytes(bytes.data(), size);
    for (int round = 0; round < 20; ++round) {
      Hasher hasher;
      for (size_t at = 0; at < size;) {
        const size_t piece = std::min<size_t>(size - at, random() % 300);
        hasher.update(bytes.data() + at, piece);
        at += piece;
      }
      ASSERT_EQ(hasher.digest(), whole) << size;
      ASSERT_EQ(hasher.digest(), whole) << "a digest must not change the state";
    }
  }
}

TEST(Hash, NamesGetDifferentIds) {
  std::set<uint64_t> ids;
  for (int i = 0; i < 10000; ++i) ids.insert(hash64("bert.encoder.layer." + std::to_string(i)));
  EXPECT_EQ(ids.size(), 10000u);
  EXPECT_EQ(hash64("a"), hash64(std::string("ab").substr(0, 1)));
}

}  // namespace
}  // namespace ramet::tests
