// Ops of shapes, reductions and constants as ONNX.
#include <algorithm>

#include "ramet/front/onnx_tensor.h"
#include "ramet/front/onnx_writer.h"
#include "ramet/ops/rules.h"

namespace ramet::front {
namespace {

using Names = OnnxWriter::Names;

std::vector<int64_t> list(const OnnxOp& op, const char* name) { return op.attributes().get_ints(name); }

Names constant(OnnxWriter& to, const OnnxOp& op) { return {to.constant(op.attributes().get_tensor("data").tensor())}; }

Names full(OnnxWriter& to, const OnnxOp& op) {
  HostTensor value({op.output().dtype, {}});
  const double number = op.attributes().get_float("value");
  is_floating(op.output().dtype) ? value.set(0, number)
                                 : store_integer(value.data.data(), op.output().dtype, 0, static_cast<int64_t>(number));
  const std::string made = to.constant(value);
  return {op.output().shape.rank() == 0 ? made : to.expand(made, op.output().shape.dims())};
}

Names iota(OnnxWriter& to, const OnnxOp& op) {
  const Shape& shape = op.output().shape;
  const auto axis = static_cast<int>(op.attributes().get_int("axis"));
  const int at = axis < 0 ? axis + shape.rank() : axis;
  HostTensor line({op.output().dtype, {shape.dim(at)}});
  for (int64_t i = 0; i < shape.dim(at); ++i) line.set(i, static_cast<double>(i));
  std::vector<int64_t> dims(static_cast<size_t>(shape.rank()), 1);
  dims[static_cast<size_t>(at)] = shape.dim(at);
  line.type.shape = Shape(dims);
  const std::string made = to.constant(line);
  return {dims == shape.dims() ? made : to.expand(made, shape.dims())};
}

Names reshape(OnnxWriter& to, const OnnxOp& op) { return {to.reshape(op.in[0], list(op, "shape"))}; }
Names transpose(OnnxWriter& to, const OnnxOp& op) { return {to.transpose(op.in[0], list(op, "permutation"))}; }
Names broadcast(OnnxWriter& to, const OnnxOp& op) { return {to.expand(op.in[0], list(op, "shape"))}; }
Names concat(OnnxWriter& to, const OnnxOp& op) {
  return {to.node("Concat", op.in, {onnx_integer("axis", op.attributes().get_int("axis"))})};
}
Names split(OnnxWriter& to, const OnnxOp& op) {
  return to.nodes("Split", {op.in[0], to.integers(list(op, "sizes"))}, op.node.outputs.size(),
                  {onnx_integer("axis", op.attributes().get_int("axis"))});
}

Names slice(OnnxWriter& to, const OnnxOp& op) {
  const std::vector<int64_t> start = list(op, "start"), stop = list(op, "stop");
  std::vector<int64_t> axes, strides(start.size(), 1);
  for (size_t i = 0; i < strides.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (op.attributes().has("stride")) strides = list(op, "stride");
  return {to.node("Slice", {op.in[0], to.integers(start), to.integers(stop), to.integers(axes), to.integers(strides)})};
}

Names pad(OnnxWriter& to, const OnnxOp& op) {
  const std::vector<int64_t> inside = op.attributes().has("interior") ? list(op, "interior") : std::vector<int64_t>{};
  if (std::any_of(inside.begin(), inside.end(), [](int64_t each) { return each != 0; }))
    op.refuse("padding between elements has no form");
  std::vector<int64_t> pads = list(op, "low");
  for (const int64_t each : list(op, "high")) pads.push_back(each);
  return {to.node(
      "Pad", {op.in[0], to.integers(pads), to.number(op.input(0).dtype, op.attributes().get_float_or("value", 0))})};
}

Names reduce(OnnxWriter& to, const OnnxOp& op) {
  static const std::map<std::string, const char*, std::less<>> names = {{"reduce_sum", "ReduceSum"},
                                                                        {"reduce_max", "ReduceMax"},
                                                                        {"reduce_min", "ReduceMin"},
                                                                        {"reduce_prod", "ReduceProd"},
                                                                        {"reduce_mean", "ReduceMean"}};
  std::vector<int64_t> axes = op.attributes().has("axes") ? list(op, "axes") : std::vector<int64_t>{};
  if (axes.empty())
    for (int i = 0; i < op.rank(); ++i) axes.push_back(i);
  std::string a = op.in[0];
  // Sums of a wider type take wide terms.
  if (op.output().dtype != op.input(0).dtype) a = to.cast(a, op.output().dtype);
  return {to.reduce(names.find(op.node.op->name)->second, a, axes, op.attributes().get_bool_or("keep_dims", false))};
}

Names arg(OnnxWriter& to, const OnnxOp& op) {
  const char* name = op.node.op->name == "argmax" ? "ArgMax" : "ArgMin";
  const std::string made =
      to.node(name, op.in, {onnx_integer("axis", op.attributes().get_int("axis")), onnx_integer("keepdims", 0)});
  return {to.cast(made, op.output().dtype)};
}

Names reverse(OnnxWriter& to, const OnnxOp& op) {
  std::vector<int64_t> axes = list(op, "axes");
  if (axes.empty())
    for (int i = 0; i < op.rank(); ++i) axes.push_back(i);
  const size_t n = axes.size();
  return {to.node("Slice",
                  {op.in[0], to.integers(std::vector<int64_t>(n, -1)), to.integers(std::vector<int64_t>(n, INT64_MIN)),
                   to.integers(axes), to.integers(std::vector<int64_t>(n, -1))})};
}

}  // namespace

const std::vector<OnnxFormEntry>& onnx_shape_forms() {
  static const std::vector<OnnxFormEntry> table = {
      {"constant", constant}, {"full", full},           {"iota", iota},
      {"reshape", reshape},   {"transpose", transpose}, {"broadcast_to", broadcast},
      {"concat", concat},     {"split", split},         {"slice", slice},
      {"pad", pad},           {"reduce_sum", reduce},   {"reduce_max", reduce},
      {"reduce_min", reduce}, {"reduce_prod", reduce},  {"reduce_mean", reduce},
      {"argmax", arg},        {"argmin", arg},          {"reverse", reverse, true},
  };
  return table;
}

}  // namespace ramet::front
