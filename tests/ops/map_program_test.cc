#include "ramet/ops/map_program.h"

#include <gtest/gtest.h>

#include <set>

#include "ramet/base/error.h"
#include "ramet/ir/op.h"
#include "support/errors.h"

namespace ramet::tests {
namespace {

TEST(MapProgram, PrintsAndParsesBackToTheSame) {
  for (const char* text : {"2:%2=add(%0,%1);%3=gelu(%2);%4=scale[0.5](%3)->%3,sum_rows(%4)", "1:->%0",
                           "1:%1=cast[i32](%0)->%1", "1:%1=clamp[-1e-30,inf](%0)->%1,sum_last(%1)",
                           "2:%2=dropout[0.1,18446744073709551615,9223372036854775808](%0,%1)->%2"}) {
    EXPECT_EQ(MapProgram::parse(text).text(), text);
    EXPECT_EQ(MapProgram::parse(MapProgram::parse(text).text()), MapProgram::parse(text));
  }
}

TEST(MapProgram, RefusesWhatDoesNotParse) {
  const auto error = [](const char* text) { return error_of([&] { MapProgram::parse(text); }); };
  EXPECT_EQ(
      error("1:%1=gelo(%0)->%1"),
      "map program, character 6: a map program that does not parse; found 'gelo(%0)->%1'; expected a map op. Did you "
      "mean 'gelu'?");
  EXPECT_EQ(
      error("1:%1=add(%0,%1)->%1"),
      "map program, character 14: a map program that does not parse; found '1)->%1'; expected a value that is known "
      "before, at most 0");
  EXPECT_EQ(error("1:%1=dropout[1.5,0,0](%0,%0)->%1").find("expected a dropout rate in [0, 1)") != std::string::npos,
            true);
  for (const char* text :
       {"", "1", "x:", "1:", "1:->", "1:->%1", "1:%0=exp(%0)->%0", "1:%1=exp(%0", "1:%1=exp(%0)->%1 ",
        "99999999999999999999:->%0", "1:%1=scale(%0)->%1", "1:%1=scale[nan](%0)->%1", "1:%1=cast[bf16](%0)->%1",
        "1:%1=exp(%0)->sum_rows(%1", "0:->%0", "1:%1=exp(%-1)->%1"})
    EXPECT_NE(error(text).find("does not parse"), std::string::npos) << text << ": " << error(text);
}

TEST(MapProgram, KnowsTheTypesOfItsValues) {
  const auto types = [](const char* text, std::vector<DType> inputs) {
    return map_value_types(MapProgram::parse(text), inputs, "here");
  };
  EXPECT_EQ(types("2:%2=less(%0,%1);%3=select(%2,%0,%1);%4=cast[i32](%3)->%4", {DType::kBF16, DType::kF32}),
            (std::vector{DType::kF32, DType::kF32, DType::kBool, DType::kF32, DType::kI32}));
  EXPECT_EQ(error_of([&] { types("2:%2=add(%0,%1)->%2", {DType::kF32, DType::kI32}); }),
            "here, step add(%0,%1): element types that 'add' does not take; found f32, i32; expected floats, or "
            "integers of one "
            "type. Cast the operands first");
  EXPECT_NE(error_of([&] {
              types("1:%1=exp(%0);%2=dropout[0.5,0,0](%1,%1)->%2", {DType::kF32});
            }).find("must be an input of the program"),
            std::string::npos);
}

TEST(MapOpTable, NamesAreDistinctAndEachIsAnOp) {
  std::set<std::string_view> names;
  for (const MapOpInfo& info : map_op_table()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    const OpDef* op = OpRegistry::instance().find(info.name);
    ASSERT_NE(op, nullptr) << info.name;
    EXPECT_EQ(op->map_op, info.name);
    EXPECT_EQ(op->commutative, info.commutative);
    EXPECT_TRUE(info.scalar || info.integer || info.types == MapOpTypes::kCast || info.types == MapOpTypes::kDropout)
        << info.name;
  }
}

}  // namespace
}  // namespace ramet::tests
