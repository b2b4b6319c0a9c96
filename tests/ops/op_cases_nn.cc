#include <cmath>
#include <limits>

#include "ops/op_cases.h"
#include "ramet/base/rounding.h"
#include "ramet/kernel/interpret.h"

namespace ramet::tests {
namespace {

constexpr DType kF32 = DType::kF32, kI32 = DType::kI32, kI64 = DType::kI64;

CaseInput f32(Shape shape, double low = -1, double high = 1) { return {{kF32, std::move(shape)}, low, high}; }
CaseInput fixed(CaseInput input) {
  input.differentiate = false;
  return input;
}
CaseInput counter(double step, double micro) { return {{kI64, Shape{2}}, 0, 0, {step, micro}}; }
CaseInput scalar(double value) { return {{kF32, Shape{}}, 0, 0, {value}, false}; }

void add_products(std::vector<OpCase>& cases) {
  cases.push_back(
      {.op = "matmul",
       .name = "by_hand",
       .inputs = {{{kF32, {2, 3}}, 0, 0, {1, 2, 3, 4, 5, 6}}, {{kF32, {3, 2}}, 0, 0, {7, 8, 9, 10, 11, 12}}},
       .expected = {{58, 64, 139, 154}}});
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      const std::string suffix = std::string(ta ? "_ta" : "") + (tb ? "_tb" : "");
      const Shape a = ta ? Shape{6, 4} : Shape{4, 6}, b = tb ? Shape{8, 6} : Shape{6, 8};
      const Attributes attributes{{"transpose_a", ta}, {"transpose_b", tb}};
      cases.push_back({.op = "matmul", .name = "plain" + suffix, .inputs = {f32(a), f32(b)}, .attributes = attributes});
      const Shape stack_a = ta ? Shape{2, 3, 6, 4} : Shape{2, 3, 4, 6},
                  stack_b = tb ? Shape{1, 3, 2, 6} : Shape{1, 3, 6, 2};
      cases.push_back({.op = "matmul",
                       .name = "stacks_broadcast" + suffix,
                       .inputs = {f32(stack_a), f32(stack_b)},
                       .attributes = attributes});
      cases.push_back({.op = "matmul",
                       .name = "rows_by_weight" + suffix,
                       .inputs = {f32(ta ? Shape{3, 6, 2} : Shape{3, 2, 6}), f32(b)},
                       .attributes = attributes});
      Attributes chunked = attributes;
      chunked.set("chunks", int64_t{2});
      cases.push_back({.op = "matmul", .name = "chunks" + suffix, .inputs = {f32(a), f32(b)}, .attributes = chunked});
    }
  cases.push_back({.op = "matmul", .name = "weight_stack_of_one", .inputs = {f32({2, 6}), f32({2, 6, 4})}});
  cases.push_back({.op = "matmul",
                   .name = "four_chunks",
                   .inputs = {f32({2, 24}), f32({24, 2})},
                   .attributes = {{"chunks", int64_t{4}}}});
  cases.push_back({.op = "matmul",
                   .name = "accumulate",
                   .inputs = {f32({2, 5}), f32({5, 4}), f32({2, 4})},
                   .attributes = {{"accumulate", true}}});
  cases.push_back({.op = "matmul",
                   .name = "in_order",
                   .inputs = {f32({40, 6}), f32({40, 20})},
                   .attributes = {{"transpose_a", true}, {"in_order", true}},
                   .low_types = false});
  cases.push_back({.op = "matmul",
                   .name = "accumulate_chunks",
                   .inputs = {f32({2, 6}), f32({6, 4}), f32({2, 4})},
                   .attributes = {{"accumulate", true}, {"chunks", int64_t{2}}}});
  cases.push_back(
      {.op = "matmul", .name = "wide_output", .inputs = {f32({2, 6}), f32({6, 4})}, .attributes = {{"dtype", kF32}}});
  cases.push_back(
      {.op = "matmul", .name = "nothing_contracted", .inputs = {f32({2, 0}), f32({0, 2})}, .expected = {{0, 0, 0, 0}}});
  // 8-bit operands of either format; the result is of another type, and so is the gradient.
  for (const auto& [a, b] : {std::pair(DType::kF8E4M3, DType::kF8E4M3), std::pair(DType::kF8E5M2, DType::kF8E4M3),
                             std::pair(DType::kF8E4M3, DType::kF8E5M2)})
    for (DType out : {kF32, DType::kF16})
      cases.push_back(
          {.op = "matmul",
           .name = "f8_" + std::string(name_of(a)) + "_" + std::string(name_of(b)) + "_" + std::string(name_of(out)),
           .inputs = {{{a, {4, 6}}}, {{b, {6, 8}}}},
           .attributes = {{"dtype", out}},
           .low_types = false});
  cases.push_back({.op = "matmul",
                   .name = "f8_by_hand",
                   .inputs = {{{DType::kF8E4M3, {1, 3}}, 0, 0, {448, 0.001953125, -1.5}},
                              {{DType::kF8E5M2, {3, 1}}, 0, 0, {57344, 1, 0.5}}},
                   .attributes = {{"dtype", kF32}},
                   .expected = {{25690111.251953125}},
                   .low_types = false});
  cases.push_back({.op = "linear",
                   .name = "f8",
                   .inputs = {{{DType::kF8E4M3, {4, 6}}}, {{DType::kF8E4M3, {6, 4}}}, f32({4})},
                   .attributes = {{"dtype", DType::kF16}},
                   .gradient_tolerance = 5e-2,  // differences of what f16 has rounded
                   .low_types = false});
  cases.push_back({.op = "matmul", .name = "no_rows", .inputs = {f32({0, 3}), f32({3, 2})}});
  cases.push_back({.op = "matmul",
                   .name = "packed",
                   .inputs = {f32({4, 6}), {{DType::kU8, Shape{256}}, 0, 255}},
                   .attributes = {{"b_blocked", "tiles16"}, {"b_shape", std::vector<int64_t>{6, 8}}, {"b_dtype", kF32}},
                   .low_types = false,
                   .in_reference = false});
  cases.push_back(
      {.op = "linear",
       .name = "by_hand",
       .inputs = {{{kF32, {1, 2}}, 0, 0, {2, 3}}, {{kF32, {2, 2}}, 0, 0, {1, 2, 3, 4}}, {{kF32, {2}}, 0, 0, {10, 20}}},
       .expected = {{21, 36}}});
  cases.push_back({.op = "linear",
                   .name = "transposed",
                   .inputs = {f32({2, 3, 6}), f32({4, 6}), f32({4})},
                   .attributes = {{"transpose_weight", true}}});
  cases.push_back({.op = "linear",
                   .name = "chunks",
                   .inputs = {f32({4, 6}), f32({6, 4}), f32({4})},
                   .attributes = {{"chunks", int64_t{3}}}});
  cases.push_back({.op = "block",
                   .name = "bytes",
                   .inputs = {f32({4, 6})},
                   .attributes = {{"format", "tiles16"}, {"bytes", int64_t{256}}, {"dtype", DType::kBF16}},
                   .low_types = false,
                   .in_reference = false});
}

void add_norms(std::vector<OpCase>& cases) {
  for (const char* op : {"softmax", "log_softmax"}) {
    cases.push_back(
        {.op = op, .name = "last_axis", .inputs = {f32({4, 6}, -3, 3)}, .attributes = {{"axis", int64_t{-1}}}});
    cases.push_back(
        {.op = op, .name = "middle_axis", .inputs = {f32({2, 5, 4}, -3, 3)}, .attributes = {{"axis", int64_t{1}}}});
    cases.push_back(
        {.op = op, .name = "first_axis", .inputs = {f32({3, 2}, -3, 3)}, .attributes = {{"axis", int64_t{0}}}});
  }
  // torch.softmax([[1, 2, 3]]), torch.log_softmax of the same
  cases.push_back({.op = "softmax",
                   .name = "peer",
                   .inputs = {{{kF32, {1, 3}}, 0, 0, {1, 2, 3}}},
                   .attributes = {{"axis", int64_t{-1}}},
                   .expected = {{0.09003057317038046, 0.24472847105479764, 0.6652409557748218}}});
  cases.push_back({.op = "log_softmax",
                   .name = "peer",
                   .inputs = {{{kF32, {1, 3}}, 0, 0, {1001, 1002, 1003}}},
                   .attributes = {{"axis", int64_t{-1}}},
                   .expected = {{-2.4076059644443806, -1.4076059644443804, -0.4076059644443804}},
                   .low_types = false});
  const Attributes epsilon{{"epsilon", 1e-5}};
  cases.push_back({.op = "layer_norm",
                   .name = "rows",
                   .inputs = {f32({4, 2, 8}), f32({8}, 0.5, 1.5), f32({8})},
                   .attributes = epsilon,
                   .gradient_outputs = {0}});
  cases.push_back({.op = "layer_norm",
                   .name = "vector",
                   .inputs = {f32({7}), f32({7}), f32({7})},
                   .attributes = epsilon,
                   .gradient_outputs = {0}});
  cases.push_back({.op = "layer_norm",
                   .name = "by_hand",
                   .inputs = {{{kF32, {1, 4}}, 0, 0, {1, 3, 5, 7}},
                              {{kF32, {4}}, 0, 0, {1, 2, 1, 2}},
                              {{kF32, {4}}, 0, 0, {0, 0, 1, 1}}},
                   .attributes = {{"epsilon", 0.0}},
                   .expected = {{-1.3416407864998738, -0.8944271909999159, 1.4472135954999579, 3.6832815729997477},
                                {4},
                                {0.4472135954999579}},
                   .gradient_outputs = {0}});
  cases.push_back({.op = "layer_norm_grad",
                   .name = "rows",
                   .inputs = {f32({4, 6}), f32({4, 6}), f32({6}), f32({4}), f32({4}, 0.5, 2)}});
  const Attributes in_order{{"in_order", true}};
  cases.push_back({.op = "layer_norm_grad",
                   .name = "in_order",
                   .inputs = {f32({9, 8, 70}), f32({9, 8, 70}), f32({70}), f32({9, 8}), f32({9, 8}, 0.5, 2)},
                   .attributes = in_order});
  cases.push_back({.op = "rms_norm_grad",
                   .name = "in_order",
                   .inputs = {f32({70, 5}), f32({70, 5}), f32({5}), f32({70}, 0.5, 2)},
                   .attributes = in_order});
  for (int64_t chunks : {2, 4}) {
    const Attributes attributes{{"chunks", chunks}};
    const std::string name = "chunks_" + std::to_string(chunks);
    cases.push_back({.op = "layer_norm_grad",
                     .name = name,
                     .inputs = {f32({3, 8, 6}), f32({3, 8, 6}), f32({6}), f32({3, 8}), f32({3, 8}, 0.5, 2)},
                     .attributes = attributes});
    cases.push_back({.op = "rms_norm_grad",
                     .name = name,
                     .inputs = {f32({2, 8, 6}), f32({2, 8, 6}), f32({6}), f32({2, 8}, 0.5, 2)},
                     .attributes = attributes});
  }
  cases.push_back({.op = "rms_norm",
                   .name = "rows",
                   .inputs = {f32({2, 4, 6}), f32({6})},
                   .attributes = epsilon,
                   .gradient_outputs = {0}});
  cases.push_back({.op = "rms_norm",
                   .name = "by_hand",
                   .inputs = {{{kF32, {1, 2}}, 0, 0, {3, 4}}, {{kF32, {2}}, 0, 0, {1, 2}}},
                   .attributes = {{"epsilon", 0.0}},
                   .expected = {{0.848528137423857, 2.262741699796952}, {0.282842712474619}},
                   .gradient_outputs = {0}});
  cases.push_back(
      {.op = "rms_norm_grad", .name = "rows", .inputs = {f32({4, 6}), f32({4, 6}), f32({6}), f32({4}, 0.5, 2)}});
}

CaseInput mask(std::vector<double> values, Shape shape, DType dtype = kI32) {
  return {{dtype, std::move(shape)}, 0, 1, std::move(values)};
}

void add_attention(std::vector<OpCase>& cases) {
  const CaseInput part = f32({2, 4, 2, 3});
  const CaseInput keys = mask({1, 1, 0, 1, 1, 1, 1, 0}, {2, 4});
  const auto add = [&](const std::string& name, std::vector<CaseInput> inputs, Attributes attributes) {
    attributes.set("scale", 0.5);
    cases.push_back({.op = "attention",
                     .name = name,
                     .inputs = std::move(inputs),
                     .attributes = std::move(attributes),
                     .gradient_outputs = {0}});
  };
  // torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True), q = 0.1 i, k = cos i, v = sin i in
  // [B,H,S,D].
  OpCase peer{.op = "attention",
              .name = "peer",
              .inputs = {},
              .attributes = {{"packed", false}, {"causal", true}, {"scale", std::sqrt(0.5)}}};
  for (int which = 0; which < 3; ++which) {
    CaseInput input{{kF32, Shape{1, 3, 2, 2}}, 0, 0, {}};
    for (int s = 0; s < 3; ++s)
      for (int h = 0; h < 2; ++h)
        for (int d = 0; d < 2; ++d) {
          const double i = (h * 3 + s) * 2 + d;
          input.values.push_back(which == 0 ? 0.1 * i : which == 1 ? std::cos(i) : std::sin(i));
        }
    peer.inputs.push_back(input);
  }
  peer.expected = {{0.0, 0.8414709848078965, -0.27941549819892586, 0.6569865987187891, 0.3379928032100316,
                    0.581145174046167, -0.08094917886375974, 0.6186834155053482, -0.03991979389500131,
                    0.17731870315720605, -0.1876587836298626, 0.4308324809395379}};
  peer.gradient_outputs = {0};
  cases.push_back(std::move(peer));
  add("plain", {part, part, part}, {{"packed", false}});
  add("packed", {f32({2, 4, 3, 2, 3})}, {{"packed", true}});
  add("causal", {part, part, part}, {{"packed", false}, {"causal", true}});
  add("masked", {part, part, part, keys}, {{"packed", false}, {"masked", true}});
  add("masked_packed_causal", {f32({2, 4, 3, 2, 3}), mask({1, 1, 0, 1, 0, 1, 1, 1}, {2, 4}, DType::kBool)},
      {{"packed", true}, {"masked", true}, {"causal", true}});
  add("segments", {part, part, part, mask({2, 2, 7, 0, 1, 3, 3, 3}, {2, 4})},
      {{"packed", false}, {"masked", true}, {"segments", true}});
  add("segments_dropout", {f32({2, 4, 3, 2, 3}), mask({1, 2, 2, 2, 0, 1, 1, 0}, {2, 4}), counter(3, 5)},
      {{"packed", true},
       {"masked", true},
       {"segments", true},
       {"causal", true},
       {"dropout", 0.3},
       {"seed", int64_t{7}},
       {"tensor", int64_t{99}}});
  add("all_hidden", {part, part, part, mask({0, 0, 0, 0, 1, 0, 0, 0}, {2, 4})}, {{"packed", false}, {"masked", true}});
  add("dropout", {f32({2, 4, 3, 2, 3}), keys, counter(3, 5)},
      {{"packed", true}, {"masked", true}, {"dropout", 0.3}, {"seed", int64_t{7}}, {"tensor", int64_t{99}}});
  for (bool packed : {false, true}) {
    const std::string name = packed ? "packed" : "plain";
    OpCase forward{.op = "attention", .name = "forward of " + name, .inputs = {}};
    forward.inputs.assign(packed ? 1 : 3, packed ? f32({2, 4, 3, 2, 3}) : part);
    forward.inputs.push_back(keys);
    forward.attributes = {{"packed", packed}, {"masked", true}, {"scale", 0.5}};
    if (packed) {
      forward.attributes.set("dropout", 0.3).set("seed", int64_t{7}).set("tensor", int64_t{99});
      forward.inputs.push_back(counter(3, 5));
    }
    // Kernels may read the results of the forward pass instead of computing them again: they must be its results.
    std::vector<HostTensor> values = inputs_of(forward);
    for (HostTensor& result : interpret_node(signature_of(forward), reference_backend(), values))
      values.push_back(std::move(result));
    std::vector<CaseInput> inputs;
    for (const HostTensor& value : values) inputs.push_back({.type = value.type, .values = value.values()});
    inputs.push_back(part);
    cases.push_back({.op = "attention_grad",
                     .name = name,
                     .inputs = std::move(inputs),
                     .attributes = forward.attributes,
                     .low_types = false});
  }
  const auto positions = [](std::vector<double> values) {
    return CaseInput{{kI32, Shape{static_cast<int64_t>(values.size())}}, 0, 0, std::move(values)};
  };
  for (const auto& [name, queries, first] :
       {std::tuple("one query", 1, std::vector<double>{0, 4}), std::tuple("some queries", 3, std::vector<double>{2, 0}),
        std::tuple("queries beyond the keys", 2, std::vector<double>{4, -1})})
    cases.push_back({.op = "cached_attention",
                     .name = name,
                     .inputs = {f32({2, queries, 2, 3}), f32({2, 5, 2, 3}), f32({2, 5, 2, 3}), positions(first)},
                     .attributes = {{"scale", 0.5}}});
  // A query that sees one key takes its value.
  cases.push_back({.op = "cached_attention",
                   .name = "first position",
                   .inputs = {f32({1, 1, 1, 2}),
                              f32({1, 3, 1, 2}),
                              {{kF32, Shape{1, 3, 1, 2}}, 0, 0, {5, 6, 7, 8, 9, 10}},
                              positions({0})},
                   .attributes = {{"scale", 1.0}},
                   .expected = {{5, 6}}});
  cases.push_back({.op = "write_rows",
                   .name = "rows",
                   .inputs = {{{kF32, Shape{2, 3, 2}}, 0, 0, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
                              {{kF32, Shape{2, 2, 2}}, 0, 0, {-1, -2, -3, -4, -5, -6, -7, -8}},
                              positions({1, 2})},
                   .expected = {{1, 2, -1, -2, -3, -4, 7, 8, 9, 10, -5, -6}}});
  cases.push_back({.op = "write_rows",
                   .name = "of heads, before the table and behind it",
                   .inputs = {f32({2, 4, 2, 3}), f32({2, 2, 2, 3}), positions({-1, 7})}});
  const Attributes drop{{"rate", 0.25}, {"seed", int64_t{11}}, {"tensor", int64_t{-5}}};
  cases.push_back({.op = "dropout", .name = "matrix", .inputs = {f32({6, 10}), counter(2, 3)}, .attributes = drop});
}

/// Cases of one softmax: its statistics in chunks, and what is made of them. Logits [rows,classes] are `values`.
void add_loss(std::vector<OpCase>& cases, const std::string& name, Shape shape, std::vector<double> values,
              std::vector<double> labels, int64_t chunks, std::vector<std::vector<double>> expected = {},
              int64_t real = 0) {
  const CaseInput logits{{kF32, shape}, 0, 0, std::move(values)};
  const CaseInput classes{{kI32, Shape{shape[0]}}, 0, 0, std::move(labels)};
  const OpCase statistics{
      .op = "softmax_statistics",
      .name = name,
      .inputs = {logits, classes},
      .attributes = real ? Attributes{{"chunks", chunks}, {"classes", real}} : Attributes{{"chunks", chunks}}};
  cases.push_back(statistics);
  const HostTensor made = interpret_node(signature_of(statistics), reference_backend(), inputs_of(statistics))[0];
  const CaseInput found{made.type, 0, 0, made.values()};
  cases.push_back({.op = "softmax_statistics_grad",
                   .name = name,
                   .inputs = {logits, classes, found, fixed(f32(made.type.shape))},
                   .attributes = real ? Attributes{{"classes", real}} : Attributes{},
                   .low_types = false});
  // Derivatives by the label's place mean nothing: the gradient of the whole is in network_ops_test.cc.
  const OpCase loss{
      .op = "cross_entropy", .name = name, .inputs = {found}, .expected = std::move(expected), .gradient_tolerance = 0};
  cases.push_back(loss);
  OpCase in_order = loss;
  in_order.name += "_in_order";
  in_order.attributes.set("in_order", true);
  cases.push_back(in_order);
  cases.push_back({.op = "cross_entropy_grad", .name = name, .inputs = {found, scalar(3), scalar(1.5)}});
}

void add_losses(std::vector<OpCase>& cases) {
  std::vector<double> values;
  for (int i = 0; i < 48; ++i) values.push_back(i * 29 % 48 / 12.0 - 2);  // no two are near each other
  add_loss(cases, "ignored_row", {4, 12}, values, {2, -1, 0, 11}, 1);
  add_loss(cases, "chunks", {4, 12}, values, {2, -1, 0, 11}, 4);
  add_loss(cases, "chunks_of_one", {4, 12}, values, {2, -1, 0, 11}, 12);
  add_loss(cases, "padding", {4, 12}, values, {2, -1, 0, 9}, 4, {}, 10);
  add_loss(cases, "all_ignored", {2, 3}, {1, 2, 3, 4, 5, 7}, {-1, -1}, 1, {{0}, {0}, {0}});
  // torch.nn.functional.cross_entropy([[1, 2, 3], [3, 1, 1], [0, 0, 0]], [2, 1, 0]); the first of equals is the argmax.
  const std::vector<std::vector<double>> peer{{1.2485876731114583}, {3}, {2}};
  cases.push_back({.op = "cross_entropy",
                   .name = "no_rows",
                   .inputs = {f32({0, 2, 4})},
                   .expected = {{0}, {0}, {0}},
                   .gradient_tolerance = 0});
  for (int64_t chunks : {1, 3}) {
    OpCase made{.op = "softmax_statistics",
                .name = "peer",
                .inputs = {{{kF32, {3, 3}}, 0, 0, {1, 2, 3, 3, 1, 1, 0, 0, 0}}, {{kI32, Shape{3}}, 0, 0, {2, 1, 0}}},
                .attributes = {{"chunks", chunks}}};
    const HostTensor found = interpret_node(signature_of(made), reference_backend(), inputs_of(made))[0];
    cases.push_back({.op = "cross_entropy",
                     .name = "peer_in_" + std::to_string(chunks),
                     .inputs = {{found.type, 0, 0, found.values()}},
                     .expected = peer,
                     .gradient_tolerance = 0});
  }
  // Padding is no class, however great its logit.
  cases.push_back({.op = "softmax_statistics",
                   .name = "hidden_padding",
                   .inputs = {{{kF32, {1, 6}}, 0, 0, {0, 0, 1, 9, 9, 9}}, {{kI32, Shape{1}}, 0, 0, {2}}},
                   .attributes = {{"chunks", int64_t{3}}, {"classes", int64_t{3}}},
                   .expected = {{0, 2, 0, 0, 1, 1, 1, 2, -INFINITY, 0, 0, 0}},
                   .gradient_tolerance = 0});
  cases.push_back({.op = "softmax_statistics_grad",
                   .name = "hidden_padding",
                   .inputs = {{{kF32, {1, 6}}, 0, 0, {0, 0, 1, 9, 9, 9}},
                              {{kI32, Shape{1}}, 0, 0, {2}},
                              {{kF32, {1, 3, 4}}, 0, 0, {0, 2, 0, 0, 1, 1, 1, 2, -INFINITY, 0, 0, 0}},
                              {{kF32, {1, 3, 4}}, 0, 0, {1, 0.5, 0, 0, 3, 3, -1, 0, 0, 0, 0, 0}}},
                   .attributes = {{"classes", int64_t{3}}},
                   .expected = {{0.5, 0.5, 2, 0, 0, 0}},
                   .low_types = false});
  // A chunk of nothing but -infinity adds nothing.
  cases.push_back({.op = "softmax_statistics",
                   .name = "hidden_chunk",
                   .inputs = {{{kF32, {1, 4}}, 0, 0, {-INFINITY, -INFINITY, 1, 1}}, {{kI32, Shape{1}}, 0, 0, {3}}},
                   .attributes = {{"chunks", int64_t{2}}},
                   .expected = {{-INFINITY, 0, 0, 0, 1, 2, 1, 1}},
                   .gradient_tolerance = 0});
}

void add_optimizers(std::vector<OpCase>& cases) {
  const CaseInput w = f32({4, 6}), second = f32({4, 6}, 0, 1);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  // 14 = 14 * 2^298 of the least units: digit 9 counts 2^-10.
  const auto exact = [](double digit9, double digit10 = 0) {
    std::vector<double> digits(21, 0.0);
    digits[9] = digit9, digits[10] = digit10;
    return digits;
  };
  const TensorType accumulator{DType::kI64, {21}};
  cases.push_back({.op = "sum_squares",
                   .name = "by_hand",
                   .inputs = {{{kF32, {3}}, 0, 0, {1, -2, 3}}},
                   .expected = {exact(14 * 1024)}});
  cases.push_back({.op = "sum_squares", .name = "long", .inputs = {f32({4, 42})}});
  cases.push_back({.op = "sum_squares", .name = "scalar", .inputs = {f32({})}});
  cases.push_back({.op = "count_underflow",
                   .name = "of_f16",
                   .inputs = {{{DType::kF16, {5}}, 0, 0, {0, 0x1p-14, 0x1p-15, -0x1p-24, 1}}},
                   .expected = {exact(2 * 1024)},
                   .low_types = false});
  cases.push_back({.op = "count_underflow",
                   .name = "of a matrix",
                   .inputs = {{{DType::kF16, {4, 6}}, -0x1p-13, 0x1p-13}},
                   .low_types = false});
  cases.push_back({.op = "exact_sum",
                   .name = "three",
                   .inputs = {{accumulator, 0, 0, exact(4294967295)},
                              {accumulator, 0, 0, exact(1, 7)},
                              {accumulator, 0, 0, exact(3, 4294967295)}},
                   .expected = {[&] {
                     std::vector<double> digits = exact(3, 7);
                     digits[11] = 1;
                     return digits;
                   }()}});
  cases.push_back({.op = "exact_sum",
                   .name = "carries",
                   .inputs = {{accumulator, 0, 0, exact(3 * 4294967296.0 + 5)}},
                   .expected = {exact(5, 3)}});
  cases.push_back({.op = "from_exact",
                   .name = "carries",
                   .inputs = {{accumulator, 0, 0, exact(5 * 4294967296.0 + 1024)}},
                   .expected = {{5 * 4194304.0 + 1}}});
  std::vector<double> bins(280, 0.0);
  bins[0] = 1, bins[150] = 2, bins[151] = 1, bins[1] = 1, bins[149] = 1, bins[278] = 1, bins[279] = 1, bins[24] = 1;
  cases.push_back({.op = "exponent_histogram",
                   .name = "by_hand",
                   .inputs = {{{kF32, {9}}, 0, 0, {0, 1, -1.5, 2, 0x1p-149, 0.5, -INFINITY, nan, 0x1p-126}}},
                   .expected = {bins},
                   .low_types = false});
  cases.push_back({.op = "exponent_histogram", .name = "long", .inputs = {f32({4, 1042})}});
  cases.push_back({.op = "exponent_histogram", .name = "scalar", .inputs = {f32({})}});
  const TensorType histogram{DType::kI64, {280}};
  cases.push_back({.op = "histogram_sum", .name = "two", .inputs = {{histogram, 0, 9}, {histogram, 0, 9}}});
  cases.push_back({.op = "histogram_share",
                   .name = "from",
                   .inputs = {{histogram, 0, 0, bins}},
                   .attributes = {{"exponent", int64_t{0}}},
                   .expected = {{5.0 / 8}}});
  cases.push_back({.op = "histogram_share",
                   .name = "below",
                   .inputs = {{histogram, 0, 0, bins}},
                   .attributes = {{"exponent", int64_t{-1}}, {"below", true}},
                   .expected = {{2.0 / 8}}});
  cases.push_back({.op = "histogram_share",
                   .name = "of_nothing",
                   .inputs = {{histogram, 0, 0, std::vector<double>(280, 0.0)}},
                   .attributes = {{"exponent", int64_t{5}}},
                   .expected = {{0}}});
  for (double scale : {0.5, nan}) {
    const std::string suffix = scale == scale ? "" : "_not_finite";
    cases.push_back({.op = "sgd",
                     .name = "plain" + suffix,
                     .inputs = {w, w, scalar(0.1), scalar(scale)},
                     .attributes = {{"momentum", 0.0}, {"weight_decay", 0.01}},
                     .low_types = false});
    for (bool nesterov : {false, true})
      cases.push_back({.op = "sgd",
                       .name = (nesterov ? "nesterov" : "momentum") + suffix,
                       .inputs = {w, w, w, scalar(0.1), scalar(scale)},
                       .attributes = {{"momentum", 0.9}, {"weight_decay", 0.01}, {"nesterov", nesterov}},
                       .low_types = false});
    const Attributes adam{{"beta1", 0.9}, {"beta2", 0.99}, {"epsilon", 1e-6}, {"weight_decay", 0.1}};
    for (bool decoupled : {false, true}) {
      Attributes attributes = adam;
      attributes.set("decoupled", decoupled);
      cases.push_back({.op = "adam",
                       .name = (decoupled ? "decoupled" : "coupled") + suffix,
                       .inputs = {w, w, w, second, scalar(0.1), scalar(0.19), scalar(0.0199), scalar(scale)},
                       .attributes = attributes,
                       .low_types = false});
    }
    cases.push_back({.op = "lamb_direction",
                     .name = "plain" + suffix,
                     .inputs = {w, w, w, second, scalar(0.19), scalar(0.0199), scalar(scale)},
                     .attributes = adam,
                     .low_types = false});
    cases.push_back({.op = "lamb_apply",
                     .name = "plain" + suffix,
                     .inputs = {w, w, scalar(4), scalar(9), scalar(0.1), scalar(scale)},
                     .low_types = false});
  }
  // States of other types, to nearest and by draws.
  const CaseInput counter{{DType::kI64, {2}}, 0, 0, {7, 1}};
  const auto typed = [](CaseInput input, DType dtype) {
    input.type.dtype = dtype;
    return input;
  };
  for (DType held : {DType::kBF16, DType::kF16})
    for (bool draws : {false, true}) {
      const std::string name = std::string(name_of(held)) + (draws ? "_stochastic" : "");
      const CaseInput weight = typed(w, held), moment = typed(w, held), square = typed(second, held);
      const auto add = [&](const std::string& op, std::vector<CaseInput> inputs, Attributes attributes) {
        if (draws) {
          attributes.set("rounding", std::string("stochastic")).set("seed", int64_t{5}).set("tensor", int64_t{99});
          inputs.push_back(counter);
        }
        cases.push_back({.op = op, .name = name, .inputs = inputs, .attributes = attributes, .low_types = false});
      };
      add("sgd", {weight, w, moment, scalar(0.1), scalar(0.5)}, {{"momentum", 0.9}, {"weight_decay", 0.01}});
      Attributes coupled{{"beta1", 0.9}, {"beta2", 0.99}, {"epsilon", 1e-6}, {"weight_decay", 0.1}},
          direction = coupled;
      coupled.set("decoupled", true);
      add("adam", {weight, w, moment, square, scalar(0.1), scalar(0.19), scalar(0.0199), scalar(0.5)}, coupled);
      add("lamb_direction", {weight, w, moment, square, scalar(0.19), scalar(0.0199), scalar(0.5)}, direction);
      add("lamb_apply", {weight, w, scalar(4), scalar(9), scalar(0.1), scalar(0.5)}, {});
    }
  for (DType held : {DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kF8E5M2})
    for (bool draws : {false, true}) {
      Attributes attributes{{"scale", 0.5}};
      std::vector<CaseInput> one{w}, two{typed(w, held), w};
      if (draws) {
        attributes.set("rounding", std::string("stochastic")).set("seed", int64_t{5}).set("tensor", int64_t{99});
        one.push_back(counter), two.push_back(counter);
      }
      const std::string name = std::string(name_of(held)) + (draws ? "_stochastic" : "");
      cases.push_back({.op = "accumulate", .name = name, .inputs = two, .attributes = attributes, .low_types = false});
      attributes.set("dtype", held);
      cases.push_back({.op = "narrow",
                       .name = name,
                       .inputs = one,
                       .attributes = attributes,
                       .gradient_tolerance = 0,
                       .low_types = false});
      attributes.set("saturate", true).set("scale", 1e6);
      cases.push_back({.op = "narrow",
                       .name = name + "_saturates",
                       .inputs = one,
                       .attributes = attributes,
                       .gradient_tolerance = 0,
                       .low_types = false});
    }
  cases.push_back({.op = "narrow",
                   .name = "widens",
                   .inputs = {typed(w, DType::kF8E4M3)},
                   .attributes = {{"dtype", DType::kF32}},
                   .low_types = false});
  // 1 and three quarters of its last bf16 bit: above 1 + 2^-7, of which 2^14 units of f32 are taken off.
  cases.push_back(
      {.op = "join_halves",
       .name = "by_hand",
       .inputs = {{{DType::kBF16, {3}}, 0, 0, {1, 1.0078125, -2}}, {{DType::kU16, {3}}, 0, 0, {0, 49152, 16384}}},
       .expected = {{1, 1.0078125 - 16384 * 0x1p-23, -2 - 16384 * 0x1p-22}},
       .low_types = false});
  cases.push_back({.op = "join_halves",
                   .name = "matrix",
                   .inputs = {{{DType::kBF16, {4, 6}}}, {{DType::kU16, {4, 6}}, 0, 65535}},
                   .low_types = false});
  cases.push_back({.op = "split_halves", .name = "matrix", .inputs = {{{DType::kF32, {4, 6}}}}, .low_types = false});
  cases.push_back({.op = "split_halves",
                   .name = "by_hand",
                   .inputs = {{{DType::kF32, {3}}, 0, 0, {1, 1.0078125 - 16384 * 0x1p-23, -2 - 16384 * 0x1p-22}}},
                   .expected = {{1, 1.0078125, -2}, {0, 49152, 16384}},
                   .low_types = false});
  for (double scale : {0.5, nan}) {
    const std::string suffix = scale == scale ? "" : "_not_finite";
    cases.push_back({.op = "lion",
                     .name = "plain" + suffix,
                     .inputs = {w, w, w, scalar(0.1), scalar(scale)},
                     .attributes = {{"beta1", 0.9}, {"beta2", 0.99}, {"weight_decay", 0.1}},
                     .low_types = false});
    const Attributes lars{{"momentum", 0.9}, {"weight_decay", 0.1}, {"trust_coefficient", 0.02}, {"norm_cap", 0.0}};
    const auto with = [](Attributes attributes, const std::string& name, double value) {
      attributes.set(name, value);
      return attributes;
    };
    cases.push_back({.op = "lars",
                     .name = "momentum" + suffix,
                     .inputs = {w, w, w, scalar(9), scalar(4), scalar(0.1), scalar(scale)},
                     .attributes = lars,
                     .low_types = false});
    cases.push_back({.op = "lars",
                     .name = "capped" + suffix,
                     .inputs = {w, w, w, scalar(9), scalar(4), scalar(0.1), scalar(scale)},
                     .attributes = with(lars, "norm_cap", 0.5),
                     .low_types = false});
    cases.push_back({.op = "lars",
                     .name = "no_ratio" + suffix,
                     .inputs = {w, w, w, scalar(0), scalar(0), scalar(0.1), scalar(scale)},
                     .attributes = with(lars, "trust_coefficient", 0.0),
                     .low_types = false});
    cases.push_back({.op = "lars",
                     .name = "no_momentum" + suffix,
                     .inputs = {w, w, scalar(9), scalar(4), scalar(0.1), scalar(scale)},
                     .attributes = with(lars, "momentum", 0.0),
                     .low_types = false});
    cases.push_back({.op = "moving_average",
                     .name = "plain" + suffix,
                     .inputs = {w, second, scalar(0.75), scalar(scale)},
                     .low_types = false});
    const Attributes adafactor{{"beta1", 0.0},
                               {"weight_decay", 0.1},
                               {"clip_threshold", 1.0},
                               {"scale_epsilon", 1e-3},
                               {"elements", int64_t{24}}};
    cases.push_back({.op = "adafactor_apply",
                     .name = "plain" + suffix,
                     .inputs = {w, w, scalar(96), scalar(6), scalar(0.1), scalar(scale)},
                     .attributes = adafactor,
                     .low_types = false});
    cases.push_back({.op = "adafactor_apply",
                     .name = "moment" + suffix,
                     .inputs = {w, w, w, scalar(96), scalar(6), scalar(0.1), scalar(scale)},
                     .attributes = with(with(adafactor, "beta1", 0.9), "clip_threshold", 0.0),
                     .low_types = false});
    cases.push_back({.op = "adafactor_apply",
                     .name = "own_rate" + suffix,
                     .inputs = {w, w, scalar(6), scalar(6), scalar(0.1), scalar(scale)},
                     .attributes = with(adafactor, "scale_epsilon", 0.0),
                     .low_types = false});
  }
  cases.push_back({.op = "lamb_apply",
                   .name = "zero_norm",
                   .inputs = {w, w, scalar(0), scalar(9), scalar(0.1), scalar(1)},
                   .low_types = false});
}

}  // namespace

void add_network_cases(std::vector<OpCase>& cases) {
  add_products(cases);
  add_norms(cases);
  add_attention(cases);
  add_losses(cases);
  add_optimizers(cases);
}

}  // namespace ramet::tests
