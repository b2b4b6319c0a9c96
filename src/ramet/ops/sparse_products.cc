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

std::string why_not_of_filter(const NodeSignature& node) {
  const Dims& filter = node.inputs[1].shape.dims();
  const Attributes& attributes = node.attributes;
  if (std::any_of(filter.begin() + 2, filter.end(), [](int64_t taps) { return taps != 1; }))
    return "the filter of a convolution has more than one tap";
  if (attributes.get_int_or("groups", 1) != 1) return "its convolution has groups";
  if (!all_are(attributes, "strides", 1)) return "its convolution has a stride other than 1";
  if (!all_are(attributes, "low", 0) || !all_are(attributes, "high", 0)) return "its convolution has padding";
  return "";
}

}  // namespace

std::string why_not_sparse(const NodeSignature& node, size_t input) {
  const std::string& op = node.op->name;
  const bool convolves = op == "convolution";
  if (!convolves && op != "matmul" && op != "linear") return "the op " + op + " has no sparse form";
  if (input != 1) return "a product reads it as another operand than the matrix";
  if (convolves) return why_not_of_filter(node);
  if (node.inputs[1].shape.rank() != 2)
    return "the matrix of a product has " + std::to_string(node.inputs[1].shape.rank()) + " dimensions";
  if (node.inputs[0].shape.rank() < 2) return "its product is that with a vector";
  if (node.attributes.get_bool_or("transpose_a", false)) return "its product transposes the other operand";
  return "";
}

Tensor sparse_product(const NodeSignature& node, std::span<const Tensor> inputs, Tensor values, Tensor index,
                      const SparseCell& cell, bool turned) {
  const bool convolves = node.op->name == "convolution";
  // A product by a matrix [in, out] is one by the transposed sparse matrix.
  const char* transposed = node.op->name == "linear" ? "transpose_weight" : "transpose_b";
  const bool by_columns = convolves || node.attributes.get_bool_or(transposed, false) != turned;
  const bool channels_first = convolves && !node.attributes.get_bool_or("channels_last", false);
  std::optional<DType> dtype;
  if (node.attributes.has("dtype")) dtype = node.attributes.get_dtype("dtype");
  Tensor x = inputs[0];
  const int rank = x.shape().rank();
  if (channels_first) x = transpose(x, channels_last_order(rank));
  Tensor y = sparse_matmul(x, values, index, cell, !by_columns, dtype);
  if (inputs.size() > 2) y = add(y, inputs[2]);
  return channels_first ? transpose(y, channels_first_order(rank)) : y;
}

}  // namespace ramet::ops
