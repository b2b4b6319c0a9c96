#include "ops/op_cases.h"

#include <limits>

#include "ramet/base/hash.h"

namespace ramet::tests {
namespace {

using Dims = std::vector<int64_t>;

CaseInput f32(Shape shape, double low = -2, double high = 2) { return {{DType::kF32, std::move(shape)}, low, high}; }
CaseInput given(DType dtype, Shape shape, std::vector<double> values) {
  return {.type = {dtype, std::move(shape)}, .values = std::move(values)};
}
/// `count` distinct values, no two nearer than 0.1, in a mixed order.
std::vector<double> distinct(int count) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back((i * 7 % count - count / 2) * 0.1 + 0.03);
  return values;
}

void add_shapes(std::vector<OpCase>& cases) {
  const auto shape = [](Dims dims) { return Attributes{{"shape", dims}}; };
  cases.push_back({.op = "reshape", .name = "join", .inputs = {f32({4, 6})}, .attributes = shape({24})});
  cases.push_back({.op = "reshape", .name = "cut", .inputs = {f32({2, 12})}, .attributes = shape({2, 3, 4})});
  cases.push_back({.op = "reshape", .name = "heads", .inputs = {f32({4, 2, 6})}, .attributes = shape({2, 2, 2, 1, 6})});
  cases.push_back({.op = "reshape", .name = "no common factors", .inputs = {f32({4, 6})}, .attributes = shape({6, 4})});
  cases.push_back({.op = "reshape", .name = "scalar", .inputs = {f32({1, 1})}, .attributes = shape({})});
  cases.push_back({.op = "reshape", .name = "empty", .inputs = {f32({0, 6})}, .attributes = shape({2, 0})});
  cases.push_back(
      {.op = "reshape", .name = "i64", .inputs = {{{DType::kI64, {4, 6}}, -9, 9}}, .attributes = shape({2, 12})});
  const auto permutation = [](Dims axes) { return Attributes{{"permutation", axes}}; };
  cases.push_back({.op = "transpose", .name = "matrix", .inputs = {f32({4, 6})}, .attributes = permutation({1, 0})});
  cases.push_back(
      {.op = "transpose", .name = "heads", .inputs = {f32({2, 3, 4, 5})}, .attributes = permutation({0, 2, 1, 3})});
  cases.push_back(
      {.op = "transpose", .name = "turn", .inputs = {f32({2, 3, 4})}, .attributes = permutation({2, 0, 1})});
  cases.push_back({.op = "transpose",
                   .name = "values",
                   .inputs = {given(DType::kI32, {2, 3}, {1, 2, 3, 4, 5, 6})},
                   .attributes = permutation({1, 0}),
                   .expected = {{1, 4, 2, 5, 3, 6}}});
  cases.push_back({.op = "broadcast_to", .name = "rows", .inputs = {f32({6})}, .attributes = shape({4, 6})});
  cases.push_back({.op = "broadcast_to", .name = "middle", .inputs = {f32({2, 1, 3})}, .attributes = shape({2, 4, 3})});
  cases.push_back({.op = "broadcast_to", .name = "scalar", .inputs = {f32({})}, .attributes = shape({3, 2})});
  cases.push_back({.op = "broadcast_to", .name = "to empty", .inputs = {f32({1, 3})}, .attributes = shape({0, 3})});
  cases.push_back({.op = "reverse", .name = "one axis", .inputs = {f32({4, 6})}, .attributes = {{"axes", Dims{1}}}});
  cases.push_back({.op = "reverse",
                   .name = "values",
                   .inputs = {given(DType::kI32, {2, 2}, {1, 2, 3, 4})},
                   .attributes = {{"axes", Dims{}}},
                   .expected = {{4, 3, 2, 1}}});
}

void add_pieces(std::vector<OpCase>& cases) {
  cases.push_back({.op = "shard",
                   .name = "third of rows, second half of each of two blocks of columns",
                   .inputs = {f32({6, 8})},
                   .attributes = {{"cuts", Dims{0, 1, 3, 1, 1, 1, 2, 2, 2, 1}}, {"position", Dims{1, 1}}}});
  cases.push_back({.op = "slice",
                   .name = "inner",
                   .inputs = {f32({4, 6})},
                   .attributes = {{"start", Dims{0, 2}}, {"stop", Dims{4, 5}}}});
  cases.push_back({.op = "slice",
                   .name = "strided",
                   .inputs = {given(DType::kF32, {7}, {0, 1, 2, 3, 4, 5, 6})},
                   .attributes = {{"start", Dims{1}}, {"stop", Dims{7}}, {"stride", Dims{3}}},
                   .expected = {{1, 4}}});
  cases.push_back({.op = "slice",
                   .name = "strided to the end",
                   .inputs = {f32({4, 7})},
                   .attributes = {{"start", Dims{0, 0}}, {"stop", Dims{4, 7}}, {"stride", Dims{1, 2}}}});
  cases.push_back({.op = "slice",
                   .name = "nothing",
                   .inputs = {f32({4, 6})},
                   .attributes = {{"start", Dims{2, 0}}, {"stop", Dims{2, 6}}}});
  cases.push_back({.op = "pad",
                   .name = "both sides",
                   .inputs = {given(DType::kF32, {2}, {1, 2})},
                   .attributes = {{"low", Dims{1}}, {"high", Dims{2}}, {"value", 9.0}},
                   .expected = {{9, 1, 2, 9, 9}}});
  cases.push_back({.op = "pad",
                   .name = "between",
                   .inputs = {f32({4, 3})},
                   .attributes = {{"low", Dims{0, 1}}, {"high", Dims{0, 0}}, {"interior", Dims{0, 2}}}});
  cases.push_back({.op = "pad",
                   .name = "empty",
                   .inputs = {f32({0, 3})},
                   .attributes = {{"low", Dims{2, 0}}, {"high", Dims{0, 1}}}});
  cases.push_back({.op = "concat",
                   .name = "columns",
                   .inputs = {f32({4, 2}), f32({4, 3}), f32({4, 1})},
                   .attributes = {{"axis", 1}}});
  cases.push_back({.op = "concat",
                   .name = "rows",
                   .inputs = {given(DType::kI32, {1, 2}, {1, 2}), given(DType::kI32, {2, 2}, {3, 4, 5, 6})},
                   .attributes = {{"axis", -2}},
                   .expected = {{1, 2, 3, 4, 5, 6}}});
  cases.push_back({.op = "concat",
                   .name = "one and an empty one",
                   .inputs = {f32({4, 2}), f32({4, 0})},
                   .attributes = {{"axis", 1}}});
  cases.push_back({.op = "split",
                   .name = "columns",
                   .inputs = {f32({4, 6})},
                   .attributes = {{"sizes", Dims{1, 2, 3}}, {"axis", 1}}});
  cases.push_back({.op = "split",
                   .name = "rows",
                   .inputs = {given(DType::kI32, {3, 2}, {1, 2, 3, 4, 5, 6})},
                   .attributes = {{"sizes", Dims{1, 2}}, {"axis", 0}},
                   .expected = {{1, 2}, {3, 4, 5, 6}}});
}

void add_sources(std::vector<OpCase>& cases) {
  const auto source = [](DType dtype, Dims dims) { return Attributes{{"dtype", dtype}, {"shape", dims}}; };
  cases.push_back(
      {.op = "full", .name = "f32", .inputs = {}, .attributes = source(DType::kF32, {4, 6}).set("value", 1.5)});
  cases.push_back({.op = "full",
                   .name = "i32",
                   .inputs = {},
                   .attributes = source(DType::kI32, {2}).set("value", -3.0),
                   .expected = {{-3, -3}}});
  cases.push_back({.op = "iota",
                   .name = "rows",
                   .inputs = {},
                   .attributes = source(DType::kI32, {2, 3}).set("axis", 0),
                   .expected = {{0, 0, 0, 1, 1, 1}}});
  cases.push_back(
      {.op = "iota", .name = "columns", .inputs = {}, .attributes = source(DType::kF32, {4, 3}).set("axis", -1)});
  const auto carried = [](DType dtype, Shape shape, std::vector<double> values) {
    return Attributes{{"data", TensorData(HostTensor::of(dtype, std::move(shape), values))}};
  };
  cases.push_back({.op = "constant",
                   .name = "f32",
                   .inputs = {},
                   .attributes = carried(DType::kF32, {2, 2}, {1, -0.5, 3, 4}),
                   .expected = {{1, -0.5, 3, 4}}});
  cases.push_back({.op = "constant",
                   .name = "i32",
                   .inputs = {},
                   .attributes = carried(DType::kI32, {3}, {7, -1, 0}),
                   .expected = {{7, -1, 0}}});
  const auto fold = [&](const std::string& by, Attributes attributes, std::vector<double> wanted) {
    cases.push_back({.op = "fold",
                     .name = by,
                     .inputs = {given(DType::kF32, {2}, {1, -2}), given(DType::kF32, {3, 2}, {5, 1, -3, -4, 2, 8})},
                     .attributes = attributes.set("by", by),
                     .expected = {wanted},
                     .low_types = false});
  };
  fold("average", {{"momentum", 0.5}}, {1, 2.875});
  fold("sum", {}, {5, 3});
  fold("max", {}, {5, 8});
  fold("min", {}, {-3, -4});
  fold("last", {}, {2, 8});
  for (const double guard : {3.0, std::numeric_limits<double>::infinity()})
    cases.push_back({.op = "fold",
                     .name = guard == 3.0 ? "guarded" : "guarded, not finite",
                     .inputs = {given(DType::kF32, {2}, {1, -2}), given(DType::kF32, {1, 2}, {5, 1}),
                                given(DType::kF32, {}, {guard})},
                     .attributes = Attributes{{"by", "sum"}},
                     .expected = {guard == 3.0 ? std::vector<double>{6, -1} : std::vector<double>{1, -2}},
                     .low_types = false});
  for (const char* kind : {"uniform", "normal", "truncated_normal"})
    cases.push_back({.op = "random",
                     .name = kind,
                     .inputs = {},
                     .attributes = source(DType::kF32, {8, 8})
                                       .set("kind", kind)
                                       .set("a", 0.5)
                                       .set("b", 2.0)
                                       .set("seed", 7)
                                       .set("tensor", static_cast<int64_t>(hash64("weight")))});
}

void add_indexing(std::vector<OpCase>& cases) {
  const CaseInput indices = given(DType::kI32, {2, 3}, {4, 0, 4, 1, 2, 4});
  cases.push_back({.op = "gather", .name = "rows", .inputs = {f32({5, 4}), indices}});
  cases.push_back(
      {.op = "gather", .name = "i64 indices of a vector", .inputs = {f32({5}), given(DType::kI64, {4}, {0, 4, 2, 2})}});
  cases.push_back({.op = "gather", .name = "of an even table", .inputs = {f32({6, 4}), indices}});
  cases.push_back({.op = "gather",
                   .name = "of numbers",
                   .inputs = {given(DType::kI32, {4}, {7, -3, 5, 9}), given(DType::kI32, {3}, {3, 0, 2})},
                   .expected = {{9, 7, 5}}});
  cases.push_back({.op = "gather", .name = "no indices", .inputs = {f32({5, 4}), given(DType::kI32, {0}, {})}});
  const CaseInput of_parts = given(DType::kI32, {2, 3}, {3, 0, 3, -1, 2, 1});
  cases.push_back({.op = "gather_parts", .name = "rows", .inputs = {f32({2, 4, 3}), of_parts}});
  cases.push_back({.op = "gather_parts",
                   .name = "values",
                   .inputs = {given(DType::kI32, {2, 2}, {5, 6, 7, 8}), given(DType::kI32, {2, 2, 1}, {1, 0, -1, 1})},
                   .expected = {{6, 5, 0, 8}}});
  cases.push_back(
      {.op = "scatter_parts", .name = "rows", .inputs = {of_parts, f32({2, 3, 3})}, .attributes = {{"rows", 4}}});
  cases.push_back({.op = "scatter_parts",
                   .name = "values",
                   .inputs = {of_parts, given(DType::kF32, {2, 3}, {1, 10, 100, 2, 20, 200})},
                   .attributes = {{"rows", 4}},
                   .expected = {{10, 0, 0, 101, 0, 200, 20, 0}}});
  cases.push_back(
      {.op = "scatter_add", .name = "rows", .inputs = {indices, f32({2, 3, 4})}, .attributes = {{"rows", 5}}});
  cases.push_back({.op = "scatter_add",
                   .name = "to an even table",
                   .inputs = {indices, f32({2, 3, 4})},
                   .attributes = {{"rows", 6}}});
  cases.push_back({.op = "scatter_add",
                   .name = "values",
                   .inputs = {given(DType::kI32, {3}, {2, 0, 2}), given(DType::kF32, {3}, {1, 10, 100})},
                   .attributes = {{"rows", 4}},
                   .expected = {{10, 0, 101, 0}}});
  cases.push_back({.op = "scatter_add",
                   .name = "f32 of bf16",
                   .inputs = {indices, {{DType::kBF16, {2, 3, 4}}, -1, 1}},
                   .attributes = {{"rows", 5}, {"dtype", DType::kF32}}});
  cases.push_back({.op = "scatter_add",
                   .name = "to what is there",
                   .inputs = {indices, f32({2, 3, 4}), f32({5, 4})},
                   .attributes = {{"rows", 5}, {"accumulate", true}}});
  cases.push_back({.op = "scatter_add",
                   .name = "of bf16 to what is there",
                   .inputs = {indices, {{DType::kBF16, {2, 3, 4}}, -1, 1}, f32({300, 4})},
                   .attributes = {{"rows", 300}, {"accumulate", true}}});
  cases.push_back({.op = "scatter_add",
                   .name = "leaves rows without an index",
                   .inputs = {given(DType::kI32, {3}, {2, 0, 2}), given(DType::kF32, {3}, {1, 10, 100}),
                              given(DType::kF32, {4}, {1, -2, 3, 4})},
                   .attributes = {{"rows", 4}, {"accumulate", true}},
                   .expected = {{11, -2, 104, 4}}});
  cases.push_back({.op = "one_hot",
                   .name = "values",
                   .inputs = {given(DType::kI32, {3}, {1, -1, 3})},
                   .attributes = {{"depth", 3}, {"dtype", DType::kF32}},
                   .expected = {{0, 1, 0, 0, 0, 0, 0, 0, 0}}});
  cases.push_back(
      {.op = "one_hot", .name = "matrix", .inputs = {indices}, .attributes = {{"depth", 5}, {"dtype", DType::kBool}}});
  for (const char* op : {"argmax", "argmin"}) {
    cases.push_back(
        {.op = op, .name = "last", .inputs = {given(DType::kF32, {4, 6}, distinct(24))}, .attributes = {{"axis", -1}}});
    cases.push_back(
        {.op = op, .name = "first", .inputs = {given(DType::kF32, {4, 6}, distinct(24))}, .attributes = {{"axis", 0}}});
  }
  cases.push_back({.op = "argmax",
                   .name = "first of equals",
                   .inputs = {given(DType::kF32, {4}, {1, 3, 3, 2})},
                   .attributes = {{"axis", 0}},
                   .expected = {{1}}});
  cases.push_back({.op = "argmin",
                   .name = "i32",
                   .inputs = {given(DType::kI32, {4}, {1, -3, 3, -3})},
                   .attributes = {{"axis", 0}},
                   .expected = {{1}}});
  cases.push_back({.op = "cumsum", .name = "last", .inputs = {f32({4, 6})}, .attributes = {{"axis", 1}}});
  cases.push_back({.op = "cumsum",
                   .name = "first",
                   .inputs = {given(DType::kI32, {3, 2}, {1, 2, 3, 4, 5, 6})},
                   .attributes = {{"axis", 0}},
                   .expected = {{1, 2, 4, 6, 9, 12}}});
  cases.push_back({.op = "cumsum",
                   .name = "from the end",
                   .inputs = {f32({4, 6})},
                   .attributes = {{"axis", 1}, {"reverse", true}}});
  cases.push_back({.op = "top_k",
                   .name = "three",
                   .inputs = {given(DType::kF32, {4, 6}, distinct(24))},
                   .attributes = {{"k", 3}},
                   .gradient_outputs = {0}});
  cases.push_back({.op = "top_k",
                   .name = "values",
                   .inputs = {given(DType::kI32, {5}, {3, 9, 1, 9, 4})},
                   .attributes = {{"k", 3}},
                   .expected = {{9, 9, 4}, {1, 3, 4}}});
  cases.push_back({.op = "top_k", .name = "none", .inputs = {f32({4, 6})}, .attributes = {{"k", 0}}});
}

void add_reductions(std::vector<OpCase>& cases) {
  for (const char* op : {"reduce_sum", "reduce_max", "reduce_min", "reduce_prod"}) {
    const auto in = [&](Shape shape) {
      return given(DType::kF32, shape, distinct(static_cast<int>(shape.elements())));
    };
    const auto axes = [](Dims list, bool keep = false) {
      return keep ? Attributes{{"axes", list}, {"keep_dims", true}} : Attributes{{"axes", list}};
    };
    cases.push_back({.op = op, .name = "last", .inputs = {in({4, 6})}, .attributes = axes({-1})});
    cases.push_back({.op = op, .name = "rows", .inputs = {in({4, 6})}, .attributes = axes({0})});
    cases.push_back({.op = op, .name = "middle, kept", .inputs = {in({2, 3, 4})}, .attributes = axes({1}, true)});
    cases.push_back({.op = op, .name = "outer and inner", .inputs = {in({2, 3, 4})}, .attributes = axes({2, 0})});
    cases.push_back({.op = op, .name = "all", .inputs = {in({2, 3, 2})}});
    cases.push_back({.op = op, .name = "of a scalar", .inputs = {in({})}});
    cases.push_back({.op = op, .name = "no outputs", .inputs = {f32({0, 3})}, .attributes = axes({1})});
    cases.push_back({.op = op, .name = "i32", .inputs = {{{DType::kI32, {4, 6}}, -5, 5}}, .attributes = axes({1})});
    cases.push_back({.op = op,
                     .name = "long",
                     .inputs = {f32({2, 200}, 0.9, 1.1)},
                     .attributes = axes({1}),
                     .gradient_tolerance = 0});
    cases.push_back({.op = op,
                     .name = "many rows",
                     .inputs = {f32({200, 2}, 0.9, 1.1)},
                     .attributes = axes({0}),
                     .gradient_tolerance = 0});
  }
  for (const std::vector<int64_t>& axes : {std::vector<int64_t>{0}, {0, 1}, {1, 2}, {0, 2}})
    cases.push_back({.op = "reduce_sum",
                     .name = "in_order_" + std::to_string(axes.front()) + std::to_string(axes.back()),
                     .inputs = {f32({5, 30, 7})},
                     .attributes = {{"axes", axes}, {"in_order", true}}});
  cases.push_back({.op = "reduce_sum",
                   .name = "of nothing",
                   .inputs = {f32({3, 0})},
                   .attributes = {{"axes", Dims{1}}},
                   .expected = {{0, 0, 0}}});
  // The gradient of a broadcast of nothing.
  cases.push_back({.op = "reduce_sum",
                   .name = "no_columns",
                   .inputs = {f32({3, 0})},
                   .attributes = {{"axes", std::vector<int64_t>{0}}}});
  cases.push_back({.op = "reduce_prod",
                   .name = "of nothing",
                   .inputs = {f32({3, 0})},
                   .attributes = {{"axes", Dims{1}}},
                   .expected = {{1, 1, 1}}});
  cases.push_back({.op = "reduce_prod",
                   .name = "zeros",
                   .inputs = {given(DType::kF32, {3, 3}, {2, 3, 4, 2, 0, 4, 0, 3, 0})},
                   .attributes = {{"axes", Dims{1}}},
                   .expected = {{24, 0, 0}}});
  cases.push_back({.op = "reduce_sum",
                   .name = "chunks",
                   .inputs = {f32({4, 64})},
                   .attributes = {{"axes", Dims{1}}, {"chunks", 4}},
                   .gradient_tolerance = 0});
  cases.push_back({.op = "reduce_sum",
                   .name = "chunks of rows",
                   .inputs = {f32({2, 3, 8, 5})},
                   .attributes = {{"axes", Dims{1, 2}}, {"chunks", 4}, {"keep_dims", true}}});
  cases.push_back({.op = "reduce_sum",
                   .name = "f32 of bf16",
                   .inputs = {{{DType::kBF16, {70, 6}}, -1, 1}},
                   .attributes = {{"axes", Dims{0}}, {"dtype", DType::kF32}}});
  cases.push_back({.op = "reduce_sum",
                   .name = "i32 wraps",
                   .inputs = {given(DType::kI32, {3}, {2147483647, 1, 0})},
                   .expected = {{-2147483648.0}}});
}

}  // namespace

void add_shape_cases(std::vector<OpCase>& cases) {
  add_shapes(cases);
  add_pieces(cases);
  add_sources(cases);
  add_indexing(cases);
  add_reductions(cases);
}

}  // namespace ramet::tests
