#include "ramet/ops/sparse_products.h"

#include <algorithm>

#include "ramet/ops/channel_order.h"

namespace ramet::ops {
namespace {

using Dims = std::vector<int64_t>;

bool all_are(const Attributes& attributes, const std::string& name, int64_t value) {
  if (!attributes.has(name)) return true;
  const Dims& numbers = attributes.get_ints(name);
  return std::all_of(numbers.begin(), numbers.end(), [&](int64_t number) { return number == value; });
}

bool is_linear_by_filter(const NodeSignature& node) {
  const Dims& filter = node.inputs[1].shape.dims();
  return node.attributes.get_int_or("groups", 1) == 1 && all_are(node.attributes, "strides", 1) &&
         all_are(node.attributes, "low", 0) && all_are(node.attributes, "high", 0) &&
         std::all_of(filter.begin() + 2, filter.end(), [](int64_t taps) { return taps == 1; });
}

}  // namespace

bool takes_sparse_matrix(const NodeSignature& node) {
  const std::string& op = node.op->name;
  if (op == "convolution") return is_linear_by_filter(node);
  if (op != "matmul" && op != "linear") return false;
  return node.inputs[0].shape.rank() >= 2 && node.inputs[1].shape.rank() == 2 &&
         !node.attributes.get_bool_or("transpose_a", false);
}

Tensor sparse_product(const NodeSignature& node, std::span<const Tensor> inputs, Tensor values, Tensor index,
                      const SparseCell& cell) {
  const bool convolves = node.op->name == "convolution";
  // A product by a matrix [in, out] is one by the transposed sparse matrix.
  const char* transposed = node.op->name == "linear" ? "transpose_weight" : "transpose_b";
  const bool by_columns = convolves || node.attributes.get_bool_or(transposed, false);
  const bool turned = convolves && !node.attributes.get_bool_or("channels_last", false);
  std::optional<DType> dtype;
  if (node.attributes.has("dtype")) dtype = node.attributes.get_dtype("dtype");
  Tensor x = inputs[0];
  const int rank = x.shape().rank();
  if (turned) x = transpose(x, channels_last_order(rank));
  Tensor y = sparse_matmul(x, values, index, cell, !by_columns, dtype);
  if (inputs.size() > 2) y = add(y, inputs[2]);
  return turned ? transpose(y, channels_first_order(rank)) : y;
}

}  // namespace ramet::ops
