#include "ramet/track/wandb_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ramet::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

std::pair<std::vector<std::string>, int64_t> read(std::string_view file) {
  std::vector<std::string> records;
  const int64_t skipped = read_wandb_records(file, [&](std::string_view record) { records.emplace_back(record); });
  return {records, skipped};
}

TEST(WandbFile, BytesAreThoseOfTheFormat) {
  WandbFile file;
  EXPECT_EQ(file.bytes(), std::string(":W&B\xe1\xbe\0", 7));
  file.add("hello");
  EXPECT_EQ(file.bytes().substr(7), std::string("\x9d\x23\xac\x8a\x05\x00\x01hello", 12));
  EXPECT_TRUE(is_wandb_file(file.bytes()));
  EXPECT_FALSE(is_wandb_file(":W&B\xe1\xbe\1"));
}

TEST(WandbFile, RecordsOfEverySizeCrossBlocks) {
  // Around what is left of a block: a whole record, its header alone, and less than a header.
  for (size_t size = 32768 - 7 - 7 - 20; size <= 32768 - 7 - 7 + 2; ++size) {
    WandbFile file;
    const std::string first(size, 'a'), second(100'000, 'b');
    file.add(first);
    file.add("");
    file.add(second);
    file.add("end");
    EXPECT_THAT(read(file.bytes()), Pair(ElementsAre(first, "", second, "end"), 0)) << size;
  }
}

TEST(WandbFile, DamageCostsNoMoreThanItsBlock) {
  WandbFile file;
  std::vector<std::string> records;
  for (int i = 0; i < 200; ++i) {
    records.push_back(std::string(700, static_cast<char>('a' + i % 26)) + std::to_string(i));
    file.add(records.back());
  }
  std::string damaged = file.bytes();
  damaged[40'000] = static_cast<char>(damaged[40'000] ^ 1);  // in the second block
  const auto [kept, skipped] = read(damaged);
  EXPECT_GT(kept.size(), 140u);
  EXPECT_LT(kept.size(), 200u);
  EXPECT_EQ(kept.front(), records.front());
  EXPECT_EQ(kept.back(), records.back());
  EXPECT_GT(skipped, 0);
  EXPECT_LE(skipped, 40'000);
  // A file that is being written, or was when its process was killed.
  size_t before = 0;
  for (size_t size = 7; size < 3000; size += 13) {
    const auto [whole, torn] = read(std::string_view(file.bytes()).substr(0, size));
    ASSERT_GE(whole.size(), before);
    ASSERT_LE(torn, static_cast<int64_t>(size));
    before = whole.size();
  }
  EXPECT_EQ(read("something else").second, 14);
}

}  // namespace
}  // namespace ramet::tests
