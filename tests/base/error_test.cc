#include "ramet/base/error.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>
#include <vector>

namespace ramet::tests {
namespace {

TEST(Error, JoinsItsParts) {
  const Error error({.what = "unknown key",
                     .where = "bert.toml:12",
                     .found = "'stepz'",
                     .expected = "'steps'",
                     .remedy = "Correct the name"});
  EXPECT_STREQ(error.what(), "bert.toml:12: unknown key; found 'stepz'; expected 'steps'. Correct the name");
  EXPECT_EQ(error.parts().where, "bert.toml:12");
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
}

TEST(Error, LeavesEmptyPartsOut) {
  EXPECT_STREQ(Error({.what = "no room"}).what(), "no room");
  EXPECT_STREQ(Error({.what = "no room", .remedy = "Free some"}).what(), "no room. Free some");
  EXPECT_STREQ(Error({.what = "no room", .where = "disk"}).what(), "disk: no room");
  EXPECT_STREQ(Error({.what = "no room", .expected = "1 GiB"}).what(), "no room; expected 1 GiB");
}

TEST(Error, OfRametItselfSaysSo) {
  try {
    internal_error("place", "two buffers overlap");
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "place: internal error: two buffers overlap. This is a fault of Ramet, not of your input; please report "
        "it with the command");
    EXPECT_EQ(error.kind(), ErrorKind::kFailure);
    return;
  }
  FAIL() << "no error";
}

TEST(EditDistance, KnownValues) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("saturday", "sunday"), 3);
  EXPECT_EQ(edit_distance("steps", "stepz"), 1);
  EXPECT_EQ(edit_distance("ab", "ba"), 2);
}

/// By the definition, without any table.
int plain_distance(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return static_cast<int>(a.size() + b.size());
  const std::string x = a.substr(1), y = b.substr(1);
  if (a[0] == b[0]) return plain_distance(x, y);
  return 1 + std::min({plain_distance(x, b), plain_distance(a, y), plain_distance(x, y)});
}

TEST(EditDistance, EqualsItsDefinition) {
  std::mt19937 random(7);
  const auto word = [&] {
    std::string text(random() % 6, ' ');
    for (char& c : text) c = static_cast<char>('a' + random() % 3);
    return text;
  };
  for (int i = 0; i < 500; ++i) {
    const std::string a = word(), b = word();
    ASSERT_EQ(edit_distance(a, b), plain_distance(a, b)) << a << " " << b;
  }
}

TEST(NearestName, FindsWhatWasMeant) {
  const std::vector<std::string> keys = {"steps", "seed", "lanes", "chunks", "warmup_steps", "learning_rate"};
  EXPECT_EQ(nearest_name("stepz", keys), "steps");
  EXPECT_EQ(nearest_name("stpes", keys), "steps");
  EXPECT_EQ(nearest_name("lanes", keys), "lanes");
  EXPECT_EQ(nearest_name("learning-rates", keys), "learning_rate");
  EXPECT_EQ(nearest_name("warm_up_step", keys), "warmup_steps");
}

TEST(NearestName, IsSilentWhenNothingIsNear) {
  const std::vector<std::string> keys = {"steps", "seed", "lanes"};
  EXPECT_EQ(nearest_name("optimizer", keys), "");
  EXPECT_EQ(nearest_name("", keys), "");
  EXPECT_EQ(nearest_name("x", std::vector<std::string>{"y"}), "");
  EXPECT_EQ(nearest_name("steps", std::vector<std::string>{}), "");
  EXPECT_EQ(nearest_name("steps", std::vector<std::string_view>{"stop"}), "stop");
}

TEST(NearestName, TheFirstOfEquallyNearNamesWins) {
  EXPECT_EQ(nearest_name("cat", std::vector<const char*>{"bat", "rat"}), "bat");
}

TEST(NearestName, AWordOfMegabytesCostsNothing) {
  const std::vector<std::string> keys(200, "learning_rate");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(nearest_name(std::string(16 << 20, 'x'), keys), "");
  // 200 distances to a word of 13 letters would be 43 thousand million steps: minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

}  // namespace
}  // namespace ramet::tests
