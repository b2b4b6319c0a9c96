// Block-sparse layers of the library: nothing here includes a header of src/.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ramet/ramet.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "support/errors.h"

namespace ramet::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kBatch = 4, kWidth = 32, kInner = 64;

/// Two residual blocks whose inner size is dealt to 4 cells.
Model sparse_model(BlockSize block, double density) {
  ModelBuilder m("sparse");
  Tensor x = m.input("x", DType::kF32, {kBatch, kWidth});
  for (int i = 0; i < 2; ++i) {
    const PartScope part(m, "layer", i);
    const std::string name = "layer" + std::to_string(i);
    const Tensor wide = relu(sparse_linear_layer(
        m, x, name + ".up", kInner,
        {.density = density, .block = block, .cells_down = 4, .init = Init::normal(0.3), .rows = "mlp"}));
    x = x + sparse_linear_layer(
                m, wide, name + ".down", kWidth,
                {.density = density, .block = block, .cells_across = 4, .init = Init::normal(0.3), .columns = "mlp"});
  }
  m.axis_units("mlp", 4);
  m.loss(reduce_mean(x * x));
  m.output("y", x);
  return m.build();
}

NamedViews numbers_of(std::vector<float>& room, int64_t first) {
  room.clear();
  for (int64_t i = 0; i < 4 * kBatch * kWidth; ++i)
    room.push_back(static_cast<float>(std::sin(static_cast<double>(first * 512 + i) * 1.7)));
  return {{"x", room}};
}

TEST(LibrarySparse, TrainsToTheSameBitsOnAnyLayout) {
  for (const BlockSize block : {BlockSize{1, 1}, {4, 4}, {8, 8}}) {
    const Model model = sparse_model(block, 0.3);
    std::string hash;
    for (const char* layout : {"", "p=2", "t=2", "t=4", "p=2 t=2", "r=2 rts=optimizer",
                               "phases=2 offload=weights,optimizer", "recompute=layer", "p=2 r=2 t=2"}) {
      SCOPED_TRACE(layout);
      Training training(model, {.schedule = {.learning_rate = 0.01},
                                .micro_batches = 4,
                                .lanes = 2,
                                .chunks = 4,
                                .layout = layout,
                                .threads = 1});
      std::vector<float> room;
      const double before = training.step(numbers_of(room, 0)).loss;
      for (int64_t step = 1; step < 4; ++step) training.step(numbers_of(room, step));
      EXPECT_LT(training.step(numbers_of(room, 0)).loss, before) << "the stored values learn";
      if (hash.empty()) hash = training.weights_hash();
      EXPECT_EQ(training.weights_hash(), hash);
    }
  }
}

TEST(LibrarySparse, StoresAsManyBlocksInEachCell) {
  const Model model = sparse_model({4, 4}, 0.3);
  // A cell of 16 x 32 has 32 blocks of 4 x 4; 0.3 of them are 10.
  EXPECT_EQ(model.type_of("layer0.up.values"), (TensorType{DType::kF32, {4, 1, 10, 4, 4}}));
  EXPECT_EQ(model.type_of("layer1.down.index"), (TensorType{DType::kI32, {1, 4, 10}}));
}

TEST(LibrarySparse, APatternHasNoFavourites) {
  // How often each of 12 blocks is stored, of 5: each set is equally likely.
  std::vector<int> counts(12, 0);
  const int patterns = 2000;
  ModelBuilder m("patterns");
  const Tensor x = m.input("x", DType::kF32, {1, 12});
  Tensor sum = m.weight("w", {1});
  m.loss(reduce_sum(sum));
  sparse_linear_layer(m, x, "many", patterns, {.density = 5.0 / 12, .cells_down = patterns, .bias = false});
  m.program("index", When::on_request(), [](ProgramBuilder& p) { p.output("index", p.state("many.index")); });
  Training training(m.build(), {.threads = 1});
  for (const float block : training.run("index")["index"].floats()) ++counts[static_cast<size_t>(block)];
  double chi_square = 0;
  for (const int count : counts) chi_square += std::pow(count - patterns * 5.0 / 12, 2) / (patterns * 5.0 / 12);
  // Each pattern has 5 of 12, so the variance is 7/12 of independent draws' (a factor of 7/11 with 11 degrees).
  EXPECT_LT(chi_square, 31.3 * 7 / 11) << "chance 0.001";
}

TEST(LibrarySparse, SaysWhatDoesNotFit) {
  ModelBuilder m("wrong");
  const Tensor x = m.input("x", DType::kF32, {1, 30});
  const int line = __LINE__ + 1;
  EXPECT_THAT(error_of([&] { sparse_linear_layer(m, x, "a", 8, {.block = {4, 4}}); }),
              AllOf(HasSubstr("must divide a sparse weight"), HasSubstr("8x30"),
                    HasSubstr("sparse_test.cc:" + std::to_string(line))));
  EXPECT_THAT(error_of([&] { sparse_linear_layer(m, x, "b", 8, {.density = 0}); }), HasSubstr("a density"));
  EXPECT_THAT(error_of([&] { sparse_linear_layer(m, x, "c", 8, {.density = std::nan("")}); }), HasSubstr("a density"));
  EXPECT_THAT(error_of([&] { sparse_linear_layer(m, x, "d", 9, {.cells_down = 2}); }), HasSubstr("2x1 cells"));
}

}  // namespace
}  // namespace ramet::tests
