#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "ops/indexing_peer_values.h"
#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_reductions.h"
#include "ramet/ops/build_shapes.h"
#include "ramet/transform/differentiate.h"
#include "support/errors.h"

// Builder functions of indexing, shapes and reductions against PyTorch; errors; what the table of op cases cannot say
// of their ops.

namespace ramet::tests {
namespace {

using Dims = std::vector<int64_t>;
using Tensors = std::vector<Tensor>;

struct BuilderCase {
  std::string name;  ///< of the function in indexing_peers.py
  std::vector<Shape> shapes;
  std::function<Tensor(const Tensors&)> build;
};

void PrintTo(const BuilderCase& item, std::ostream* stream) { *stream << item.name; }

/// Indices that the graph carries.
Tensor at(const Tensor& beside, Shape shape, const std::vector<double>& values, DType dtype = DType::kI64) {
  return constant(*beside.builder, TensorData(HostTensor::of(dtype, std::move(shape), values)));
}
Tensor at(const Tensor& beside, const std::vector<double>& values) {
  return at(beside, {static_cast<int64_t>(values.size())}, values);
}

std::vector<BuilderCase> gather_cases() {
  std::vector<BuilderCase> cases{
      {"gather_rows",
       {{3, 4}},
       [](const Tensors& t) { return gather_elements(t[0], at(t[0], {2, 4}, {2, 0, 0, 1, 1, 1, 2, 0}), 0); }},
      {"gather_columns",
       {{3, 4}},
       [](const Tensors& t) { return gather_elements(t[0], at(t[0], {2, 3}, {3, 3, 0, 1, 2, 1}), -1); }},
      {"gather_middle",
       {{2, 3, 4}},
       [](const Tensors& t) { return gather_elements(t[0], at(t[0], {1, 2, 3}, {0, 2, 1, 2, 2, 2}), 1); }},
      {"scatter_set",
       {{3, 4}, {2, 4}},
       [](const Tensors& t) { return scatter_elements(t[0], at(t[0], {2, 4}, {2, 0, 0, 1, 1, 1, 2, 0}), t[1], 0); }},
      {"scatter_sum",
       {{3, 4}, {3, 5}},
       [](const Tensors& t) {
         const Tensor indices = at(t[0], {3, 5}, {3, 3, 0, 3, 1, 1, 2, 1, 1, 1, 0, 0, 0, 0, 0});
         return scatter_elements(t[0], indices, t[1], 1, {.by = "add"});
       }},
      {"scatter_max_of_equals",
       {{2, 3}},
       [](const Tensors& t) {
         const Tensor indices = at(t[0], {2, 3}, {0, 0, 1, 2, 2, 2}, DType::kI32);
         return scatter_elements(t[0], indices, gather_elements(t[0], indices, 1), 1, {.by = "max"});
       }},
      {"index_select_columns",
       {{4, 3}},
       [](const Tensors& t) { return index_select(t[0], at(t[0], {2, 0, 2, 2}), 1); }},
      {"index_neighbours",
       {{4, 3, 2}},
       [](const Tensors& t) {
         return index(t[0], {Tensor(), at(t[0], {2, 2}, {0, 2, 1, 1}), at(t[0], {2, 2}, {1, 0, -1, -2})});
       }},
      {"index_apart",
       {{4, 3, 2}},
       [](const Tensors& t) { return index(t[0], {at(t[0], {3, -1, 0}), Tensor(), at(t[0], {1, 0, 1})}); }},
      {"index_broadcast",
       {{4, 3, 2}},
       [](const Tensors& t) { return index(t[0], {at(t[0], {2, 1}, {0, -2}), at(t[0], {2, 0, 1})}); }},
      {"index_middle", {{4, 3, 2}}, [](const Tensors& t) { return index(t[0], {Tensor(), at(t[0], {2, -3})}); }},
      {"index_scalar", {{4, 3}}, [](const Tensors& t) { return index(t[0], {at(t[0], {}, {-1})}); }},
      {"index_put_set",
       {{4, 3}, {2, 1}},
       [](const Tensors& t) { return index_put(t[0], {at(t[0], {2, 1}, {0, 2}), at(t[0], {1, 0})}, t[1]); }},
      {"index_put_accumulate",
       {{4, 3}, {3, 3}},
       [](const Tensors& t) { return index_put(t[0], {at(t[0], {1, -3, 1})}, t[1], true); }},
      {"index_put_mask",
       {{2, 3, 2}, {2}},
       [](const Tensors& t) { return index_put(t[0], {at(t[0], {2, 3}, {1, 0, 1, 0, 0, 1}, DType::kBool)}, t[1]); }},
      {"masked_scatter",
       {{2, 3}, {5}},
       [](const Tensors& t) { return masked_scatter(t[0], at(t[0], {2, 3}, {1, 0, 1, 1, 0, 1}, DType::kBool), t[1]); }},
      {"masked_scatter_broadcast",
       {{3}, {5}},
       [](const Tensors& t) { return masked_scatter(t[0], at(t[0], {2, 3}, {1, 0, 1, 1, 0, 1}, DType::kBool), t[1]); }},
      {"gather_nd_pairs",
       {{2, 3, 4}},
       [](const Tensors& t) { return gather_nd(t[0], at(t[0], {3, 2}, {1, 2, 0, 0, 1, 2})); }},
      {"gather_nd_batch", {{2, 3, 4}}, [](const Tensors& t) {
         return gather_nd(t[0], at(t[0], {2, 2, 2}, {2, 3, 0, 1, 1, 0, 1, 2}), 1);
       }}};
  for (const auto& [name, by] : std::vector<std::pair<std::string, std::string>>{
           {"sum", "add"}, {"prod", "mul"}, {"mean", "mean"}, {"amax", "max"}, {"amin", "min"}})
    for (bool own : {true, false})
      cases.push_back({"scatter_" + name + (own ? "_with_self" : "_without_self"),
                       {{3, 4}, {3, 5}},
                       [by = by, own](const Tensors& t) {
                         const Tensor indices = at(t[0], {3, 5}, {3, 3, 0, 3, 1, 1, 2, 1, 1, 1, 0, 0, 2, 0, 2});
                         return scatter_elements(t[0], indices, t[1], 1, {.by = by, .include_self = own});
                       }});
  return cases;
}

std::vector<BuilderCase> order_cases() {
  const auto round = [](Tensor a) { return map_unary("round", a); };
  return {
      {"sort_ascending", {{3, 4}}, [](const Tensors& t) { return sort(t[0], 1).first; }},
      {"sort_descending_indices", {{3, 4}}, [=](const Tensors& t) { return argsort(round(t[0]), 0, true); }},
      {"top_k_least", {{5, 3}}, [](const Tensors& t) { return top_k(t[0], 2, 0, false).first; }},
      {"search_left", {{6}, {2, 4}}, [](const Tensors& t) { return search_sorted(sort(t[0], 0).first, t[1]); }},
      {"search_right",
       {{2, 6}, {2, 4}},
       [](const Tensors& t) { return search_sorted(sort(t[0], -1).first, t[1], true); }},
      {"search_by_sorter",
       {{2, 6}, {2, 4}},
       [](const Tensors& t) { return search_sorted(t[0], t[1], true, argsort(t[0], -1)); }},
      {"cumprod_with_zeros", {{3, 5}}, [](const Tensors& t) { return cumprod(t[0], 1); }},
      {"cumprod_reverse", {{4, 3}}, [](const Tensors& t) { return cumprod(t[0], 0, {.reverse = true}); }},
      {"cummax_values", {{2, 5}}, [](const Tensors& t) { return cummax(t[0], 1).first; }},
      {"cummin_indices", {{2, 5}}, [=](const Tensors& t) { return cummin(round(t[0]), 1).second; }},
      {"cumsum_exclusive_reverse",
       {{2, 5}},
       [](const Tensors& t) { return cumsum(t[0], 1, {.reverse = true, .exclusive = true}); }},
  };
}

std::vector<BuilderCase> shape_cases() {
  const auto padded = [](const char* mode) {
    return [mode](const Tensors& t) { return pad_by(t[0], {1, 2}, {2, 1}, mode); };
  };
  return {
      {"roll_two", {{3, 4}}, [](const Tensors& t) { return roll(t[0], {1, -6}, {0, 1}); }},
      {"roll_flat", {{3, 2}}, [](const Tensors& t) { return roll(t[0], {-2}); }},
      {"tile_more", {{2, 3}}, [](const Tensors& t) { return tile(t[0], {2, 1, 2}); }},
      {"repeat_each", {{2, 3}}, [](const Tensors& t) { return repeat_interleave(t[0], 2, 1); }},
      {"repeat_by_counts", {{2, 3}}, [](const Tensors& t) { return repeat_interleave(t[0], Dims{2, 0, 3}, 1); }},
      {"stack_last", {{2, 3}, {2, 3}}, [](const Tensors& t) { return stack(t, -1); }},
      {"tril_below", {{2, 3, 4}}, [](const Tensors& t) { return tril(t[0], -1); }},
      {"triu_above", {{3, 4}}, [](const Tensors& t) { return triu(t[0], 1); }},
      {"meshgrid_sum",
       {{2}, {3}},
       [](const Tensors& t) {
         const Tensors grid = meshgrid(t);
         return multiply(grid[0], grid[1]);
       }},
      {"meshgrid_xy",
       {{2}, {3}},
       [](const Tensors& t) {
         const Tensors grid = meshgrid(t, true);
         return multiply(grid[0], grid[1]);
       }},
      {"pad_reflect", {{3, 4}}, padded("reflect")},
      {"pad_edge", {{3, 4}}, padded("edge")},
      {"pad_wrap", {{3, 4}}, padded("wrap")},
      {"pad_wrap_cut", {{2, 5}}, [](const Tensors& t) { return pad_by(t[0], {0, -2}, {0, 3}, "wrap"); }},
      {"slice_scatter_step", {{2, 6}, {2, 2}}, [](const Tensors& t) { return slice_scatter(t[0], t[1], 1, 1, 5, 2); }},
      {"slice_scatter_dense", {{4, 3}, {2, 3}}, [](const Tensors& t) { return slice_scatter(t[0], t[1], 0, -3, -1); }},
      {"select_scatter_last", {{2, 3}, {2}}, [](const Tensors& t) { return select_scatter(t[0], t[1], 1, -1); }},
      {"diagonal_above", {{3, 2, 4}}, [](const Tensors& t) { return diagonal(t[0], 1, 0, 2); }},
      {"diagonal_below", {{3, 2, 4}}, [](const Tensors& t) { return diagonal(t[0], -1, 2, 0); }},
      {"diagonal_scatter_below", {{3, 4}, {2}}, [](const Tensors& t) { return diagonal_scatter(t[0], t[1], -1); }},
      {"diagonal_embed_above", {{2, 3}}, [](const Tensors& t) { return diagonal_embed(t[0], 1); }},
      {"diagonal_embed_below", {{2, 2}}, [](const Tensors& t) { return diagonal_embed(t[0], -2); }},
      {"flip_both", {{2, 3}}, [](const Tensors& t) { return flip(t[0], {0, 1}); }},
      {"unfold_windows", {{2, 7}}, [](const Tensors& t) { return unfold(t[0], 1, 3, 2); }},
      {"unfold_first", {{6, 2}}, [](const Tensors& t) { return unfold(t[0], 0, 4, 1); }},
      {"difference_twice", {{2, 5}}, [](const Tensors& t) { return difference(t[0], -1, 2); }},
  };
}

std::vector<BuilderCase> reduction_cases() {
  const auto norm = [](double order) { return [order](const Tensors& t) { return vector_norm(t[0], order, {1}); }; };
  const auto above = [](const Tensors& t, double bound) {
    return map_binary("greater", t[0], full(*t[0].builder, DType::kF32, {}, bound));
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {
      {"variance_rows", {{3, 4}}, [](const Tensors& t) { return variance(t[0], {1}); }},
      {"deviation_all", {{3, 4}}, [](const Tensors& t) { return standard_deviation(t[0], {}, 0); }},
      {"log_sum_exp_columns", {{3, 4}}, [](const Tensors& t) { return log_sum_exp(t[0], {0}, true); }},
      {"norm_0_5", {{3, 4}}, norm(0.5)},
      {"norm_1", {{3, 4}}, norm(1)},
      {"norm_2", {{3, 4}}, norm(2)},
      {"norm_3", {{3, 4}}, norm(3)},
      {"norm_inf", {{3, 4}}, norm(kInfinity)},
      {"norm_minus_inf", {{3, 4}}, norm(-kInfinity)},
      {"norm_0", {{3, 4}}, norm(0)},
      {"norm_of_zeros", {{2, 3}}, [](const Tensors& t) { return vector_norm(scale(t[0], 0), 2, {1}); }},
      {"deviation_of_equals", {{2, 3}}, [](const Tensors& t) { return standard_deviation(scale(t[0], 0), {1}); }},
      {"argmin_rows", {{3, 4}}, [](const Tensors& t) { return argmin(t[0], 1); }},
      {"any_above", {{3, 4}}, [=](const Tensors& t) { return any(above(t, 0.9), {1}); }},
      {"all_above", {{3, 4}}, [=](const Tensors& t) { return all(above(t, -1.2), {0}); }},
      {"count_of_nonzero", {{3, 4}}, [](const Tensors& t) { return count_nonzero(t[0], {1}); }},
  };
}

std::vector<BuilderCase> builder_cases() {
  std::vector<BuilderCase> all;
  for (const auto& cases : {gather_cases(), order_cases(), shape_cases(), reduction_cases()})
    all.insert(all.end(), cases.begin(), cases.end());
  return all;
}

HostTensor case_input(const Shape& shape, size_t which) {
  std::vector<double> values;
  for (int64_t e = 0; e < shape.elements(); ++e)
    values.push_back(static_cast<double>((e * 7 + 3 * static_cast<int64_t>(which)) % 11 - 5) * 0.25 +
                     0.0625 * static_cast<double>(which));
  return HostTensor::of(DType::kF32, shape, values);
}

void expect_values(const HostTensor& found, const std::vector<double>& wanted, const std::string& what) {
  ASSERT_EQ(found.elements(), static_cast<int64_t>(wanted.size())) << what;
  for (int64_t i = 0; i < found.elements(); ++i)
    EXPECT_NEAR(found.get(i), wanted[static_cast<size_t>(i)], 2e-5) << what << ", element " << i;
}

class BuildersAgainstPyTorch : public testing::TestWithParam<BuilderCase> {};

TEST_P(BuildersAgainstPyTorch, ResultsAndGradients) {
  const BuilderCase& item = GetParam();
  ASSERT_TRUE(indexing_peer_values().count(item.name)) << "run indexing_peers.py";
  const PeerValues& peer = indexing_peer_values().at(item.name);
  Graph graph("case");
  GraphBuilder build(graph);
  Tensors inputs;
  std::vector<std::string> names;
  std::map<std::string, HostTensor> feeds;
  for (size_t i = 0; i < item.shapes.size(); ++i) {
    names.push_back("in" + std::to_string(i));
    inputs.push_back(build.input(names.back(), DType::kF32, item.shapes[i]));
    feeds[names.back()] = case_input(item.shapes[i], i);
  }
  const Tensor result = item.build(inputs);
  build.output("result", result);
  if (is_floating(result.dtype())) {
    std::vector<double> weights;
    for (int64_t e = 0; e < result.shape().elements(); ++e)
      weights.push_back(0.5 + static_cast<double>(e * 5 % 7) * 0.25);
    const Tensor weighted = multiply(result, at(result, result.shape(), weights, DType::kF32));
    build.output("loss", reduce_sum(weighted));
    graph = differentiate(graph, "loss", names);
  }
  for (const Backend* backend : {&reference_backend(), &cpu_backend()}) {
    const std::vector<HostTensor> outputs = interpret(graph, *backend, feeds, 2);
    expect_values(outputs[0], peer.result, item.name);
    for (size_t i = 0; i < peer.gradients.size(); ++i)
      expect_values(outputs[2 + i], peer.gradients[i], item.name + ", gradient of input " + std::to_string(i));
  }
}

INSTANTIATE_TEST_SUITE_P(Indexing, BuildersAgainstPyTorch, testing::ValuesIn(builder_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(Indexing, EveryPeerValueHasACase) { EXPECT_EQ(indexing_peer_values().size(), builder_cases().size()); }

// --- errors ---

class IndexingErrors : public testing::Test {
 protected:
  Tensor input(const std::string& name, DType dtype, Shape shape) {
    return build_.input(name, dtype, std::move(shape));
  }
  Graph graph_{"test"};
  GraphBuilder build_{graph_};
  Tensor a_ = input("a", DType::kF32, {4, 6});
  Tensor i_ = input("i", DType::kI32, {4, 2});
};

TEST_F(IndexingErrors, TypeRulesNameTheNodeAndWhatToDo) {
  EXPECT_EQ(error_of([&] { take(a_, {a_}, {.axes = {0}}); }),
            "take (f32[4,6], f32[4,6]): input 1 (indices) has the wrong element type; found f32[4,6]; expected i32 or "
            "i64. Cast it first");
  EXPECT_EQ(error_of([&] { take(a_, {i_}, {.axes = {2}}); }),
            "take (f32[4,6], i32[4,2]): 'axes' names no axis; found 2; expected 0 to 1");
  EXPECT_EQ(error_of([&] { take(a_, {i_}, {.axes = {0, 1}}); }),
            "take (f32[4,6], i32[4,2]): 'axes' needs one axis an index tensor; found [0,1]; expected 1 axes");
  EXPECT_EQ(
      error_of([&] { take(a_, {i_, i_}, {.axes = {1, 1}}); }),
      "take (f32[4,6], i32[4,2], i32[4,2]): an axis is addressed twice; found f32[4,6]; expected distinct axes in "
      "'axes' and 'along'");
  EXPECT_EQ(error_of([&] { gather_elements(a_, input("long", DType::kI32, {5, 2}), 1); }),
            "take (f32[4,6], i32[5,2]): the indices are longer in dimension 0 than axis 0 of the tensor, along which "
            "they run; found 5; expected at most 4");
  EXPECT_EQ(error_of([&] { take(a_, {i_}, {.axes = {0}, .before = 2}); }),
            "take (f32[4,6], i32[4,2]): 'before' out of range; found 2; expected 0 to 1");
  EXPECT_EQ(error_of([&] { put(a_, a_, {i_}, {.axes = {0}}, {}); }),
            "put (f32[4,6], f32[4,6], i32[4,2]): input 1 (updates) has the wrong type; found f32[4,6]; expected "
            "f32[4,2,6]");
  const Tensor flags = input("flags", DType::kBool, {4});
  EXPECT_EQ(error_of([&] { put(flags, flags, {input("j", DType::kI64, {4})}, {.axes = {0}}, {.by = "add"}); }),
            "put (bool[4], bool[4], i64[4]): cannot update this element type by \"add\"; found bool[4]; expected "
            "\"set\", \"min\" (and) or \"max\" (or)");
  EXPECT_EQ(error_of([&] { put(a_, a_, {input("k", DType::kI64, {4})}, {.axes = {0}}, {.by = "sum"}); }),
            "put (f32[4,6], f32[4,6], i64[4]): unknown way to update; found by=\"sum\"; expected \"set\", \"add\", "
            "\"mul\", \"min\" or \"max\"");
  EXPECT_EQ(error_of([&] { gather_elements(a_, input("l", DType::kI32, {4}), 0); }),
            "gather_elements of f32[4,6]: indices of another rank; found i32[4]; expected rank 2");
  EXPECT_EQ(error_of([&] { gather_nd(a_, input("m", DType::kI32, {5, 3})); }),
            "gather_nd of f32[4,6]: the last dimension of the indices is no coordinate of the tensor; found i32[5,3] "
            "with 0 batch dimensions; expected 1 to 2 coordinates behind the batch dimensions");
  EXPECT_EQ(
      error_of([&] { sort(flags, 0); }),
      "sort (bool[4]): cannot order this element type; found bool[4]; expected floats or integers. Cast it first");
  EXPECT_EQ(error_of([&] { search_sorted(a_, input("v", DType::kF32, {3, 2})); }),
            "search_sorted (f32[4,6], f32[3,2]): the leading dimensions of values and sorted elements differ; found "
            "f32[3,2]; expected f32[4,6]");
  EXPECT_EQ(error_of([&] { top_k(a_, 5, 0); }),
            "top_k (f32[4,6]): 'k' out of range; found 5; expected 0 to the extent of the axis, 4");
  EXPECT_EQ(error_of([&] { pad_by(a_, {1, 0}, {0, 0}, "mirror"); }),
            "pad_by of f32[4,6]: unknown mode; found \"mirror\"; expected \"reflect\", \"symmetric\", \"edge\" or "
            "\"wrap\"");
}

TEST_F(IndexingErrors, SizesThatDependOnDataAreRefusedByName) {
  const Tensor mask = input("mask", DType::kBool, {4, 6});
  const std::string remedy =
      "and sizes are fixed before a program runs; expected a result whose size follows from the sizes of the inputs. "
      "Keep all elements and mask them: select (torch.where) with a mask, sums of masked elements, masked_scatter, or "
      "top_k with a fixed k";
  EXPECT_EQ(error_of([&] { refuse_size_of_data("nonzero", "model.py:7"); }),
            "model.py:7: the size of the result of 'nonzero' depends on data, " + remedy);
  EXPECT_EQ(error_of([&] { index(a_, {mask}); }),
            "index of f32[4,6]: the size of the result of 'index by a mask' depends on data, " + remedy);
  EXPECT_EQ(error_of([&] { index_put(a_, {mask}, input("v", DType::kF32, {3})); }),
            "index_put of f32[4,6]: the size of the result of 'index_put of one value for each true element of a mask' "
            "depends on data, " +
                remedy);
}

/// An index out of range: no kernel writes anything, and all say the same.
TEST_F(IndexingErrors, AnIndexOutOfRangeIsAnErrorAtRunTime) {
  const HostTensor a = HostTensor::of(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6});
  const auto errors = [&](const char* op, Attributes attributes, const std::vector<double>& indices, DType dtype) {
    NodeSignature node;
    node.op = &OpRegistry::instance().get(op);
    node.attributes = std::move(attributes);
    const auto count = static_cast<int64_t>(indices.size());
    const HostTensor index = HostTensor::of(dtype, {count}, indices);
    std::vector<HostTensor> inputs{a};
    if (node.op->name == "put") inputs.emplace_back(TensorType{DType::kF32, {count, 3}});
    inputs.push_back(index);
    for (const HostTensor& each : inputs) node.inputs.push_back(each.type);
    node.outputs = node.op->infer(node);
    const std::string error = error_of([&] { interpret_node(node, reference_backend(), inputs); });
    for (int threads : {1, 3})
      EXPECT_EQ(error_of([&] { interpret_node(node, cpu_backend(), inputs, threads); }), error);
    return error;
  };
  const Attributes rows{{"axes", Dims{0}}}, from_end{{"axes", Dims{0}}, {"from_end", true}};
  EXPECT_EQ(errors("take", rows, {1, 0, 2, 7}, DType::kI32),
            "take (f32[2,3], i32[4]), index position 2: index out of range; found 2; expected 0 to 1");
  EXPECT_EQ(errors("take", rows, {1, -1}, DType::kI64),
            "take (f32[2,3], i64[2]), index position 1: index out of range; found -1; expected 0 to 1");
  EXPECT_EQ(errors("take", from_end, {-2, -3}, DType::kI64),
            "take (f32[2,3], i64[2]), index position 1: index out of range; found -3; expected -2 to 1");
  Attributes add = from_end;
  add.set("by", "add");
  EXPECT_EQ(errors("put", add, {0, 2}, DType::kI32),
            "put (f32[2,3], f32[2,3], i32[2]), index position 1: index out of range; found 2; expected -2 to 1");
}

// --- order of position, types, ties ---

/// Long enough that threads share the work in every way: the same bits as one chain in order of position.
TEST(Indexing, UpdatesMeetInOrderOfPosition) {
  const RandomStream random(7, RandomPurpose::kTest, 0, 0);
  struct Layout {
    Shape whole, space;
    Attributes attributes;
  };
  const std::vector<Layout> layouts = {
      {{50, 300}, {4000}, {{"axes", Dims{0}}}},                            // columns are shared
      {{5000, 3}, {9000}, {{"axes", Dims{0}}}},                            // rows are shared
      {{40, 90}, {40, 400}, {{"axes", Dims{1}}, {"along", Dims{0, -1}}}},  // lines
      {{90, 40}, {400, 40}, {{"axes", Dims{0}}, {"along", Dims{-1, 1}}}},  // lines side by side
      {{64, 30, 2}, {900}, {{"axes", Dims{1}}, {"before", int64_t{1}}}},   // outer rows
      {{9, 8, 7}, {3000}, {{"axes", Dims{2, 0}}}},                         // pairs of indices
  };
  for (const Layout& layout : layouts)
    for (DType dtype : {DType::kF32, DType::kBF16})
      for (const char* by : {"set", "add"}) {
        NodeSignature node;
        node.op = &OpRegistry::instance().get("put");
        node.attributes = layout.attributes;
        node.attributes.set("by", by);
        std::vector<HostTensor> indices;
        uint64_t drawn = 0;
        for (int64_t axis : layout.attributes.get_ints("axes")) {
          HostTensor index({DType::kI32, layout.space});
          for (int64_t i = 0; i < index.elements(); ++i)
            index.set(i, random.below(drawn++, static_cast<uint32_t>(layout.whole.dim(static_cast<int>(axis)))));
          indices.push_back(std::move(index));
        }
        const auto numbers = [&](const Shape& shape) {
          HostTensor tensor({dtype, shape});
          for (int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, random.uniform(drawn++) - 0.5);
          return tensor;
        };
        // What take says of the elements' own numbers tells which element each update meets.
        NodeSignature taking = node;
        taking.op = &OpRegistry::instance().get("take");
        taking.attributes.erase("by");
        HostTensor own({DType::kI32, layout.whole});
        for (int64_t i = 0; i < own.elements(); ++i) own.set(i, static_cast<double>(i));
        std::vector<HostTensor> inputs{own};
        inputs.insert(inputs.end(), indices.begin(), indices.end());
        for (const HostTensor& input : inputs) taking.inputs.push_back(input.type);
        taking.outputs = taking.op->infer(taking);
        const HostTensor meets = interpret_node(taking, reference_backend(), inputs)[0];
        EXPECT_EQ(interpret_node(taking, cpu_backend(), inputs, 3)[0], meets);

        const HostTensor base = numbers(layout.whole), updates = numbers(meets.type.shape);
        std::vector<float> chain = base.floats();
        for (int64_t i = 0; i < updates.elements(); ++i) {
          float& sum = chain[static_cast<size_t>(meets.get(i))];
          const auto update = static_cast<float>(updates.get(i));
          sum = std::string(by) == "add" ? sum + update : update;
        }
        inputs = {base, updates};
        inputs.insert(inputs.end(), indices.begin(), indices.end());
        for (const HostTensor& input : inputs) node.inputs.push_back(input.type);
        node.outputs = node.op->infer(node);
        const HostTensor wanted = HostTensor::of(dtype, layout.whole, std::vector<double>(chain.begin(), chain.end()));
        for (int threads : {1, 2, 5})
          EXPECT_EQ(interpret_node(node, cpu_backend(), inputs, threads)[0], wanted)
              << node.text() << " by " << by << ", " << threads << " threads";
      }
}

TEST(Indexing, MovesKeepBytesOfEveryType) {
  for (int type = 0; type < kDTypeCount; ++type) {
    const auto dtype = static_cast<DType>(type);
    HostTensor a({dtype, {3, 2}});
    // Bytes that are no number, or a NaN with a payload, in most types.
    for (size_t i = 0; i < a.data.size(); ++i)
      a.data[i] = static_cast<std::byte>(dtype == DType::kBool ? i % 2 : 0xff - i);
    const HostTensor indices = HostTensor::of(DType::kI64, {2}, {2, 0});
    NodeSignature node;
    node.op = &OpRegistry::instance().get("take");
    node.attributes = {{"axes", Dims{0}}};
    node.inputs = {a.type, indices.type};
    node.outputs = node.op->infer(node);
    HostTensor wanted({dtype, {2, 2}});
    const size_t row = 2 * size_of(dtype);
    std::copy_n(a.data.begin() + static_cast<long>(2 * row), row, wanted.data.begin());
    std::copy_n(a.data.begin(), row, wanted.data.begin() + static_cast<long>(row));
    EXPECT_EQ(interpret_node(node, reference_backend(), {a, indices})[0], wanted) << name_of(dtype);
    EXPECT_EQ(interpret_node(node, cpu_backend(), {a, indices})[0], wanted) << name_of(dtype);
  }
}

TEST(Indexing, SortPutsNanLastAndKeepsEqualsInOrder) {
  const double nan = std::nan(""), infinity = INFINITY;
  const HostTensor a = HostTensor::of(DType::kF32, {8}, {nan, 1, -0.0, infinity, 0.0, -infinity, 1, nan});
  const auto order = [&](const char* op, Attributes attributes, const HostTensor& values) {
    NodeSignature node;
    node.op = &OpRegistry::instance().get(op);
    node.attributes = std::move(attributes);
    node.inputs = {values.type};
    node.outputs = node.op->infer(node);
    const auto reference = interpret_node(node, reference_backend(), {values});
    const auto fast = interpret_node(node, cpu_backend(), {values}, 2);
    EXPECT_EQ(fast[1], reference[1]);
    // Values compare as bytes: -0 and 0 keep their places.
    EXPECT_EQ(std::signbit(fast[0].get(1)), std::signbit(reference[0].get(1)));
    return reference[1].values();
  };
  EXPECT_THAT(order("sort", {{"axis", int64_t{0}}}, a), testing::ElementsAre(5, 2, 4, 1, 6, 3, 0, 7));
  EXPECT_THAT(order("sort", {{"axis", int64_t{0}}, {"descending", true}}, a),
              testing::ElementsAre(0, 7, 3, 1, 6, 2, 4, 5));
  EXPECT_THAT(order("top_k", {{"k", int64_t{3}}, {"least", true}}, a), testing::ElementsAre(5, 2, 4));
  EXPECT_THAT(order("top_k", {{"k", int64_t{3}}}, a), testing::ElementsAre(0, 7, 3));
  HostTensor wide({DType::kI64, {3}});
  const int64_t numbers[] = {INT64_MAX, INT64_MIN, INT64_MAX - 1};  // equal as doubles
  std::memcpy(wide.data.data(), numbers, sizeof numbers);
  EXPECT_THAT(order("sort", {{"axis", int64_t{0}}}, wide), testing::ElementsAre(1, 2, 0));
}

/// Where several updates set one element, the last one alone has a gradient.
TEST(Indexing, OnlyTheLastUpdateSetHasAGradient) {
  Graph graph("winner");
  GraphBuilder build(graph);
  const Tensor a = build.input("a", DType::kF32, {3, 2}), u = build.input("u", DType::kF32, {4, 2});
  const Tensor result = put(a, u, {at(a, {2, 0, 2, -1})}, {.axes = {0}, .from_end = true}, {});
  build.output("loss", reduce_sum(multiply(result, at(a, {3, 2}, {1, 2, 3, 4, 5, 6}, DType::kF32))));
  graph = differentiate(graph, "loss", {"a", "u"});
  const std::map<std::string, HostTensor> feeds = {{"a", HostTensor({DType::kF32, {3, 2}})},
                                                   {"u", HostTensor({DType::kF32, {4, 2}})}};
  const auto outputs = interpret(graph, cpu_backend(), feeds);
  EXPECT_THAT(outputs[1].values(), testing::ElementsAre(0, 0, 3, 4, 0, 0));
  EXPECT_THAT(outputs[2].values(), testing::ElementsAre(0, 0, 1, 2, 0, 0, 5, 6));
}

}  // namespace
}  // namespace ramet::tests
