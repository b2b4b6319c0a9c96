// The tiled attention with biases, masks of scores, windows, soft caps, grouped heads and lengths that differ, at sizes
// of several tiles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/kernel_tools.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/attention.h"
#include "support/cut.h"

namespace ramet::tests {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct Options {
  std::string name;
  int64_t batch = 2, queries = 150, keys = 150, heads = 4, key_heads = 2, size = 20, value_size = 20;
  Attributes attributes{};
  Shape bias{}, mask{};  ///< of four dimensions, or none
  bool alibi = false, dropout = false;
  bool hides_rows = false;  ///< the bias hides all keys of some queries
  bool in_16_bits = false;  ///< is compared with the reference in bf16 and f16 too

  NodeSignature forward(const std::vector<HostTensor>& inputs) const { return node_of("attention", inputs, all()); }

  Attributes all() const {
    Attributes made = attributes;
    made.set("packed", false).set("scale", 0.3);
    if (bias.rank() > 0) made.set("biased", true);
    if (mask.rank() > 0) made.set("masked", true);
    if (alibi) made.set("alibi", true);
    if (dropout) made.set("dropout", 0.25).set("seed", int64_t{5}).set("tensor", int64_t{77});
    return made;
  }

  std::vector<HostTensor> inputs(DType dtype) const {
    std::vector<HostTensor> made{random_tensor(dtype, {batch, queries, heads, size}, 1),
                                 random_tensor(dtype, {batch, keys, key_heads, size}, 2),
                                 random_tensor(dtype, {batch, keys, key_heads, value_size}, 3)};
    if (bias.rank() > 0) {
      made.push_back(random_tensor(DType::kF32, bias, 4));
      for (int64_t i = 0; hides_rows && i < bias.elements(); ++i)
        if (i / bias[3] % 5 == 2 || i % 7 == 3) made.back().set(i, -kInfinite);
    }
    if (alibi) made.push_back(random_tensor(DType::kF32, {heads}, 5));
    if (mask.rank() > 0) {
      HostTensor flags(TensorType{DType::kBool, mask});
      for (int64_t i = 0; i < flags.elements(); ++i) flags.set(i, i % 3 != 1 && i / mask[3] % 6 != 5);
      made.push_back(flags);
    }
    if (dropout) made.push_back(HostTensor::of(DType::kI64, {2}, {3, 4}));
    return made;
  }
};

struct Results {
  std::vector<HostTensor> forward, gradients;
  friend bool operator==(const Results&, const Results&) = default;
};

Results run(const Options& options, const std::vector<HostTensor>& inputs, Attributes attributes,
            const std::string& kernel, int threads) {
  Results results;
  results.forward = interpret_node(node_of("attention", inputs, attributes), cpu_backend(), inputs, threads, kernel);
  std::vector<HostTensor> more = inputs;
  more.insert(more.end(), {results.forward[0], results.forward[1],
                           random_tensor(inputs[0].type.dtype, results.forward[0].type.shape, 9)});
  if (options.bias.rank() > 0) attributes.set("bias_gradient", true);
  results.gradients = interpret_node(node_of("attention_grad", more, attributes), cpu_backend(), more, threads, kernel);
  return results;
}

std::vector<Options> cases() {
  const Attributes causal{{"causal", true}}, right{{"causal", true}, {"bottom_right", true}};
  std::vector<Options> all;
  all.push_back({.name = "grouped", .attributes = causal});
  all.push_back({.name = "multi_query", .heads = 3, .key_heads = 1, .attributes = causal});
  all.push_back({.name = "longer_keys", .queries = 70, .keys = 261, .attributes = causal});
  all.push_back({.name = "longer_queries", .queries = 261, .keys = 70, .attributes = causal});
  all.push_back({.name = "bottom_right", .queries = 70, .keys = 261, .attributes = right});
  all.push_back({.name = "bottom_right_of_more_queries", .queries = 261, .keys = 70, .attributes = right});
  all.push_back({.name = "larger_values", .size = 8, .value_size = 70});
  all.push_back({.name = "smaller_values", .key_heads = 4, .size = 72, .value_size = 8, .attributes = causal});
  for (int64_t left : {0, 64, 130}) {
    Attributes window = causal;
    all.push_back({.name = "window_" + std::to_string(left),
                   .queries = 300,
                   .keys = 300,
                   .attributes = window.set("window_left", left)});
  }
  all.push_back({.name = "window_of_both_sides",
                 .queries = 300,
                 .keys = 300,
                 .key_heads = 4,
                 .attributes = {{"window_left", int64_t{70}}, {"window_right", int64_t{3}}}});
  all.push_back({.name = "window_to_the_right_only",
                 .queries = 300,
                 .keys = 170,
                 .attributes = {{"window_right", int64_t{30}}, {"bottom_right", true}}});
  all.push_back({.name = "soft_cap", .attributes = {{"soft_cap", 0.5}, {"causal", true}}});
  all.push_back({.name = "alibi", .attributes = causal, .alibi = true});
  all.push_back({.name = "mask_of_scores", .mask = {1, 1, 150, 150}});
  all.push_back({.name = "mask_of_samples", .mask = {2, 1, 1, 150}});
  all.push_back({.name = "mask_of_queries", .mask = {2, 4, 150, 1}});
  for (const Shape& shape : {Shape{1, 4, 150, 150}, Shape{2, 4, 150, 150}, Shape{2, 1, 1, 150}, Shape{1, 1, 150, 150},
                             Shape{1, 4, 150, 1}, Shape{1, 1, 1, 1}})
    all.push_back({.name = "bias " + shape.text(), .bias = shape});
  all.push_back({.name = "bias that hides rows", .bias = {1, 4, 150, 150}, .hides_rows = true});
  all.push_back({.name = "bias of many samples", .batch = 19, .queries = 33, .keys = 65, .bias = {1, 4, 33, 65}});
  Attributes everything{{"causal", true}, {"window_left", int64_t{100}}, {"soft_cap", 2.0}, {"bottom_right", true}};
  all.push_back({.name = "everything",
                 .queries = 140,
                 .keys = 200,
                 .value_size = 36,
                 .attributes = everything,
                 .bias = {1, 4, 140, 200},
                 .mask = {2, 1, 140, 200},
                 .alibi = true,
                 .dropout = true,
                 .in_16_bits = true});
  for (Options& one : all)
    for (const char* name : {"bottom_right", "larger_values", "window_64", "soft_cap", "bias that hides rows"})
      if (one.name == name) one.in_16_bits = true;
  return all;
}

TEST(AttentionOptions, AgreeWithTheReferenceAndWithAnyTeam) {
  for (const Options& one : cases())
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      if (dtype != DType::kF32 && !one.in_16_bits) continue;
      SCOPED_TRACE(one.name + " " + std::string(name_of(dtype)));
      const auto inputs = one.inputs(dtype);
      const Results expected = run(one, inputs, one.all(), "reference", 1),
                    found = run(one, inputs, one.all(), "tiles", 1);
      const double tolerance = dtype == DType::kF32 ? 2e-5 : dtype == DType::kF16 ? 4e-3 : 2.5e-2;
      EXPECT_EQ(compare(found.forward[0], expected.forward[0], tolerance), "");
      EXPECT_EQ(compare(found.forward[1], expected.forward[1], tolerance), "");
      for (size_t i = 0; i < found.gradients.size(); ++i) {
        // A gradient that sums over many queries is as exact as its largest terms.
        double most = 1;
        for (double value : expected.gradients[i].values()) most = std::max(most, std::abs(value));
        EXPECT_EQ(compare(found.gradients[i], expected.gradients[i], 2 * most * tolerance), "") << "gradient " << i;
      }
      for (int threads : {2, 3}) EXPECT_EQ(run(one, inputs, one.all(), "tiles", threads), found) << threads;
    }
}

