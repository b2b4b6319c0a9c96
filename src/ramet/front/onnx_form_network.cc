// Products, convolutions, pools, norms and resizing as ONNX.
#include <algorithm>
#include <numeric>

#include "ramet/front/onnx_writer.h"
#include "ramet/ops/convolution.h"
#include "ramet/ops/matmul.h"
#include "ramet/ops/pooling.h"

namespace ramet::front {
namespace {

using Names = OnnxWriter::Names;
using Fields = OnnxWriter::Fields;

// --- products and norms ---

Names product(OnnxWriter& to, const OnnxOp& op) {
  const ops::MatmulForm form = ops::matmul_form(op.signature);
  if (form.blocked) op.refuse("a weight in a kernel's own layout has no form");
  // Where the result is of another type than the operands, the sums are those of f32.
  const DType given = op.input(0).dtype;
  const DType type = op.output().dtype == given && op.input(1).dtype == given ? given : DType::kF32;
  const auto operand = [&](size_t i) { return op.input(i).dtype == type ? op.in[i] : to.cast(op.in[i], type); };
  const std::string a = form.transpose_a ? to.swap_last(operand(0), op.rank(0)) : operand(0);
  const std::string b = form.transpose_b ? to.swap_last(operand(1), op.rank(1)) : operand(1);
  std::string made = to.node("MatMul", {a, b});
  if (op.in.size() > 2) made = to.node("Add", {made, operand(2)});
  return {op.output().dtype == type ? made : to.cast(made, op.output().dtype)};
}

Names linear(OnnxWriter& to, const OnnxOp& op) {
  const ops::MatmulForm form = ops::matmul_form(op.signature);
  if (op.rank(0) != 2 || form.blocked || op.output().dtype != op.input(0).dtype) return product(to, op);
  return {to.node("Gemm", op.in, {onnx_integer("transB", form.transpose_b ? 1 : 0)})};
}

Names softmax(OnnxWriter& to, const OnnxOp& op) {
  const char* name = op.node.op->name == "softmax" ? "Softmax" : "LogSoftmax";
  return {to.node(name, op.in, {onnx_integer("axis", op.attributes().get_int_or("axis", -1))})};
}

Names layer_norm(OnnxWriter& to, const OnnxOp& op) {
  return {to.node("LayerNormalization", op.in,
                  {onnx_number("epsilon", op.attributes().get_float("epsilon")), onnx_integer("axis", -1)})};
}

Names rms_norm(OnnxWriter& to, const OnnxOp& op) {
  const std::string a = op.input(0).dtype == DType::kF32 ? op.in[0] : to.cast(op.in[0], DType::kF32);
  const std::string mean = to.reduce("ReduceMean", to.node("Mul", {a, a}), {-1}, true);
  const std::string epsilon = to.number(DType::kF32, op.attributes().get_float("epsilon"));
  const std::string root = to.node("Sqrt", {to.node("Add", {mean, epsilon})});
  const std::string unit = to.node("Div", {a, root});
  const std::string made =
      to.node("Mul", {unit, op.input(1).dtype == DType::kF32 ? op.in[1] : to.cast(op.in[1], DType::kF32)});
  return {op.input(0).dtype == DType::kF32 ? made : to.cast(made, op.input(0).dtype)};
}

// --- channels ---

bool channels_last(const OnnxOp& op) { return op.attributes().get_bool_or("channels_last", false); }

/// Activations with their channels in front, and back.
std::string to_first(OnnxWriter& to, const std::string& a, int rank) {
  std::vector<int64_t> order = {0, rank - 1};
  for (int i = 1; i + 1 < rank; ++i) order.push_back(i);
  return to.transpose(a, order);
}
std::string to_last(OnnxWriter& to, const std::string& a, int rank) {
  std::vector<int64_t> order = {0};
  for (int i = 2; i < rank; ++i) order.push_back(i);
  order.push_back(1);
  return to.transpose(a, order);
}
std::string given(OnnxWriter& to, const OnnxOp& op, size_t i) {
  return channels_last(op) ? to_first(to, op.in[i], op.rank(i)) : op.in[i];
}
std::string result(OnnxWriter& to, const OnnxOp& op, const std::string& a) {
  return channels_last(op) ? to_last(to, a, op.output().shape.rank()) : a;
}

Names convolution(OnnxWriter& to, const OnnxOp& op) {
  const ops::ConvolutionForm form = ops::convolution_form(op.signature);
  if (form.accumulate || op.attributes().has("b_blocked")) op.refuse("a filter in a kernel's own layout has no form");
  const bool transposed = form.kind == ops::ConvolutionForm::Kind::kTransposed;
  std::vector<int64_t> strides, dilations, pads, high, taps;
  for (int i = 3 - form.rank; i < 3; ++i) {
    const ops::ConvolutionSpace& space = form.space[static_cast<size_t>(i)];
    strides.push_back(space.stride), dilations.push_back(space.dilation), taps.push_back(space.taps);
    pads.push_back(space.low), high.push_back(space.high);
  }
  pads.insert(pads.end(), high.begin(), high.end());
  Fields fields = {onnx_integers("strides", strides), onnx_integers("dilations", dilations),
                   onnx_integers("pads", pads), onnx_integers("kernel_shape", taps),
                   onnx_integer("group", form.groups)};
  if (transposed && op.attributes().has("output_padding"))
    fields.push_back(onnx_integers("output_padding", op.attributes().get_ints("output_padding")));
  Names operands = {given(to, op, 0), op.in[1]};
  if (form.has_bias) operands.push_back(op.in[2]);
  return {result(to, op, to.node(transposed ? "ConvTranspose" : "Conv", operands, fields))};
}

/// Windows that share an input out evenly, as ones of one size; refused where their sizes differ.
void settle_windows(const OnnxOp& op, std::vector<int64_t>& taps, std::vector<int64_t>& strides) {
  const ops::PoolForm form = ops::pool_form(op.signature);
  for (const ops::PoolAxis& axis : form.axes) {
    if (axis.adaptive && axis.input % axis.output != 0) op.refuse("windows of different sizes have no form");
    taps.push_back(axis.adaptive ? axis.input / axis.output : axis.taps);
    strides.push_back(axis.adaptive ? axis.input / axis.output : axis.stride);
  }
}

Names pool(OnnxWriter& to, const OnnxOp& op) {
  const ir::Attributes& attributes = op.attributes();
  if (attributes.get_int_or("divisor", 0) != 0) op.refuse("a divisor of its own has no form");
  const auto space = static_cast<size_t>(op.rank() - 2);
  const auto list = [&](const char* name, int64_t absent) {
    return attributes.has(name) ? attributes.get_ints(name) : std::vector<int64_t>(space, absent);
  };
  std::vector<int64_t> taps, strides, pads = list("low", 0);
  settle_windows(op, taps, strides);
  for (const int64_t each : list("high", 0)) pads.push_back(each);
  Fields fields = {onnx_integers("kernel_shape", taps), onnx_integers("strides", strides),
                   onnx_integers("dilations", list("dilations", 1)), onnx_integers("pads", pads),
                   onnx_integer("ceil_mode", attributes.get_bool_or("ceil_mode", false) ? 1 : 0)};
  const bool average = op.node.op->name == "average_pool";
  if (average) fields.push_back(onnx_integer("count_include_pad", attributes.get_bool_or("count_padding", true)));
  return {result(to, op, to.node(average ? "AveragePool" : "MaxPool", {given(to, op, 0)}, fields))};
}

Names normalize_channels(OnnxWriter& to, const OnnxOp& op) {
  const std::string a = op.input(0).dtype == DType::kF32 ? op.in[0] : to.cast(op.in[0], DType::kF32);
  const std::string scaled = to.node("Mul", {to.node("Sub", {a, op.in[1]}), op.in[2]});
  const std::string made = to.node("Add", {scaled, op.in[3]});
  return {op.output().dtype == DType::kF32 ? made : to.cast(made, op.output().dtype)};
}

Names channel_moments(OnnxWriter& to, const OnnxOp& op) {
  if (op.signature.inputs.size() > 1) op.refuse("moments of the rows in use have no form");
  const int64_t groups = op.attributes().get_int_or("groups", 0);
  const Shape& shape = op.input(0).shape;
  std::string a = given(to, op, 0);
  if (op.input(0).dtype != DType::kF32) a = to.cast(a, DType::kF32);
  std::vector<int64_t> axes;
  if (groups > 0) {
    int64_t rest = 1;
    for (int i = 1; i < shape.rank(); ++i) rest *= shape.dim(i);
    a = to.reshape(a, {shape.dim(0), groups, rest / groups});
    axes = {2};
  } else {
    for (int i = 0; i < shape.rank(); ++i)
      if (i != 1) axes.push_back(i);
  }
  const std::string mean = to.reduce("ReduceMean", a, axes, true), rest = to.node("Sub", {a, mean});
  const std::string variance = to.reduce("ReduceMean", to.node("Mul", {rest, rest}), axes, true);
  return {to.reshape(mean, op.output(0).shape.dims()), to.reshape(variance, op.output(1).shape.dims())};
}

// --- resizing ---

Names resample(OnnxWriter& to, const OnnxOp& op) {
  const ir::Attributes& attributes = op.attributes();
  if (attributes.get_bool_or("transposed", false) || attributes.has("steps"))
    op.refuse("a map with steps of its own has no form");
  static const std::map<std::string, const char*, std::less<>> coordinates = {
      {"half_pixel", "half_pixel"}, {"corners", "align_corners"}, {"asymmetric", "asymmetric"}};
  static const std::map<std::string, const char*, std::less<>> roundings = {
      {"floor", "floor"}, {"ceil", "ceil"}, {"half_down", "round_prefer_floor"}, {"half_up", "round_prefer_ceil"}};
  const std::string method = attributes.get_string_or("method", "nearest");
  Fields fields = {onnx_text("mode", method),
                   onnx_text("coordinate_transformation_mode",
                             coordinates.at(attributes.get_string_or("coordinates", "half_pixel")))};
  if (method == "nearest")
    fields.push_back(onnx_text("nearest_mode", roundings.at(attributes.get_string_or("rounding", "floor"))));
  if (method == "cubic") fields.push_back(onnx_number("cubic_coeff_a", attributes.get_float_or("cubic", -0.75)));
  if (op.input(0).elements() == 0) op.refuse("nothing to resize has no form");
  if (attributes.get_bool_or("antialias", false)) {
    if (attributes.get_string_or("coordinates", "half_pixel") == "corners")
      op.refuse("wide filters between corners have no form");
    fields.push_back(onnx_integer("antialias", 1));
    fields.push_back(onnx_integer("exclude_outside", 1));
  }
  const Shape& shape = op.input(0).shape;
  std::vector<int64_t> sizes = {shape.dim(0), shape.dim(channels_last(op) ? -1 : 1)};
  for (const int64_t extent : attributes.get_ints("sizes")) sizes.push_back(extent);
  return {result(to, op, to.node("Resize", {given(to, op, 0), "", "", to.integers(sizes)}, fields))};
}

Names grid_sample(OnnxWriter& to, const OnnxOp& op) {
  const ir::Attributes& attributes = op.attributes();
  return {result(to, op,
                 to.node("GridSample", {given(to, op, 0), op.in[1]},
                         {onnx_text("mode", attributes.get_string_or("method", "linear")),
                          onnx_text("padding_mode", attributes.get_string_or("padding", "zeros")),
                          onnx_integer("align_corners", attributes.get_bool_or("corners", false))}))};
}

}  // namespace

const std::vector<OnnxFormEntry>& onnx_network_forms() {
  static const std::vector<OnnxFormEntry> table = {
      {"matmul", product},
      {"linear", linear},
      {"softmax", softmax},
      {"log_softmax", softmax},
      {"layer_norm", layer_norm},
      {"rms_norm", rms_norm, true},
      {"convolution", convolution},
      {"convolution_transposed", convolution, true},
      {"max_pool", pool},
      {"average_pool", pool, true},
      {"normalize_channels", normalize_channels, true},
      {"channel_moments", channel_moments, true},
      {"resample", resample, true},
      {"grid_sample", grid_sample, true},
  };
  return table;
}

}  // namespace ramet::front
