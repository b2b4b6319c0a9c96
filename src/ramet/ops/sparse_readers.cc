#include "ramet/ops/sparse_readers.h"

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

bool looks_up(const OpDef& op) { return op.name == "gather" || op.name == "slice"; }

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

std::string why_not_of_table(const NodeSignature& node, bool turned) {
  const Shape& table = node.inputs[0].shape;
  if (table.rank() != 2) return "a table that is looked up has " + std::to_string(table.rank()) + " dimensions";
  if (turned) return "columns of it are looked up";
  if (node.op->name == "gather") return "";
  if (!all_are(node.attributes, "stride", 1)) return "rows with others between them are taken of it";
  return node.outputs[0].shape[1] == table[1] ? "" : "parts of its rows are taken";
}

std::string why_not_of_stack(const NodeSignature& node, bool turned) {
  const Shape &x = node.inputs[0].shape, &w = node.inputs[1].shape;
  if (x.rank() != 3 || x[0] != w[0]) return "its matrices do not meet as many others, one by one";
  if (w[2] == 1) return "its matrices have one column";
  return turned ? "its dimensions are permuted" : "";
}

/// Rows by a gather's numbers, or those from a slice's first to its last.
Tensor rows_of_table(const NodeSignature& node, std::span<const Tensor> inputs, Tensor values, Tensor index,
                     const SparseCell& cell) {
  if (node.op->name == "gather") return sparse_gather(inputs[1], values, index, cell);
  GraphBuilder& build = *values.builder;
  const auto first = static_cast<double>(node.attributes.get_ints("start")[0]);
  const Tensor numbers = iota(build, DType::kI32, {node.outputs[0].shape[0]}, 0);
  return sparse_gather(first == 0 ? numbers : add(numbers, full(build, DType::kI32, {}, first)), values, index, cell);
}

}  // namespace

std::string why_not_sparse(const NodeSignature& node, size_t input, bool turned) {
  const std::string& op = node.op->name;
  const bool convolves = op == "convolution";
  if (looks_up(*node.op)) return why_not_of_table(node, turned);
  if (!convolves && op != "matmul" && op != "linear") return "the op " + op + " has no sparse form";
  if (input != 1) return "a product reads it as another operand than the matrix";
  if (convolves) return why_not_of_filter(node);
  if (node.inputs[1].shape.rank() == 3 && op == "matmul") {
    if (const std::string why = why_not_of_stack(node, turned); !why.empty()) return why;
  } else if (node.inputs[1].shape.rank() != 2) {
    return "the matrix of a product has " + std::to_string(node.inputs[1].shape.rank()) + " dimensions";
  }
  if (node.inputs[0].shape.rank() < 2) return "its product is that with a vector";
  if (node.attributes.get_bool_or("transpose_a", false)) return "its product transposes the other operand";
  return "";
}

Tensor read_sparse(const NodeSignature& node, std::span<const Tensor> inputs, size_t input, Tensor values, Tensor index,
                   const SparseCell& cell, bool turned) {
  if (looks_up(*node.op)) return rows_of_table(node, inputs, values, index, cell);
  const bool convolves = node.op->name == "convolution";
  // A product by a matrix [in, out] is one by the transposed sparse matrix.
  const char* transposed = node.op->name == "linear" ? "transpose_weight" : "transpose_b";
  const bool by_columns = convolves || node.attributes.get_bool_or(transposed, false) != turned;
  const bool channels_first = convolves && !node.attributes.get_bool_or("channels_last", false);
  std::optional<DType> dtype;
  if (node.attributes.has("dtype")) dtype = node.attributes.get_dtype("dtype");
  if (!convolves && node.inputs[1].shape.rank() == 3) {  // matrices one above the other
    const auto apart = [&](Tensor all) {
      Dims dims = all.shape().dims();
      dims[0] /= cell.stacked;
      dims.insert(dims.begin(), cell.stacked);
      return reshape(all, Shape(std::move(dims)));
    };
    values = apart(values), index = apart(index);
  }
  Tensor x = inputs[0];
  const int rank = x.shape().rank();
  if (channels_first) x = transpose(x, channels_last_order(rank));
  Tensor y = sparse_matmul(x, values, index, cell, !by_columns, dtype);
  if (inputs.size() > 2) y = add(y, inputs[2]);
  return channels_first ? transpose(y, channels_first_order(rank)) : y;
}

int64_t tokens_of_product(const NodeSignature& node) {
  if (looks_up(*node.op)) return 0;
  const Shape& y = node.outputs[0].shape;
  const bool channels_first = node.op->name == "convolution" && !node.attributes.get_bool_or("channels_last", false);
  return y.elements() / std::max<int64_t>(1, y.dim(channels_first ? 1 : -1));
}

}  // namespace ramet::ops