/// Grouped heads have the bits of heads whose keys and values are written out for each; but not the gradients of keys
/// and values, which sum over the group.
TEST(AttentionOptions, GroupedHeadsHaveTheBitsOfKeysWrittenOut) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const Options grouped{.name = "grouped", .attributes = {{"causal", true}}};
    const auto inputs = grouped.inputs(dtype);
    std::vector<HostTensor> apart = inputs;
    for (size_t part : {1, 2}) {
      apart[part] = HostTensor(TensorType{dtype, {2, 150, 4, 20}});
      for (int64_t i = 0; i < apart[part].elements(); ++i)
        apart[part].set(i, inputs[part].get(i / 80 * 40 + i % 80 / 40 * 20 + i % 20));
    }
    const Results found = run(grouped, inputs, grouped.all(), "tiles", 2),
                  expected = run(grouped, apart, grouped.all(), "tiles", 2);
    EXPECT_EQ(found.forward, expected.forward);
    EXPECT_EQ(found.gradients[0], expected.gradients[0]);
  }
}

/// A window, whose hidden tiles are not computed, has the bits of a mask that hides the same keys.
TEST(AttentionOptions, AWindowHasTheBitsOfAMask) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const Options window{
        .name = "window",
        .queries = 200,
        .keys = 330,
        .attributes = {{"bottom_right", true}, {"window_left", int64_t{90}}, {"window_right", int64_t{7}}}};
    const auto inputs = window.inputs(dtype);
    std::vector<HostTensor> masked = inputs;
    masked.emplace_back(TensorType{DType::kI32, {1, 1, 200, 330}});
    for (int64_t i = 0; i < masked.back().elements(); ++i) {
      const int64_t own = i / 330 + 130, key = i % 330;
      masked.back().set(i, key >= own - 90 && key <= own + 7);
    }
    const Attributes attributes{{"packed", false}, {"scale", 0.3}, {"masked", true}};
    EXPECT_EQ(run(window, inputs, window.all(), "tiles", 2), run(window, masked, attributes, "tiles", 2));
  }
}

