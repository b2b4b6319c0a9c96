// Loss curves beside PyTorch's. The recorded values were made by bench/parity and bench/peers/torch_parity.py --record.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "parity_recipe.h"
#include "ramet/base/file.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/training.h"

namespace ramet::tests {
namespace {

void follow(const std::string& model) {
  const auto recorded = nlohmann::json::parse(read_file(RAMET_SOURCE_DIR "/tests/samples/parity_" + model + ".json"));
  const std::vector<double> losses = recorded.at("losses");
  ASSERT_EQ(losses.size(), 100u);
  Where options;
  options.threads = 2;
  Training trainer = make_training(prepare(parse_recipe(parity_recipe(model), "parity", ".")), options);
  trainer.initialize();
  double worst = 0;
  for (size_t step = 0; step < losses.size(); ++step) {
    const double loss = number_of(trainer.step(), "loss");
    worst = std::max(worst, std::fabs(loss - losses[step]) / losses[step]);
    ASSERT_LE(worst, 1e-4) << "step " << step << ": " << loss << ", PyTorch has " << losses[step];
  }
  EXPECT_LT(losses.back(), losses.front()) << "the model learns";
}

TEST(Parity, BertMiniFollowsPyTorchOverAHundredSteps) { follow("bert"); }
TEST(Parity, Gpt2MiniFollowsPyTorchOverAHundredSteps) { follow("gpt2"); }

}  // namespace
}  // namespace ramet::tests
