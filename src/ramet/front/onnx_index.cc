// ONNX's gathers and scatters.
#include "ramet/front/onnx_support.h"
#include "ramet/front/onnx_table.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::front {
namespace {

using Values = std::vector<OnnxValue>;
using namespace ops;

/// Indices as i32 or i64.
Tensor as_indices(Tensor a) { return is_index(a.dtype()) ? a : cast(a, DType::kI64); }

Values gather(const OnnxCall& at) {
  const Tensor a = at.input(0), indices = as_indices(at.input(1));
  const int axis = at.axis("axis", a.shape().rank(), 0);
  // Without negative indices, this is the gather whose table a layout may cut.
  bool negative = true;
  if (const TensorData* known = at.known(indices)) {
    negative = false;
    for (int64_t i = 0; i < known->type().elements(); ++i) negative = negative || known->tensor().get(i) < 0;
  }
  return {index_select(a, indices, axis, negative)};
}

Values gather_elements(const OnnxCall& at) {
  const Tensor a = at.input(0);
  return {ops::gather_elements(a, as_indices(at.input(1)), at.axis("axis", a.shape().rank(), 0), true)};
}

Values gather_nd(const OnnxCall& at) {
  return {ops::gather_nd(at.input(0), as_indices(at.input(1)), at.integer("batch_dims", 0), true)};
}

UpdateBy update_of(const OnnxCall& at) {
  const std::string by = at.text("reduction", "none");
  if (by != "none" && by != "add" && by != "mul" && by != "min" && by != "max")
    at.refuse("reduction '" + by + "' is not known");
  return {.by = by == "none" ? "set" : by};
}

Values scatter_elements(const OnnxCall& at) {
  const Tensor a = at.input(0);
  return {ops::scatter_elements(a, as_indices(at.input(1)), at.input(2), at.axis("axis", a.shape().rank(), 0),
                                update_of(at), true)};
}

Values scatter_nd(const OnnxCall& at) {
  return {ops::scatter_nd(at.input(0), as_indices(at.input(1)), at.input(2), update_of(at), true)};
}

/// off + (on - off) where the index is; indices from -depth on count from the end, others are nowhere.
Values one_hot(const OnnxCall& at) {
  Tensor indices = at.input(0);
  const int64_t depth = static_cast<int64_t>(at.known_number(1, "the depth of OneHot"));
  if (depth < 1) at.refuse("the depth of OneHot is below 1");
  indices = as_i64(indices);
  const Tensor number = at.integer_constant({}, {depth}), zero = at.integer_constant({}, {0});
  indices = select(less(indices, zero), add(indices, number), indices);
  std::vector<int64_t> dims = indices.shape().dims();
  const int rank = static_cast<int>(dims.size()) + 1;
  const int axis = at.axis("axis", rank, -1);
  dims.insert(dims.begin() + axis, 1);
  std::vector<int64_t> whole = dims, line(static_cast<size_t>(rank), 1);
  whole[static_cast<size_t>(axis)] = line[static_cast<size_t>(axis)] = depth;
  const Tensor is =
      equal(reshape(indices, Shape(dims)), reshape(iota(at.build(), DType::kI64, {depth}, 0), Shape(line)));
  const Tensor values = at.input(2);
  if (values.shape() != Shape{2}) at.refuse("OneHot takes two values");
  const Tensor off = reshape(slice_axis(values, 0, 0, 1), {}), on = reshape(slice_axis(values, 0, 1, 2), {});
  return {select(is, broadcast_to(on, Shape(whole)), off)};
}

/// A cache with the rows of new positions: from `write_indices` on, or around its end ("circular").
Values tensor_scatter(const OnnxCall& at) {
  const Tensor past = at.input(0), update = at.input(1);
  const int rank = past.shape().rank(), axis = at.axis("axis", rank, -2);
  if (rank < 2 || axis < 1) at.refuse("the axis of TensorScatter must stand behind the samples");
  if (update.shape().rank() != rank) at.refuse("the update has another number of dimensions than the cache");
  const int64_t samples = past.dim(0), rows = update.dim(axis), extent = past.dim(axis);
  Tensor first = at.input_if(2);
  first = first.valid() ? as_i64(first) : at.full(DType::kI64, {samples}, 0);
  const Tensor steps = reshape(iota(at.build(), DType::kI64, {rows}, 0), {1, rows});
  Tensor row = add(reshape(first, {samples, 1}), steps);
  const std::string mode = at.text("mode", "linear");
  if (mode == "circular")
    row = remainder(row, at.integer_constant({}, {extent}));
  else if (mode != "linear")
    at.refuse("mode '" + mode + "' is not known");
  // The updates in the order of take's result: the samples, the rows, and the other axes.
  const Tensor sample = reshape(iota(at.build(), DType::kI64, {samples}, 0), {samples, 1});
  return {put(past, move_axis(update, axis, 1), {sample, row}, {.axes = {0, axis}}, {})};
}

/// Elements of the last axis; a vector counts as one row.
Values extract_features(const OnnxCall& at) {
  Tensor a = at.input(0);
  const Tensor indices = as_indices(at.input(1));
  if (a.shape().rank() == 0) at.refuse("the operand has no dimensions");
  if (a.shape().rank() == 1) a = reshape(a, {1, a.dim(0)});
  return {index_select(a, reshape(indices, {indices.shape().elements()}), -1)};
}

constexpr OnnxEntry kEntries[] = {
    {"Gather", gather},
    {"GatherElements", gather_elements},
    {"GatherND", gather_nd},
    {"OneHot", one_hot},
    {"Scatter", scatter_elements},
    {"ScatterElements", scatter_elements},
    {"ScatterND", scatter_nd},
    {"TensorScatter", tensor_scatter},
    {"ai.onnx.ml.ArrayFeatureExtractor", extract_features},
};

}  // namespace

std::span<const OnnxEntry> onnx_index_operators() { return kEntries; }

}  // namespace ramet::front
