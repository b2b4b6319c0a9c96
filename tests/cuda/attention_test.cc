#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cuda/card_tools.h"
#include "kernel/kernel_tools.h"
#include "ramet/kernel/hopper/hopper.h"
#include "ramet/kernel/interpret.h"
#include "support/cut.h"

// Attention on the card, forward and backward: in every form that the card takes, the bits of the class `hopper`.

namespace ramet::tests {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct Form {
  std::string name;
  DType dtype = DType::kBF16;
  int64_t batch = 2, queries = 70, keys = -1, heads = 2, key_heads = -1, size = 16, value_size = -1;
  Attributes attributes{};
  Shape bias{}, mask{};  ///< of four dimensions, or none
  DType bias_dtype = DType::kF32, mask_dtype = DType::kI32;
  bool packed = false, key_mask = false, segments = false, alibi = false;
  double dropout = 0;
  double scale = 0.3, magnitude = 1;
  bool bias_gradient = true;

  int64_t all_keys() const { return keys < 0 ? queries : keys; }
  int64_t heads_of_keys() const { return key_heads < 0 ? heads : key_heads; }
  int64_t size_of_values() const { return value_size < 0 ? size : value_size; }

  Attributes all() const {
    Attributes made = attributes;
    made.set("packed", packed).set("scale", scale);
    if (bias.rank() > 0) made.set("biased", true);
    if (mask.rank() > 0 || key_mask || segments) made.set("masked", true);
    if (segments) made.set("segments", true);
    if (alibi) made.set("alibi", true);
    if (dropout > 0) made.set("dropout", dropout).set("seed", int64_t{5}).set("tensor", int64_t{77} << 33 | 5);
    return made;
  }

  HostTensor numbers(Shape shape, uint64_t which) const {
    HostTensor made = random_tensor(dtype, std::move(shape), which);
    for (int64_t i = 0; magnitude != 1 && i < made.elements(); ++i) made.set(i, made.get(i) * magnitude);
    return made;
  }

  /// Runs of many lengths, with padding between and behind; the third sample is nothing else.
  double run_number(int64_t sample, int64_t position) const {
    if (sample % 3 == 2) return 0;
    if (sample % 3 == 0) return position < queries / 3 ? 1 : position < queries - 2 ? 2 : 0;
    const int64_t step = position % 13;
    return step < 5 ? 1 : step < 6 ? 0 : step < 12 ? 2 : 3;
  }

  HostTensor mask_of(Shape shape) const {
    HostTensor flags(TensorType{mask_dtype, shape});
    const int64_t keys_of_row = shape.dim(-1), rows = flags.elements() / std::max<int64_t>(1, keys_of_row);
    for (int64_t i = 0; i < flags.elements(); ++i) {
      const bool hidden_row = rows > 1 && i / keys_of_row % 6 == 1;
      flags.set(i, segments ? run_number(i / keys_of_row, i % keys_of_row) : !hidden_row && i % 3 != 1);
    }
    return flags;
  }

