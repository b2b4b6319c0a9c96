#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "ramet/machine/machine_toml.h"
#include "ramet/program/compile.h"
#include "ramet/sim/model_library.h"
#include "ramet/sim/simulate.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/step.h"

namespace ramet::tests {
namespace {

/// A published training run: rows a second, sequences as the device sees them.
struct Published {
  std::string name, recipe, machine;
  std::vector<std::string> settings;
  double published;
};

class PublishedRun : public testing::TestWithParam<Published> {};

TEST_P(PublishedRun, IsPredicted) {
  const Published& run = GetParam();
  const Machine machine = load_machine(run.machine);
  const std::string folder = std::string(RAMET_SOURCE_DIR "/examples/published/");
  const Recipe recipe = load_recipe((folder + run.recipe).append(".toml"), run.settings);
  const Preparation preparation = prepare(recipe);
  CompileOptions options;
  options.recompute = *preparation.layout.recompute;
  options.device_memory =
      preparation.layout.device_memory > 0 ? preparation.layout.device_memory : machine.memory(MemoryRole::kDevice)->bytes;
  StepGraph step = make_training_step(preparation.workload.model, with_order_of_sums(preparation.options, preparation.layout));
  const auto stages = compile(std::move(step), preparation.layout, TileLibrary(machine.device.tiles), options);
  const double rows = static_cast<double>(recipe.train.micro_batch * recipe.train.accumulation);
  const double predicted = rows / simulate(stages, machine).seconds;
  std::printf("%s: published %.0f rows/s, predicted %.0f, %+.1f%%\n", run.name.c_str(), run.published, predicted,
              100 * (predicted / run.published - 1));
  EXPECT_NEAR(predicted / run.published, 1, 0.08);
}

// Packed sequences count as one row: 1.17 of them at 128, 2.0 at 512. The MLPerf runs are laid out as their submissions
// say, but for layers that were cut in halves.
INSTANTIATE_TEST_SUITE_P(
    Bert, PublishedRun,
    testing::Values(Published{"phase1", "bert-large-phase1", "bow-pod16", {}, 6044 / 1.17},
                    Published{"phase2", "bert-large-phase2", "bow-pod16", {}, 2126 / 2.0},
                    Published{"squad", "bert-large-squad", "bow-pod16", {}, 1183},
                    Published{"mlperf11",
                              "bert-large-phase2",
                              "ipu-pod16",
                              {"train.accumulation=768", "layout.layers=5+6+6+7", "layout.device_memory=2GiB"},
                              1427 / 2.0},
                    Published{"mlperf20",
                              "bert-large-phase2",
                              "bow-pod16",
                              {"train.micro_batch=3", "train.accumulation=512", "train.lanes=2", "layout.p=8",
                               "layout.r=2", "layout.layers=3+3+3+3+3+3+3+3", "layout.device_memory=2GiB"},
                              2259 / 2.0}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ramet::tests