TEST(AttentionOptions, AQueryThatSeesNothingGivesZeroAndHasNoGradient) {
  for (const std::string kernel : {"reference", "tiles"})
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      // With fewer keys than queries at the bottom right, the first queries stand before all keys.
      const Options one{.name = "",
                        .queries = 100,
                        .keys = 70,
                        .attributes = {{"causal", true}, {"bottom_right", true}},
                        .bias = {1, 4, 100, 70}};
      const Results found = run(one, one.inputs(dtype), one.all(), kernel, 2);
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t i = 0; i < 30 * 80; ++i) {
          ASSERT_EQ(found.forward[0].get(b * 100 * 80 + i), 0);
          ASSERT_EQ(found.gradients[0].get(b * 100 * 80 + i), 0);
        }
      for (int64_t h = 0; h < 4; ++h)
        for (int64_t i = 0; i < 30 * 70; ++i) ASSERT_EQ(found.gradients[3].get(h * 7000 + i), 0);
      EXPECT_EQ(found.forward[1].get(29), -kInfinite);
      EXPECT_GT(found.forward[1].get(30), -kInfinite);
    }
}

TEST(AttentionOptions, KeysWithoutQueriesHaveNoGradient) {
  for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{0, 5}, {5, 0}}) {
    const Options one{.name = "", .queries = queries, .keys = keys, .bias = {1, 4, 1, 1}};
    const auto inputs = one.inputs(DType::kF32);
    EXPECT_EQ(run(one, inputs, one.all(), "tiles", 2), run(one, inputs, one.all(), "reference", 1));
  }
}

/// A cut of samples or of heads, with their groups, changes no bit; the gradient of a bias of all heads is a tree over
/// the parts' chunks.
TEST(AttentionOptions, APartOfTheHeadsHasTheBitsOfTheWhole) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    Options whole{.name = "",
                  .queries = 70,
                  .keys = 90,
                  .heads = 8,
                  .key_heads = 4,
                  .attributes = {{"causal", true}},
                  .bias = {1, 8, 70, 90},
                  .dropout = true};
    const auto inputs = whole.inputs(dtype);
    const Results all = run(whole, inputs, whole.all(), "tiles", 2);
    const HostTensor dout = random_tensor(dtype, all.forward[0].type.shape, 9);
    for (int64_t part : {0, 1}) {
      const auto half = [&](const HostTensor& tensor, int dim) { return cut(tensor, {dim, 2, 1}, part); };
      std::vector<HostTensor> mine{half(inputs[0], 2), half(inputs[1], 2), half(inputs[2], 2), half(inputs[3], 1),
                                   inputs[4]};
      Attributes attributes = placed(whole.all(), {{2, 2, 1}}, {part});
      const auto out = interpret_node(node_of("attention", mine, attributes), cpu_backend(), mine, 1, "tiles");
      ASSERT_EQ(out[0], half(all.forward[0], 2));
      mine.insert(mine.end(), {out[0], out[1], half(dout, 2)});
      attributes.set("bias_gradient", true);
      const auto gradients =
          interpret_node(node_of("attention_grad", mine, attributes), cpu_backend(), mine, 2, "tiles");
      for (size_t i = 0; i < 3; ++i) ASSERT_EQ(gradients[i], half(all.gradients[i], 2)) << i;
      ASSERT_EQ(gradients[3], half(all.gradients[3], 1));
    }
    // One bias for all heads, in four chunks of heads: two parts hold two each.
    whole.bias = {1, 1, 70, 90};
    auto shared = whole.inputs(dtype);
    const Results together = run(whole, shared, whole.all().set("chunks", int64_t{4}), "tiles", 2);
    std::vector<HostTensor> sums;
    for (int64_t part : {0, 1}) {
      const auto half = [&](const HostTensor& tensor, int dim) { return cut(tensor, {dim, 2, 1}, part); };
      std::vector<HostTensor> mine{
          half(shared[0], 2), half(shared[1], 2),           half(shared[2], 2),           shared[3],
          shared[4],          half(together.forward[0], 2), half(together.forward[1], 1), half(dout, 2)};
      Attributes attributes = placed(whole.all(), {{2, 2, 1}}, {part});
      attributes.set("bias_gradient", true).set("chunks", int64_t{2});
      sums.push_back(interpret_node(node_of("attention_grad", mine, attributes), cpu_backend(), mine, 1, "tiles")[3]);
    }
    for (int64_t i = 0; i < sums[0].elements(); ++i)
      ASSERT_EQ(static_cast<float>(sums[0].get(i)) + static_cast<float>(sums[1].get(i)), together.gradients[3].get(i));
  }
}