  std::vector<HostTensor> inputs() const {
    std::vector<HostTensor> made;
    if (packed) {
      made.push_back(numbers({batch, queries, 3, heads, size}, 1));
    } else {
      made.push_back(numbers({batch, queries, heads, size}, 1));
      made.push_back(numbers({batch, all_keys(), heads_of_keys(), size}, 2));
      made.push_back(numbers({batch, all_keys(), heads_of_keys(), size_of_values()}, 3));
    }
    if (bias.rank() > 0) {
      made.push_back(random_tensor(bias_dtype, bias, 4));
      for (int64_t i = 0; i < made.back().elements(); ++i)
        if (i / bias[3] % 7 == 2 || i % 11 == 3) made.back().set(i, -kInfinite);
    }
    if (alibi) made.push_back(random_tensor(DType::kF32, {heads}, 5));
    if (mask.rank() > 0) made.push_back(mask_of(mask));
    if (key_mask || segments) made.push_back(mask_of({batch, all_keys()}));
    if (dropout > 0) made.push_back(HostTensor::of(DType::kI64, {2}, {3, 4}));
    return made;
  }
};

void expect_same(const Form& form) {
  SCOPED_TRACE(form.name + " " + std::string(name_of(form.dtype)));
  std::vector<HostTensor> inputs = form.inputs();
  Attributes attributes = form.all();
  const NodeSignature forward = node_of("attention", inputs, attributes);
  expect_card_equals_host(forward, inputs);
  const std::vector<HostTensor> results = interpret_node(forward, hopper_backend(), inputs, 1);
  inputs.insert(inputs.end(), {results[0], results[1], form.numbers(results[0].type.shape, 9)});
  if (form.bias.rank() > 0 && form.bias_gradient) attributes.set("bias_gradient", true);
  expect_card_equals_host(node_of("attention_grad", inputs, attributes), inputs);
}

constexpr DType kTypes[] = {DType::kBF16, DType::kF32, DType::kF16};

TEST(CardAttention, HeadSizes) {
  const auto of_size = [](DType dtype, int64_t size) {
    return Form{
        .name = "size " + std::to_string(size), .dtype = dtype, .batch = 1, .queries = 67, .heads = 1, .size = size};
  };
  for (const int64_t size : {1, 5, 16, 31, 32, 64, 80, 96, 128}) expect_same(of_size(DType::kBF16, size));
  for (const int64_t size : {1, 5, 32, 64, 128}) expect_same(of_size(DType::kF32, size));
  for (const int64_t size : {5, 64}) expect_same(of_size(DType::kF16, size));  // as f32, once it is widened
}

TEST(CardAttention, Lengths) {
  for (const DType dtype : kTypes)
    for (const int64_t length : {1, 63, 64, 65, 128, 200, 257})
      for (const bool causal : {false, true})
        expect_same({.name = "length " + std::to_string(length) + (causal ? " causal" : ""),
                     .dtype = dtype,
                     .batch = 1,
                     .queries = length,
                     .heads = 1,
                     .attributes = {{"causal", causal}},
                     .packed = true});
}

TEST(CardAttention, MasksAndDropout) {
  for (const DType dtype : kTypes)
    for (const bool causal : {false, true})
      for (const double dropout : {0.0, 0.1})
        for (const DType mask : {DType::kI32, DType::kBool}) {
          Form form{.name = causal ? "causal" : "whole",
                    .dtype = dtype,
                    .queries = 136,
                    .mask_dtype = mask,
                    .packed = true,
                    .key_mask = true,
                    .dropout = dropout};
          form.attributes.set("causal", causal);
          expect_same(form);
        }
  // Rows of random bits that begin inside a block of them.
  for (const int64_t length : {37, 141}) expect_same({.name = "odd", .queries = length, .size = 5, .dropout = 0.25});
}

TEST(CardAttention, Segments) {
  for (const DType dtype : kTypes)
    for (const double dropout : {0.0, 0.25})
      for (const bool causal : {false, true})
        expect_same({.name = causal ? "causal" : "whole",
                     .dtype = dtype,
                     .batch = 3,
                     .queries = 210,
                     .attributes = {{"causal", causal}},
                     .packed = true,
                     .segments = true,
                     .dropout = dropout});
}

TEST(CardAttention, GroupsLengthsAndWindows) {
  const Attributes causal{{"causal", true}}, right{{"causal", true}, {"bottom_right", true}};
  for (const DType dtype : kTypes) {
    Form form{.name = "", .dtype = dtype, .queries = 150, .heads = 4, .key_heads = 2, .size = 20, .attributes = causal};
    const auto with = [&](const std::string& name, auto change) {
      Form other = form;
      other.name = name;
      change(other);
      expect_same(other);
    };
    with("grouped", [](Form& f) { f.dropout = 0.1; });
    with("multi_query", [](Form& f) { f.heads = 3, f.key_heads = 1; });
    with("longer_keys", [](Form& f) { f.queries = 70, f.keys = 261; });
    with("longer_queries", [](Form& f) { f.queries = 261, f.keys = 70; });
    with("bottom_right", [&](Form& f) { f.queries = 70, f.keys = 261, f.attributes = right; });
    with("bottom_right_of_more_queries", [&](Form& f) { f.queries = 261, f.keys = 70, f.attributes = right; });
    with("larger_values", [](Form& f) { f.size = 8, f.value_size = 70, f.attributes = {}; });
    with("smaller_values", [](Form& f) { f.size = 72, f.value_size = 8, f.key_heads = 4; });
    for (const int64_t left : {0, 64, 130})
      with("window_" + std::to_string(left), [&](Form& f) { f.queries = 300, f.attributes.set("window_left", left); });
    with("both_sides",
         [](Form& f) { f.queries = 300, f.attributes = {{"window_left", int64_t{70}}, {"window_right", int64_t{3}}}; });
    with("right_only", [](Form& f) {
      f.queries = 300, f.keys = 170, f.attributes = {{"window_right", int64_t{30}}, {"bottom_right", true}};
    });
  }
}

TEST(CardAttention, TermsOfScores) {
  for (const DType dtype : kTypes) {
    Form form{.name = "", .dtype = dtype, .queries = 100, .heads = 4, .key_heads = 2, .size = 16};
    const auto with = [&](const std::string& name, auto change) {
      Form other = form;
      other.name = name;
      change(other);
      expect_same(other);
    };
    with("soft_cap", [](Form& f) { f.attributes = {{"soft_cap", 0.5}, {"causal", true}}; });
    with("alibi", [](Form& f) { f.attributes = {{"causal", true}}, f.alibi = true; });
    with("mask of scores", [](Form& f) { f.mask = {1, 1, 100, 100}; });
    with("mask of samples", [](Form& f) { f.mask = {2, 1, 1, 100}, f.mask_dtype = DType::kBool; });
    with("mask of queries", [](Form& f) { f.mask = {2, 4, 100, 1}; });
    with("bias of heads", [](Form& f) { f.bias = {1, 4, 100, 100}, f.dropout = 0.1; });
    with("bias of samples and heads", [](Form& f) { f.bias = {2, 4, 100, 100}, f.key_mask = true; });
    with("bias of all heads", [](Form& f) { f.bias = {1, 1, 100, 100}, f.attributes.set("causal", true); });
    with("bias of keys", [](Form& f) { f.bias = {2, 1, 1, 100}, f.bias_gradient = false; });
    with("bias of a type", [&](Form& f) { f.bias = {1, 4, 100, 100}, f.bias_dtype = dtype, f.bias_gradient = false; });
    with("bias with segments", [](Form& f) { f.bias = {1, 4, 100, 100}, f.segments = true, f.bias_gradient = false; });
    with("bias of many samples", [](Form& f) { f.batch = 19, f.queries = 33, f.keys = 65, f.bias = {1, 4, 33, 65}; });
    with("everything", [](Form& f) {
      f.queries = 140, f.keys = 200, f.value_size = 36, f.bias = {1, 4, 140, 200}, f.mask = {2, 1, 140, 200};
      f.alibi = true, f.dropout = 0.25;
      f.attributes = {{"causal", true}, {"window_left", int64_t{100}}, {"soft_cap", 2.0}, {"bottom_right", true}};
    });
  }
}

TEST(CardAttention, PartsDrawAsTheWhole) {
  for (const bool packed : {false, true}) {
    Form form{.name = "part", .queries = 40, .heads = 2, .packed = packed, .dropout = 0.25};
    Attributes attributes = form.all();
    const int head_dim = packed ? 3 : 2;
    attributes = placed(attributes, {{head_dim, 2, 1}, {0, 3, 1}}, {1, 2});
    const std::vector<HostTensor> inputs = form.inputs();
    expect_card_equals_host(node_of("attention", inputs, attributes), inputs);
  }
}

/// Large scores, infinities and NaN among the operands.
TEST(CardAttention, NumbersThatAreNotTame) {
  for (const DType dtype : kTypes) {
    expect_same({.name = "large", .dtype = dtype, .queries = 150, .packed = true, .magnitude = 30});
    for (const double odd : {kInfinite, -kInfinite, std::nan("")})
      for (const size_t which : {0, 1, 2}) {
        const Form form{.name = "", .dtype = dtype, .batch = 1, .queries = 150, .heads = 1, .key_mask = true};
        SCOPED_TRACE(std::to_string(odd) + " in " + std::to_string(which) + " " + std::string(name_of(dtype)));
        std::vector<HostTensor> inputs = form.inputs();
        inputs[which].set(20 * 16 + 3, odd);
        const NodeSignature forward = node_of("attention", inputs, form.all());
        expect_card_equals_host(forward, inputs);
        const std::vector<HostTensor> results = interpret_node(forward, hopper_backend(), inputs, 1);
        inputs.insert(inputs.end(), {results[0], results[1], form.numbers(results[0].type.shape, 9)});
        expect_card_equals_host(node_of("attention_grad", inputs, form.all()), inputs);
      }
  }
}

TEST(CardAttention, NothingToAttend) {
  for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{0, 5}, {5, 0}}) {
    expect_same({.name = "none", .queries = queries, .keys = keys});
    expect_same({.name = "none", .queries = queries, .keys = keys, .bias = {1, 2, queries, keys}});
  }
  expect_same({.name = "no samples", .batch = 0, .packed = true});
}

TEST(CardAttention, Cached) {
  for (const DType dtype : kTypes)
    for (const bool alibi : {false, true}) {
      std::vector<HostTensor> inputs = {
          random_tensor(dtype, {3, 2, 4, 20}, 1), random_tensor(dtype, {3, 150, 2, 20}, 2),
          random_tensor(dtype, {3, 150, 2, 20}, 3), HostTensor::of(DType::kI32, {3}, {0, 127, 149})};
      // Places behind the last position hold anything.
      for (int64_t i = 10 * 40; i < 150 * 40; ++i) inputs[1].set(i, std::nan("")), inputs[2].set(i, std::nan(""));
      Attributes attributes{{"scale", 0.25}};
      if (alibi) {
        inputs.push_back(random_tensor(DType::kF32, {4}, 5));
        attributes.set("alibi", true).set("window_left", int64_t{100});
      }
      expect_card_equals_host(node_of("cached_attention", inputs, attributes), inputs);
    }
}

}  // namespace
}  // namespace ramet::tests
