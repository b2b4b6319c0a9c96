#include "ramet/track/filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/errors.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;

TEST(Filter, SaysWhereItIsWrong) {
  const auto error = [](const std::string& text) { return error_of([&] { (void)parse_filter(text); }); };
  EXPECT_THAT(error("loss <"), HasSubstr("column 7: a comparison needs a value on its right; found its end"));
  EXPECT_THAT(error("loss 3"), HasSubstr("column 6: no operator behind 'loss'; found '3'"));
  EXPECT_THAT(error("(loss < 3"), HasSubstr("a parenthesis without its end"));
  EXPECT_THAT(error("loss < 3 banana"), HasSubstr("more than a filter"));
  EXPECT_THAT(error("name = \"x"), HasSubstr("a quote without its end"));
  EXPECT_THAT(error("name = $x"), HasSubstr("column 8: a character that means nothing here"));
  EXPECT_THAT(error("pinned = 3"), HasSubstr("'pinned' is a yes or a no"));
  EXPECT_THAT(error("steps ~ 3"), HasSubstr("'steps' is a metric or a number"));
  EXPECT_THAT(error(std::string(60, '(') + "pinned" + std::string(60, ')')), HasSubstr("too many parentheses"));
  EXPECT_THAT(error(std::string(20'000, ' ') + "pinned"), HasSubstr("too long"));
  std::string many = "pinned";
  for (int i = 0; i < 300; ++i) many += " and pinned";
  EXPECT_THAT(error(many), HasSubstr("too many comparisons"));
}

TEST(Filter, ValuesAreNeverPartOfTheSql) {
  const SqlPiece piece = parse_filter("name = \"x' OR 1; --\" and `a'b` < 3 and `config.k` = 1 or tag ~ '\\'q'");
  EXPECT_EQ(piece.sql.find("OR 1"), std::string::npos);
  EXPECT_EQ(piece.sql.find("a'b"), std::string::npos);
  EXPECT_EQ(piece.values[0], FieldValue(std::string("x' OR 1; --")));
}

TEST(Filter, SortsByNames) {
  EXPECT_THAT(parse_sort("-loss,`config.a,b`").sql, HasSubstr("DESC"));
  EXPECT_EQ(parse_sort("-loss,`config.a,b`").values.size(), 4u);
  EXPECT_EQ(parse_sort("").sql, "r.started_seconds DESC, r.key DESC");
  EXPECT_THAT(error_of([] { (void)parse_sort("loss,,x"); }), HasSubstr("an empty name"));
  EXPECT_THAT(error_of([] { (void)parse_field(""); }), HasSubstr("an empty name"));
}

}  // namespace
}  // namespace ramet::tests
