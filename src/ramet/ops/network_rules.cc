#include "ramet/ops/network_rules.h"

#include "ramet/ops/build.h"

namespace ramet::ops {

void require_type(const NodeSignature& node, int index, const std::string& operand, const TensorType& type) {
  const TensorType& found = node.inputs.at(static_cast<size_t>(index));
  if (found != type)
    refuse(node, "input " + std::to_string(index) + " (" + operand + ") has the wrong type", found.text(), type.text());
}

TensorType logical_b(const NodeSignature& node) {
  const TensorType& b = node.inputs[1];
  if (!node.attributes.has("b_blocked")) return b;
  if (b.dtype != DType::kU8 || b.shape.rank() != 1)
    refuse(node, "a blocked operand must be bytes", b.text(), "u8[bytes]");
  TensorType logical{node.attributes.get_dtype("b_dtype"), Shape(node.attributes.get_ints("b_shape"))};
  for (int64_t extent : logical.shape.dims())
    if (extent < 0) refuse(node, "b_shape has a negative extent", logical.text());
  return logical;
}

std::string factor_names(const std::string& prefix, int count, const std::string& mark) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i ? "," : "") + mark + prefix + std::to_string(i);
  return text;
}

Tensor as_rows(Tensor a) {
  if (a.shape().rank() == 2) return a;
  int64_t rows = 1;
  for (int axis = 0; axis + 1 < a.shape().rank(); ++axis) rows *= a.dim(axis);
  return reshape(a, {rows, a.dim(-1)});
}

Tensor column_sum(Tensor a) {
  std::vector<int64_t> axes;
  for (int axis = 0; axis + 1 < a.shape().rank(); ++axis) axes.push_back(axis);
  // No axes would mean all of them: a single row is its sum.
  if (axes.empty()) return cast_to(a, DType::kF32);
  return a.builder->op("reduce_sum", {a}, {{"axes", axes}, {"dtype", DType::kF32}});
}

}  // namespace ramet::ops
