#include "ramet/front/torch_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ramet/base/error.h"
#include "ramet/base/file.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;

std::string sample() { return read_file(std::string(RAMET_SOURCE_DIR) + "/tests/samples/front/mlp_training.json"); }

std::string with(const std::string& from, const std::string& to) {
  std::string text = sample();
  const size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return place == std::string::npos ? text : text.replace(place, from.size(), to);
}

std::string message(const std::string& text) {
  try {
    front::read_torch_program(text, "model.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(TorchJson, ReadsCallsWithArgumentsModulesAndLines) {
  const front::TracedProgram program = front::read_torch_program(sample(), "model.json");
  const front::TracedCall& call = program.calls.at(0);
  EXPECT_EQ(call.op, "aten.linear");
  EXPECT_EQ(call.overload, "default");
  EXPECT_EQ(call.module, "first");
  EXPECT_EQ(call.origin, "make_samples.py:47 in forward") << "the user's line, not PyTorch's";
  ASSERT_TRUE(call.find("weight"));
  EXPECT_EQ(call.find("weight")->text, "p_first_weight");
  EXPECT_EQ(program.types.find("p_first_weight")->second.text(), "f32[4,3]");
  EXPECT_EQ(program.modules.find("layers.1")->second, "torch.nn.modules.linear.Linear");
  int mutations = 0;
  for (const front::TracedOutput& output : program.outputs)
    mutations += output.kind == front::TracedOutput::Kind::kBufferMutation;
  EXPECT_EQ(mutations, 4);
}

TEST(TorchJson, RefusesOtherVersionsWithBothNumbers) {
  EXPECT_THAT(message(with("\"major\": 8", "\"major\": 9")), HasSubstr("found 9.20; expected 8.x"));
}

TEST(TorchJson, NamesWhatIsMalformed) {
  EXPECT_THAT(message("{"), HasSubstr("model.json: a text of torch.export is no JSON"));
  EXPECT_THAT(message("[]"), HasSubstr("has no object where one must be"));
  EXPECT_THAT(message("{}"), HasSubstr("lacks a field; expected schema_version"));
  EXPECT_THAT(message(std::string(1 << 20, '[')), HasSubstr("is no JSON"));
  EXPECT_THAT(message(with("\"as_int\": 4", "\"as_int\": \"4\"")), HasSubstr("of the wrong kind; found string"));
  EXPECT_THAT(message(with("\"as_int\": 4", "\"as_int\": -4")), HasSubstr("negative extent"));
  EXPECT_THAT(message(with("\"as_int\": 4", "\"as_int\": 9223372036854775807")), HasSubstr("larger than any memory"));
  EXPECT_THAT(message(with("\"dtype\": 7", "\"dtype\": 77")), HasSubstr("element type that is not known; found 77"));
  EXPECT_THAT(message(with("\"name\": \"linear\"", "\"name\": \"nobody\"")),
              HasSubstr("reads a value before it is made"));
}

TEST(TorchJson, RefusesInputsThatAreNotFixedDenseNumbers) {
  // The first value of the list is the first parameter.
  EXPECT_THAT(message(with("\"as_int\": 4", "\"as_expr\": {\"expr_str\": \"s0\", \"hint\": null}")),
              HasSubstr("its shape [s0"));
  EXPECT_THAT(message(with("\"layout\": 7", "\"layout\": 1")), HasSubstr("it is sparse_coo, not dense"));
}

}  // namespace
}  // namespace ramet::tests