/// Positions [first, first + count) of [B, S, ...] at the same place of a table of `room` positions, NaN elsewhere.
HostTensor in_table(const HostTensor& all, int64_t count, int64_t room) {
  std::vector<int64_t> dims = all.type.shape.dims();
  const int64_t sequence = dims[1], row = all.elements() / (dims[0] * sequence);
  dims[1] = room;
  HostTensor result(TensorType{all.type.dtype, Shape(dims)});
  for (int64_t i = 0; i < result.elements(); ++i) result.set(i, NAN);
  for (int64_t b = 0; b < dims[0]; ++b)
    for (int64_t i = 0; i < count * row; ++i) result.set(b * room * row + i, all.get(b * sequence * row + i));
  return result;
}

/// Decoding with grouped heads, a window and slopes has the bits of attention over the whole sequence.
TEST(AttentionOptions, CachedAttentionHasTheBitsOfAttention) {
  for (DType dtype : {DType::kF32, DType::kBF16})
    for (int64_t window : {-1, 20, 100}) {
      Options one{.name = "", .queries = 200, .keys = 200, .attributes = {{"causal", true}}, .alibi = true};
      if (window >= 0) one.attributes.set("window_left", window);
      const auto whole = one.inputs(dtype);
      const HostTensor expected = run(one, whole, one.all(), "tiles", 1).forward[0];
      for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 1}, {0, 200}, {63, 3}, {130, 70}, {199, 1}}) {
        HostTensor queries(TensorType{dtype, {2, count, 4, 20}}), wanted = queries;
        for (int64_t b = 0; b < 2; ++b)
          for (int64_t i = 0; i < count * 80; ++i) {
            queries.set(b * count * 80 + i, whole[0].get((b * 200 + first) * 80 + i));
            wanted.set(b * count * 80 + i, expected.get((b * 200 + first) * 80 + i));
          }
        const std::vector<HostTensor> inputs{
            queries, in_table(whole[1], first + count, 210), in_table(whole[2], first + count, 210),
            HostTensor::of(DType::kI32, {2}, {double(first), double(first)}), whole[3]};
        Attributes attributes{{"scale", 0.3}, {"alibi", true}};
        if (window >= 0) attributes.set("window_left", window);
        const NodeSignature node = node_of("cached_attention", inputs, attributes);
        ASSERT_EQ(interpret_node(node, cpu_backend(), inputs, 2, "tiles")[0], wanted) << window << " " << first;
      }
    }
}

TEST(AttentionOptions, CostsOfAWindowCountTheKeysThatAreMet) {
  const Options narrow{
      .name = "", .queries = 300, .keys = 300, .attributes = {{"causal", true}, {"window_left", int64_t{9}}}},
      whole{.name = "", .queries = 300, .keys = 300, .attributes = {{"causal", true}}};
  const NodeSignature few = narrow.forward(narrow.inputs(DType::kF32)), all = whole.forward(whole.inputs(DType::kF32));
  EXPECT_LT(few.op->cost(few).flops, 0.1 * all.op->cost(all).flops);
  EXPECT_EQ(few.op->products(few)[0].n, 10);
  EXPECT_EQ(all.op->products(all)[0].n, 300);
}

}  // namespace
}  // namespace ramet::tests
