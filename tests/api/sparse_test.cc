// Block-sparse layers of the library: nothing here includes a header of src/.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ramet/ramet.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "support/errors.h"
#include "support/temporary.h"

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

/// The model learns, and ends with one hash of its weights on every layout.
void expect_one_hash(const Model& model, const std::vector<std::string>& layouts, int64_t steps = 1000) {
  std::string hash;
  for (const std::string& layout : layouts) {
    SCOPED_TRACE(layout);
    Training training(model, {.schedule = {.learning_rate = 0.01},
                              .steps = steps,
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

TEST(LibrarySparse, TrainsToTheSameBitsOnAnyLayout) {
  for (const BlockSize block : {BlockSize{1, 1}, {4, 4}, {8, 8}})
    expect_one_hash(sparse_model(block, 0.3), {"", "p=2", "t=2", "t=4", "p=2 t=2", "r=2 rts=optimizer",
                                               "phases=2 offload=weights,optimizer", "recompute=layer", "p=2 r=2 t=2"});
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

/// Two residual blocks of dense layers, whose weights are [out, in] and [in, out].
Model dense_model(const Init& init = Init::normal(0.3)) {
  ModelBuilder m("dense");
  Tensor x = m.input("x", DType::kF32, {kBatch, kWidth});
  for (int i = 0; i < 2; ++i) {
    const PartScope part(m, "layer", i);
    const std::string name = "layer" + std::to_string(i);
    const Tensor up = m.weight(name + ".up.weight", {kInner, kWidth}, init, {.axes = {"mlp", "embed"}});
    const Tensor bias = m.weight(name + ".up.bias", {kInner}, Init::zeros(), {.axes = {"mlp"}});
    const Tensor wide = relu(linear(x, up, bias));
    const Tensor down = m.weight(name + ".down.weight", {kInner, kWidth}, init, {.axes = {"mlp", "embed"}});
    x = x + matmul(wide, down);
  }
  m.axis_units("mlp", 4);
  m.loss(reduce_mean(x * x));
  m.output("y", x);
  return m.build();
}

TEST(LibrarySparse, AnyModelsWeightsBecomeSparse) {
  const Model sparse =
      sparsify(dense_model(), {.weights = {"layer?.*.weight"}, .density = 0.3, .block = {4, 4}, .cells = 4, .seed = 5});
  // A cell of 16 x 32 has 32 blocks.
  EXPECT_EQ(sparse.type_of("layer0.up.weight.values"), (TensorType{DType::kF32, {4, 1, 10, 4, 4}}));
  EXPECT_EQ(sparse.type_of("layer1.down.weight.index"), (TensorType{DType::kI32, {4, 1, 10}}));
  EXPECT_THAT(sparse.text(), ::testing::Not(HasSubstr("linear")));
  expect_one_hash(sparse, {"", "p=2", "t=2", "t=4", "p=2 t=2", "r=2", "r=2 rts=weights,grads,optimizer",
                           "phases=2 offload=weights,optimizer", "recompute=layer", "p=2 r=2 t=2"});
}

TEST(LibrarySparse, PatternsOfAnyModelChange) {
  for (const char* regrow : {"random", "gradient"}) {
    const Model sparse = sparsify(dense_model(), {.weights = {"layer?.*.weight"},
                                                  .density = 0.3,
                                                  .block = {4, 4},
                                                  .cells = 4,
                                                  .first_density = 0.5,
                                                  .evolve = {.every = 2, .steps = 4, .regrow = regrow}});
    expect_one_hash(
        sparse, {"", "p=2", "t=2", "p=2 t=2", "r=2 rts=weights,grads,optimizer", "phases=2 offload=weights,optimizer"},
        4);
    EXPECT_THAT(error_of([&] { Training training(sparse, {.steps = 5, .threads = 1}); }),
                AllOf(HasSubstr("4 steps of sparsify"), HasSubstr("5 of the training"), HasSubstr("until")));
    Training training(sparse, {.steps = 4, .micro_batches = 4, .threads = 1});
    std::vector<float> room;
    for (int64_t step = 0; step < 4; ++step) {
      training.step(numbers_of(room, step));
      EXPECT_EQ(training.results("evolve").empty(), step % 2 == 0);
    }
    // In the end 10 of each cell's 16 slots are used, of which a new pattern has no more than it stores.
    EXPECT_EQ(training.results("evolve")["stored.layer0.up.weight"], 40);
    const Array index = training.state("layer0.up.weight.index"), values = training.state("layer0.up.weight.values");
    std::vector<int32_t> numbers;
    for (int64_t i = 0; i < index.elements(); ++i) numbers.push_back(static_cast<int32_t>(index.at(i)));
    EXPECT_EQ(std::count(numbers.begin(), numbers.end(), -1), 4 * 6);
    const SparseMatrix matrix = SparseMatrix::from(SparseCells{.cells_down = 4,
                                                               .cells_across = 1,
                                                               .cell_rows = kInner / 4,
                                                               .cell_columns = kWidth,
                                                               .block = {4, 4},
                                                               .slots = 16,
                                                               .index = numbers,
                                                               .values = values.floats()});
    EXPECT_EQ(matrix.stored_blocks(), 40);
  }
}

TEST(LibrarySparse, AModelOfDensityOneComputesWhatTheDenseOneDoes) {
  const auto wave = Init::by("wave", [](int64_t i) { return 0.2 * std::sin(static_cast<double>(i) * 0.7); });
  const Model dense = dense_model(wave);
  std::vector<std::vector<float>> results;
  for (const Model& model : {dense, sparsify(dense, {.weights = {"*"}, .density = 1, .block = {4, 8}, .cells = 2}),
                             sparsify(dense, {.weights = {"*"}, .density = 1})}) {
    Training training(model, {.schedule = {.learning_rate = 0.01}, .threads = 1});
    std::vector<float> room;
    std::vector<float> losses;
    for (int64_t step = 0; step < 3; ++step) {
      numbers_of(room, step);
      losses.push_back(static_cast<float>(training.step({{"x", std::span(room).first(kBatch * kWidth)}}).loss));
    }
    results.push_back(losses);
  }
  for (const std::vector<float>& losses : results)
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], results[0][i], 1e-5) << i;
}

TEST(LibrarySparse, APatternByMagnitudeKeepsTheGreatestBlocks) {
  // Rows of blocks of 2 x 2 of 8 x 4: the block of number b has elements of +-(b * 5 mod 16).
  const auto numbers = Init::by("blocks", [](int64_t i) {
    const int64_t block = i / 4 / 2 * 2 + i % 4 / 2;
    return static_cast<double>(block * 5 % 16) * (i % 2 ? -1 : 1);
  });
  ModelBuilder m("one");
  const Tensor x = m.input("x", DType::kF32, {2, 4});
  m.loss(reduce_mean(matmul(x, m.weight("w", {16, 4}, numbers), false, true)));
  const Model model = sparsify(m.build(), {.weights = {"w"}, .density = 0.5, .block = {2, 2}, .pattern = "magnitude"});
  Training training(model, {.threads = 1});
  std::vector<float> expected_index, expected_values;
  for (int64_t block = 0; block < 16; ++block) {
    const auto size = static_cast<float>(block * 5 % 16);
    if (size < 8) continue;
    expected_index.push_back(static_cast<float>(block));
    for (const float sign : {1.0f, -1.0f, 1.0f, -1.0f}) expected_values.push_back(sign * size);
  }
  EXPECT_EQ(training.state("w.index").floats(), expected_index);
  EXPECT_EQ(training.state("w.values").floats(), expected_values);
}

TEST(LibrarySparse, ErdosRenyiDensitiesFollowTheSizes) {
  ModelBuilder m("two");
  Tensor x = m.input("x", DType::kF32, {2, 64});
  x = matmul(x, m.weight("wide", {64, 256}, Init::normal(0.1)));
  x = matmul(x, m.weight("narrow", {256, 16}, Init::normal(0.1)));
  m.loss(reduce_mean(x));
  const Model model = sparsify(m.build(), {.weights = {"*"}, .density = 0.2, .distribution = "erk"});
  const double wide = static_cast<double>(model.type_of("wide.index").shape.elements());
  const double narrow = static_cast<double>(model.type_of("narrow.index").shape.elements());
  EXPECT_NEAR(wide + narrow, 0.2 * (64 * 256 + 256 * 16), 2);
  EXPECT_NEAR(wide / narrow, (64.0 + 256) / (256 + 16), 0.01);
}

TEST(LibrarySparse, PatternsOfNamesHaveDensitiesOfTheirOwn) {
  const Model sparse =
      sparsify(dense_model(),
               {.weights = {"layer?.*.weight"}, .density = 0.25, .densities = {{"*.up.*", 0.5}, {"layer1.*", 0.75}}});
  const auto density = [&](const std::string& weight) {
    return static_cast<double>(sparse.type_of(weight + ".index").shape.elements()) / (kInner * kWidth);
  };
  EXPECT_EQ(density("layer0.up.weight"), 0.5);
  EXPECT_EQ(density("layer0.down.weight"), 0.25);
  EXPECT_EQ(density("layer1.up.weight"), 0.75) << "the last pattern that matches counts";
  const auto error = [&](const std::string& pattern, double number) {
    return error_of(
        [&] { sparsify(dense_model(), {.weights = {"layer0.*.weight"}, .densities = {{pattern, number}}}); });
  };
  EXPECT_THAT(error("layer1.*", 0.5), AllOf(HasSubstr("'layer1.*'"), HasSubstr("layer0.down.weight")));
  EXPECT_THAT(error("*.up.*", 1.5), AllOf(HasSubstr("'*.up.*': 1.5"), HasSubstr("at most 1")));
}

TEST(LibrarySparse, ConvolutionsOfOneTapBecomeSparse) {
  const auto wave = Init::by("wave", [](int64_t i) { return 0.2 * std::sin(static_cast<double>(i) * 0.7); });
  ModelBuilder m("images");
  Tensor x = m.input("x", DType::kF32, {2, 8, 3, 3});
  x = convolution(x, m.weight("mix", {16, 8, 1, 1}, wave), m.weight("bias", {16}, Init::constant(0.5)));
  const Tensor y = convolution(x, m.weight("filter", {4, 16, 3, 3}, wave));
  m.loss(reduce_mean(y * y));
  const Model dense = m.build();
  std::vector<float> numbers(2 * 8 * 9);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(std::cos(static_cast<double>(i)));
  std::vector<double> losses;
  for (const Model& model : {dense, sparsify(dense, {.weights = {"mix"}, .density = 1, .block = {4, 4}})}) {
    Training training(model, {.threads = 1});
    losses.push_back(training.step({{"x", numbers}}).loss);
  }
  EXPECT_NEAR(losses[1], losses[0], 1e-5);
  EXPECT_THAT(error_of([&] { sparsify(dense, {.weights = {"filter"}}); }),
              AllOf(HasSubstr("'filter'"), HasSubstr("more than one tap"), HasSubstr("'!filter'")));
  // Over one dimension the filter has three, as a stack of matrices has.
  ModelBuilder line("line");
  const Tensor z = convolution(line.input("x", DType::kF32, {2, 8, 9}), line.weight("mix", {16, 8, 1}, wave));
  line.loss(reduce_mean(z * z));
  losses.clear();
  const Model thin = line.build();
  for (const Model& model : {thin, sparsify(thin, {.weights = {"mix"}, .density = 1, .block = {4, 4}})})
    losses.push_back(Training(model, {.threads = 1}).step({{"x", numbers}}).loss);
  EXPECT_NEAR(losses[1], losses[0], 1e-5);
}

TEST(LibrarySparse, AMatrixThatTheModelTransposesBecomesSparse) {
  const auto wave = Init::by("wave", [](int64_t i) { return 0.2 * std::sin(static_cast<double>(i) * 0.7); });
  std::vector<float> numbers(4 * 32);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(std::cos(static_cast<double>(i)));
  // The product by a transposed weight, as the op or as an attribute of the product.
  const auto hash_of = [&](bool op) {
    ModelBuilder m("turned");
    const Tensor x = m.input("x", DType::kF32, {4, 32});
    const Tensor w = m.weight("w", {16, 32}, wave);
    const Tensor y = op ? matmul(x, transpose(w, {1, 0})) : matmul(x, w, false, true);
    const Tensor z = matmul(y, op ? transpose(transpose(w, {1, 0}), {1, 0}) : w);
    m.loss(reduce_mean(z * z));
    Training training(sparsify(m.build(), {.weights = {"w"}, .density = 0.3, .block = {2, 2}}), {.threads = 1});
    for (int step = 0; step < 3; ++step) training.step({{"x", numbers}});
    return training.weights_hash();
  };
  EXPECT_EQ(hash_of(true), hash_of(false));
}

TEST(LibrarySparse, AllWeightsThatCannotBeSparseAreNamedWithTheReason) {
  ModelBuilder m("unfit");
  const auto init = Init::normal(0.1);
  const Tensor x = m.input("x", DType::kF32, {2, 8, 4, 4});
  const Tensor y = convolution(x, m.weight("fits", {8, 8, 1, 1}, init));
  const Tensor strided = convolution(y, m.weight("strided", {8, 8, 1, 1}, init), Tensor(), {.strides = {2, 2}});
  const Tensor padded =
      convolution(y, m.weight("padded", {8, 8, 1, 1}, init), Tensor(), {.low = {1, 1}, .high = {1, 1}});
  const Tensor grouped = convolution(y, m.weight("grouped", {8, 4, 1, 1}, init), Tensor(), {.groups = 2});
  const Tensor rows = reshape(y, {2, 32, 4});
  const Tensor stacked = matmul(reshape(rows, {2, 1, 32, 4}), m.weight("stacked", {2, 4, 16}, init));
  const Tensor table = m.weight("turned", {16, 4}, init);
  const Tensor turned = matmul(rows, transpose(table, {1, 0})) + reduce_mean(transpose(table, {1, 0}));
  const Tensor left = matmul(m.weight("left", {16, 32}, init), rows);
  const Tensor ids = m.input("ids", DType::kI32, {2, 3});
  const Tensor columns = gather(transpose(m.weight("columns", {8, 16}, init), {1, 0}), ids);
  const Tensor blocks = gather(m.weight("blocks", {16, 2, 4}, init), ids);
  const Tensor part = slice(m.weight("part", {16, 8}, init), {0, 0}, {16, 4});
  const Tensor skips = slice(m.weight("skips", {16, 8}, init), {0, 0}, {16, 8}, {2, 1});
  Tensor sum = reduce_mean(strided);
  for (const Tensor& each : {padded, grouped, stacked, turned, left, columns, blocks, part, skips})
    sum = sum + reduce_mean(each);
  m.loss(sum);
  const std::string error = error_of([&] { sparsify(m.build(), {.weights = {"*"}}); });
  EXPECT_THAT(error, AllOf(HasSubstr("'strided' f32[8,8,1,1]: its convolution has a stride"),
                           HasSubstr("'padded' f32[8,8,1,1]: its convolution has padding"),
                           HasSubstr("'grouped' f32[8,4,1,1]: its convolution has groups"),
                           HasSubstr("'stacked' f32[2,4,16]: its matrices do not meet as many others, one by one"),
                           HasSubstr("'left' f32[16,32]: a product reads it as another operand")));
  EXPECT_THAT(error, AllOf(HasSubstr("'columns' f32[8,16]: columns of it are looked up"),
                           HasSubstr("'blocks' f32[16,2,4]: a table that is looked up has 3 dimensions"),
                           HasSubstr("'part' f32[16,8]: parts of its rows are taken"),
                           HasSubstr("'skips' f32[16,8]: rows with others between them")));
  EXPECT_THAT(error, AllOf(HasSubstr("'turned'"), HasSubstr("the op reduce")));
  EXPECT_THAT(error, AllOf(HasSubstr("'!strided' '!padded'"), ::testing::Not(HasSubstr("'fits'"))));
}

TEST(LibrarySparse, SparsifySaysWhichWeightCannotBeSparseAndWhy) {
  const Model model = dense_model();
  const auto error = [&](const SparsifyOptions& options) { return error_of([&] { sparsify(model, options); }); };
  EXPECT_THAT(error({.weights = {"layer9.*"}}), AllOf(HasSubstr("'layer9.*'"), HasSubstr("layer0.up.weight")));
  EXPECT_THAT(error({.weights = {"layer0.up.bias"}}),
              AllOf(HasSubstr("'layer0.up.bias'"), HasSubstr("it is no matrix")));
  EXPECT_THAT(error({.weights = {"*up.weight", "!*"}}), HasSubstr("no weight is chosen"));
  EXPECT_THAT(error({.weights = {"*.weight"}, .block = {3, 1}}),
              AllOf(HasSubstr("layer0.up.weight"), HasSubstr("blocks of 3x1"), HasSubstr("divisors of 64x32")));
  EXPECT_THAT(error({.weights = {"*.weight"}, .block = {16, 16}}),
              AllOf(HasSubstr("layer0.down.weight"), HasSubstr("too few blocks"), HasSubstr("at least 8")));
  EXPECT_THAT(error({.weights = {"*.weight"}, .density = 0}), HasSubstr("a density"));
  EXPECT_THAT(error({.weights = {"*.weight"}, .distribution = "even"}), HasSubstr("uniform, erk or global"));
  EXPECT_THAT(error({.weights = {"*.weight"}, .evolve = {.every = 2, .regrow = "greedy"}}),
              AllOf(HasSubstr("regrow"), HasSubstr("random or gradient")));
  EXPECT_THAT(error({.weights = {"*.weight"}, .first_density = 0.5}), HasSubstr("never change"));
  EXPECT_THAT(error_of([&] {
                const Model once = sparsify(model, {.weights = {"*up.weight"}, .evolve = {.every = 2}});
                sparsify(once, {.weights = {"*down.weight"}, .evolve = {.every = 2}});
              }),
              HasSubstr("change already"));
  EXPECT_THAT(error({.weights = {"*.weight"}, .pattern = "magnitude"}),
              AllOf(HasSubstr("weights to begin from"), HasSubstr("layer0.up.weight")));
}

/// A table that is looked up and multiplied by: the loss is the mean of the products of all pairs.
Model tied_model() {
  ModelBuilder m("tied");
  const auto wave = Init::by("wave", [](int64_t i) { return std::sin(static_cast<double>(i) * 0.7); });
  const Tensor table = m.weight("table", {16, 8}, wave);
  const Tensor rows = gather(table, m.input("ids", DType::kI32, {4}));
  m.loss(reduce_mean(matmul(rows, table, false, true)));
  return m.build();
}

TEST(LibrarySparse, NewBlocksOfATiedTableAreThoseWithTheGreatestGradients) {
  const std::vector<int32_t> ids{3, 9, 3, 0};
  Training training(
      sparsify(tied_model(), {.weights = {"table"},
                              .density = 0.5,
                              .block = {2, 2},
                              .evolve = {.every = 1, .steps = 2, .prune_ratio = 0, .regrow = "gradient"}}),
      {.schedule = {.learning_rate = 0.1}, .steps = 2, .threads = 1});
  training.step({{"ids", ids}});
  const std::vector<float> values = training.state("table.values").floats(),
                           index = training.state("table.index").floats(),
                           candidates = training.state("table.candidates").floats();
  // Nothing was pruned, so these are the values by which the gradient was computed.
  double table[16][8] = {}, gradient[16][8] = {};
  std::set<int> stored;
  for (size_t slot = 0; slot < index.size(); ++slot) {
    const int block = static_cast<int>(index[slot]);
    stored.insert(block);
    for (int e = 0; e < 4; ++e)
      table[block / 4 * 2 + e / 2][block % 4 * 2 + e % 2] =
          static_cast<double>(values[4 * slot + static_cast<size_t>(e)]);
  }
  for (int h = 0; h < 8; ++h) {
    double of_rows = 0, of_all = 0;
    for (const int32_t id : ids) of_rows += table[id][h];
    for (const auto& row : table) of_all += row[h];
    for (auto& row : gradient) row[h] = of_rows / 64;
    for (const int32_t id : ids) gradient[id][h] += of_all / 64;
  }
  std::vector<std::pair<double, int>> blocks;
  for (int block = 0; block < 32; ++block) {
    double sum = 0;
    for (int e = 0; e < 4; ++e) sum -= std::fabs(gradient[block / 4 * 2 + e / 2][block % 4 * 2 + e % 2]);
    if (!stored.count(block)) blocks.emplace_back(sum, block);
  }
  std::sort(blocks.begin(), blocks.end());
  ASSERT_EQ(candidates.size(), blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto at = std::find(candidates.begin(), candidates.end(), static_cast<float>(blocks[i].second));
    ASSERT_NE(at, candidates.end()) << blocks[i].second;
    const double found = blocks[static_cast<size_t>(at - candidates.begin())].first;
    EXPECT_NEAR(found, blocks[i].first, 1e-6) << "of blocks with equal gradients any may be first";
  }
}

/// What four experts of two layers make of all samples, [4, kBatch, kWidth].
Tensor experts(ModelBuilder& m, const Tensor& x, const std::string& prefix) {
  const auto wave = Init::by("wave", [](int64_t i) { return 0.3 * std::sin(static_cast<double>(i) * 0.7); });
  const Tensor each = broadcast_to(reshape(x, {1, kBatch, kWidth}), {4, kBatch, kWidth});
  const Tensor up = m.weight(prefix + "up", {4, kWidth, kInner}, wave, {.axes = {"", "embed", "mlp"}});
  const Tensor down = m.weight(prefix + "down", {4, kWidth, kInner}, wave, {.axes = {"", "embed", "mlp"}});
  return matmul(relu(matmul(each, up)), down, false, true);
}

Model experts_model() {
  ModelBuilder m("experts");
  const Tensor y = experts(m, m.input("x", DType::kF32, {kBatch, kWidth}), "");
  m.axis_units("mlp", 4);
  m.loss(reduce_mean(y * y));
  return m.build();
}

/// Two layers, each of which adds the mean of its experts.
Model layers_of_experts() {
  ModelBuilder m("experts");
  Tensor x = m.input("x", DType::kF32, {kBatch, kWidth});
  for (int i = 0; i < 2; ++i) {
    const PartScope part(m, "layer", i);
    x = x + reduce_mean(experts(m, x, "layer" + std::to_string(i) + "."), {0});
  }
  m.axis_units("mlp", 4);
  m.loss(reduce_mean(x * x));
  return m.build();
}

TEST(LibrarySparse, StackedMatricesBecomeSparse) {
  const Model dense = experts_model();
  std::vector<double> losses;
  for (const Model& model : {dense, sparsify(dense, {.weights = {"*"}, .density = 1, .block = {2, 4}, .cells = 2})}) {
    Training training(model, {.schedule = {.learning_rate = 0.01}, .threads = 1});
    std::vector<float> room;
    for (int64_t step = 0; step < 3; ++step) {
      numbers_of(room, step);
      losses.push_back(training.step({{"x", std::span(room).first(kBatch * kWidth)}}).loss);
    }
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(losses[i + 3], losses[i], 1e-5) << i;
  const Model fixed = sparsify(dense, {.weights = {"*"}, .density = 0.3, .block = {4, 4}, .cells = 4});
  const TemporaryFolder folder;
  Training stored(sparsify(dense, {.weights = {"*"}, .density = 0.3, .block = {4, 4}}), {.threads = 1});
  stored.save_weights(folder / "dense.safetensors");
  Training whole(dense, {.threads = 1});
  whole.load_weights(folder / "dense.safetensors");
  std::vector<float> room;
  numbers_of(room, 0);
  const NamedViews numbers{{"x", std::span<const float>(room).first(kBatch * kWidth)}};
  EXPECT_NEAR(whole.step(numbers).loss, stored.step(numbers).loss, 1e-5);
  // A cell of 32 x 16 has 32 blocks; four matrices lie one above the other.
  EXPECT_EQ(fixed.type_of("up.values"), (TensorType{DType::kF32, {4, 4, 10, 4, 4}}));
  expect_one_hash(fixed, {"", "t=2", "t=4", "r=2", "r=2 rts=weights,grads,optimizer", "recompute=layer", "r=2 t=2"});
  for (const char* regrow : {"random", "gradient"})
    expect_one_hash(sparsify(dense, {.weights = {"*"},
                                     .density = 0.3,
                                     .block = {4, 4},
                                     .cells = 4,
                                     .evolve = {.every = 2, .steps = 4, .regrow = regrow}}),
                    {"", "t=2", "r=2 rts=weights,grads,optimizer"}, 4);
}

TEST(LibrarySparse, LayersOfStackedMatricesHaveTheSameBitsInPipelinesAndPhases) {
  const std::vector<std::string> layouts{
      "", "p=2", "t=2", "p=2 t=2", "r=2 rts=weights,grads,optimizer", "phases=2 offload=weights,optimizer"};
  const SparsifyOptions fixed{.weights = {"*"}, .density = 0.3, .block = {4, 4}, .cells = 4};
  expect_one_hash(sparsify(layers_of_experts(), fixed), layouts);
  for (const char* regrow : {"random", "gradient"}) {
    SparsifyOptions evolving = fixed;
    evolving.evolve = {.every = 2, .steps = 4, .regrow = regrow};
    expect_one_hash(sparsify(layers_of_experts(), evolving), layouts, 4);
  }
}

/// Killed before or after a change of patterns, and resumed on another layout.
TEST(LibrarySparse, StackedMatricesResume) {
  const Model model =
      sparsify(layers_of_experts(),
               {.weights = {"*"}, .density = 0.3, .block = {4, 4}, .cells = 4, .evolve = {.every = 2, .steps = 4}});
  const auto training_on = [&](const std::string& layout) {
    return Training(model,
                    {.schedule = {.learning_rate = 0.01}, .steps = 4, .chunks = 4, .layout = layout, .threads = 1});
  };
  const auto steps = [](Training& training, int64_t first, int64_t last) {
    std::vector<float> room;
    for (int64_t step = first; step < last; ++step) {
      numbers_of(room, step);
      training.step({{"x", std::span<const float>(room).first(kBatch * kWidth)}});
    }
  };
  Training whole = training_on("");
  steps(whole, 0, 4);
  for (const int64_t killed : {1, 2, 3}) {
    const TemporaryFolder folder;
    {
      Training first = training_on("t=2");
      steps(first, 0, killed);
      first.save(folder / "run");
    }
    Training second = training_on("p=2");
    second.restore(folder / "run");
    steps(second, killed, 4);
    EXPECT_EQ(second.weights_hash(), whole.weights_hash()) << killed;
  }
}

TEST(LibrarySparse, TablesThatAreLookedUpBecomeSparse) {
  const std::vector<int32_t> ids{3, 9, 3, 0};
  // Rows by number, or one after another; the table itself, or the transposed one in a product.
  const auto wave = Init::by("wave", [](int64_t i) { return std::sin(static_cast<double>(i) * 0.7); });
  ModelBuilder m("tables");
  const Tensor x = gather(m.weight("words", {16, 8}, wave), m.input("ids", DType::kI32, {4})) +
                   slice(m.weight("places", {12, 8}, wave), {2, 0}, {6, 8});
  const Tensor tied = m.weight("tied", {24, 8}, wave);
  const Tensor y = matmul(x + gather(tied, m.input("more", DType::kI32, {4})), transpose(tied, {1, 0}));
  m.loss(reduce_mean(y * y));
  const Model dense = m.build();
  std::vector<double> losses;
  for (const Model& model : {dense, sparsify(dense, {.weights = {"*"}, .density = 1, .block = {2, 4}})}) {
    Training training(model, {.schedule = {.learning_rate = 0.01}, .threads = 1});
    for (int step = 0; step < 3; ++step) losses.push_back(training.step({{"ids", ids}, {"more", ids}}).loss);
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(losses[i + 3], losses[i], 1e-5) << i;
  Training training(sparsify(dense, {.weights = {"*"}, .density = 0.5}), {.threads = 1});
  EXPECT_THAT(error_of([&] { training.step({{"ids", std::vector<int32_t>{3, 16, 3, 0}}, {"more", ids}}); }),
              AllOf(HasSubstr("outside of the sparse table"), HasSubstr("16")));
}

}  // namespace
}  // namespace ramet::tests
