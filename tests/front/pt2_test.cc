#include "ramet/front/pt2.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ramet/base/error_types.h"
#include "ramet/base/file.h"
#include "ramet/front/open_model.h"

namespace ramet::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string path() { return std::string(RAMET_SOURCE_DIR) + "/tests/samples/front/mlp.pt2"; }

std::string message(const std::string& bytes) {
  try {
    front::parse_pt2(bytes, "mlp.pt2");
  } catch (const FormatError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Pt2, ReadsTensorsInTheModulesOrderAndTheNamesOfOutputs) {
  const front::TracedModule module = front::read_pt2(path());
  EXPECT_EQ(module.name, "mlp");
  EXPECT_THAT(module.outputs, ElementsAre("loss", "logits"));
  EXPECT_TRUE(module.training) << "the program has a loss";
  std::vector<std::string> names;
  std::map<std::string, const front::ModuleTensor*> tensors;
  for (const front::ModuleTensor& tensor : module.tensors) {
    names.push_back(tensor.name);
    tensors[tensor.name] = &tensor;
  }
  EXPECT_EQ(names[0], "frozen");
  EXPECT_FALSE(tensors.at("frozen")->trained);
  EXPECT_TRUE(tensors.at("first.weight")->trained);
  EXPECT_EQ(tensors.at("layers.0.weight")->storage, tensors.at("layers.2.weight")->storage);
  EXPECT_EQ(tensors.at("offsets")->data.tensor().values(), (std::vector<double>{0, 1, 2, 3}));
}

TEST(Pt2, IsAModelFile) {
  const auto [model, units] = front::open_model(path());
  EXPECT_EQ(model.metrics.at(0).name, "loss");
  EXPECT_EQ(model.programs.at(0).name, "predict");
}

TEST(Pt2, RefusesOtherAndDamagedFiles) {
  const std::string whole = read_file(path());
  EXPECT_THAT(message("no zip file"), HasSubstr("mlp.pt2: not a whole zip file"));
  EXPECT_THAT(message(whole.substr(0, whole.size() / 2)), HasSubstr("not a whole zip file"));
  std::string changed = whole;
  const size_t number = changed.find("\"major\": 8");
  ASSERT_NE(number, std::string::npos);
  changed[number + 9] = '7';
  EXPECT_THAT(message(changed), HasSubstr("checksum is wrong"));
}

}  // namespace
}  // namespace ramet::tests
