#include "ramet/ops/matmul.h"

#include <cmath>

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/network_rules.h"
#include "ramet/ops/scaling_rules.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;

bool is_linear(const NodeSignature& node) { return node.op->name == "linear"; }

void check_operand(const NodeSignature& node, const std::string& name, const TensorType& type) {
  if (!is_floating(type.dtype)) refuse(node, name + " must be floating", type.text(), "", "Cast it to a floating type");
  if (type.shape.rank() < 2)
    refuse(node, name + " must be a matrix or a stack of matrices", type.text(), "at least 2 dimensions",
           "Reshape a vector to [1," + std::to_string(type.elements()) + "] or its transpose");
}

/// Leading dimensions of a stack of matrices.
Shape stack_of(const Shape& shape) { return Shape({shape.dims().begin(), shape.dims().end() - 2}); }

/// For each product of the stack `batch`, the matrix of an operand with the stack `own` that it reads.
std::vector<int64_t> matrix_index(const Shape& own, const Shape& batch) {
  const auto strides = own.strides();
  std::vector<int64_t> index(static_cast<size_t>(batch.elements()));
  const int extra = batch.rank() - own.rank();
  for (size_t product = 0; product < index.size(); ++product) {
    int64_t rest = static_cast<int64_t>(product), matrix = 0;
    for (int axis = batch.rank() - 1; axis >= 0; --axis) {
      const int64_t position = rest % batch[axis];
      rest /= batch[axis];
      if (axis >= extra && own[axis - extra] != 1) matrix += position * strides[static_cast<size_t>(axis - extra)];
    }
    index[product] = matrix;
  }
  return index;
}

DType output_dtype(const NodeSignature& node, bool accumulate) {
  const DType otherwise = accumulate ? DType::kF32 : node.inputs[0].dtype;
  const DType dtype = node.attributes.has("dtype") ? node.attributes.get_dtype("dtype") : otherwise;
  if (!is_floating(dtype)) refuse(node, "the output must be floating", "dtype=" + std::string(name_of(dtype)));
  if (accumulate && dtype != DType::kF32)
    refuse(node, "an accumulating product is f32", "dtype=" + std::string(name_of(dtype)), "f32");
  return dtype;
}

void check_extra_input(const NodeSignature& node, const MatmulForm& form) {
  const size_t expected = form.has_bias || form.accumulate ? 3 : 2;
  if (node.inputs.size() != expected)
    refuse(node, "wrong number of inputs", std::to_string(node.inputs.size()), std::to_string(expected),
           "accumulate=true takes a third input c, and only then");
  if (form.has_bias) {
    require_floating(node, 2, "bias");
    require_shape(node, 2, "bias", Shape{form.n});
  }
  if (form.accumulate) require_type(node, 2, "c", form.output);
}

}  // namespace

MatmulForm matmul_form(const NodeSignature& node) {
  MatmulForm form;
  form.has_bias = is_linear(node);
  form.blocked = node.attributes.has("b_blocked");
  form.transpose_a = node.attributes.get_bool_or("transpose_a", false);
  form.transpose_b = node.attributes.get_bool_or(form.has_bias ? "transpose_weight" : "transpose_b", false);
  form.accumulate = node.attributes.get_bool_or("accumulate", false);
  form.chunks = node.attributes.get_int_or("chunks", 1);
  form.in_order = node.attributes.get_bool_or("in_order", false);
  form.a = node.inputs[0];
  form.b = logical_b(node);
  const std::string b_name = form.has_bias ? "weight" : "b";
  check_operand(node, "a", form.a);
  check_operand(node, b_name, form.b);
  if (form.has_bias && form.b.shape.rank() != 2)
    refuse(node, "the weight of linear must be a matrix", form.b.text(), "2 dimensions");
  const bool narrow = size_of(form.a.dtype) == 1 && size_of(form.b.dtype) == 1;
  if (form.a.dtype != form.b.dtype && !narrow)
    refuse(node, "the operands are of different types", form.a.text() + " and " + form.b.text(),
           "one type, or 8-bit floats", "Cast one of them");

  form.m = form.a.shape.dim(form.transpose_a ? -1 : -2);
  form.k = form.a.shape.dim(form.transpose_a ? -2 : -1);
  form.n = form.b.shape.dim(form.transpose_b ? -2 : -1);
  const int64_t k_of_b = form.b.shape.dim(form.transpose_b ? -1 : -2);
  if (form.k != k_of_b)
    refuse(node, "the contracted dimensions differ",
           std::to_string(form.k) + " of " + form.a.text() + (form.transpose_a ? " transposed" : "") + " and " +
               std::to_string(k_of_b) + " of " + form.b.text() + (form.transpose_b ? " transposed" : ""),
           "equal extents", "Check transpose_a, transpose_b, or the shapes");
  if (form.chunks < 1 || form.k % form.chunks != 0)
    refuse(node, "chunks must divide the contracted dimension", "chunks=" + std::to_string(form.chunks),
           "a divisor of " + std::to_string(form.k), "Choose train.chunks that divides every width of the model");

  if (form.in_order && narrow) refuse(node, "products of 8-bit floats have no sums in order", form.a.text());

  form.chunk_blocks = node.attributes.get_int_or("chunk_blocks", 1);
  if (form.chunk_blocks < 1 || form.chunk_blocks > form.k + 1 || form.k / form.chunks % form.chunk_blocks != 0)
    refuse(node, "chunks of several blocks must divide the contracted dimension",
           "chunks=" + std::to_string(form.chunks) + ", chunk_blocks=" + std::to_string(form.chunk_blocks),
           "a product that divides " + std::to_string(form.k), "Choose train.chunks that divides the number of heads");
  if (form.chunks == 1) form.chunk_blocks = 1;

  const Shape a_stack = stack_of(form.a.shape), b_stack = stack_of(form.b.shape);
  const Shape stack = broadcast_shapes(a_stack, b_stack, node.text());
  std::vector<int64_t> dims = stack.dims();
  dims.insert(dims.end(), {form.m, form.n});
  form.output = {output_dtype(node, form.accumulate), Shape(std::move(dims))};
  check_extra_input(node, form);

  if (form.b.shape.rank() == 2 && !form.transpose_a) {
    form.m *= stack.elements();
    form.a_index = form.b_index = {0};
  } else {
    form.batch = stack.elements();
    form.a_index = matrix_index(a_stack, stack);
    form.b_index = matrix_index(b_stack, stack);
  }
  return form;
}

namespace {

std::vector<TensorType> infer_matmul(const NodeSignature& node) { return {matmul_form(node).output}; }

Cost matmul_cost(const NodeSignature& node) {
  const MatmulForm form = matmul_form(node);
  return streaming_cost(node, 2.0 * static_cast<double>(form.batch) * static_cast<double>(form.m) *
                                  static_cast<double>(form.n) * static_cast<double>(form.k));
}

std::vector<MatrixProduct> matmul_products(const NodeSignature& node) {
  const MatmulForm form = matmul_form(node);
  return {{form.batch, form.m, form.k, form.n, form.a.dtype}};
}

/// Makes factors of a sharding rule and returns their numbers.
struct RuleMaker {
  ShardingRule rule;
  int factor(const std::string& name, int64_t size, bool whole = false,
             ShardingRule::Reduce reduce = ShardingRule::Reduce::kNone) {
    rule.factors.push_back({name, size, whole, reduce});
    return static_cast<int>(rule.factors.size()) - 1;
  }
};

/// "([s0,m,c*k],[s0,c*k,n])->[s0,m,n]": the contraction may be split only between its chunks (exact bits rule 2), so c
/// is the one reduced factor that is free, and k is whole. With chunk_blocks there is a whole factor before c.
ShardingRule matmul_sharding(const NodeSignature& node) {
  const MatmulForm form = matmul_form(node);
  RuleMaker maker;
  const Shape& out = form.output.shape;
  const int stack = out.rank() - 2;
  ShardingRule::Operand output;
  for (int axis = 0; axis < stack; ++axis) output.push_back({maker.factor("s" + std::to_string(axis), out[axis])});
  const int m = maker.factor("m", out.dim(-2)), n = maker.factor("n", out.dim(-1));
  output.insert(output.end(), {{m}, {n}});
  ShardingRule::Dim contracted;
  if (form.chunk_blocks > 1)
    contracted.push_back(maker.factor("b", form.chunk_blocks, true, ShardingRule::Reduce::kSum));
  if (form.chunks > 1) contracted.push_back(maker.factor("c", form.chunks, false, ShardingRule::Reduce::kSum));
  contracted.push_back(maker.factor("k", form.run(), true, ShardingRule::Reduce::kSum));

  const auto operand = [&](const Shape& shape, ShardingRule::Dim before, ShardingRule::Dim after, bool swapped) {
    ShardingRule::Operand dims;
    const int own = shape.rank() - 2;
    for (int axis = 0; axis < own; ++axis) {
      const int at = stack - own + axis;
      const bool broadcasts = shape[axis] == 1 && out[at] != 1;
      dims.push_back(broadcasts ? ShardingRule::Dim{} : output[static_cast<size_t>(at)]);
    }
    if (swapped) std::swap(before, after);
    dims.push_back(std::move(before));
    dims.push_back(std::move(after));
    return dims;
  };
  maker.rule.inputs.push_back(operand(form.a.shape, {m}, contracted, form.transpose_a));
  if (form.blocked) {
    // Blocked bytes have no dimensions to split, so operands are blocked after partitioning.
    maker.rule.inputs.push_back({{maker.factor("bytes", node.inputs[1].shape[0], true)}});
    for (auto& factor : maker.rule.factors)
      if (factor.name == "n" || factor.name == "c") factor.whole = true;
  } else {
    maker.rule.inputs.push_back(operand(form.b.shape, contracted, {n}, form.transpose_b));
  }
  if (form.has_bias) maker.rule.inputs.push_back({{n}});
  if (form.accumulate) maker.rule.inputs.push_back(output);
  // A bias or c is added once, after the sum: with it no shard may hold a part of the sum.
  if (form.has_bias || form.accumulate)
    for (auto& factor : maker.rule.factors)
      if (factor.name == "c") factor.whole = true;
  maker.rule.outputs.push_back(std::move(output));
  return maker.rule;
}

/// matmul with chunks where they fit the contraction: gradients keep the recipe's chunks if they can.
Tensor product(Tensor a, Tensor b, bool transpose_a, bool transpose_b, DType dtype, int64_t chunks) {
  Attributes attributes;
  if (transpose_a) attributes.set("transpose_a", true);
  if (transpose_b) attributes.set("transpose_b", true);
  if (dtype != a.dtype()) attributes.set("dtype", dtype);
  const int64_t contracted = a.dim(transpose_a ? -2 : -1);
  if (chunks > 1 && contracted % chunks == 0) attributes.set("chunks", chunks);
  return a.builder->op("matmul", {a, b}, std::move(attributes));
}

bool is_narrow(DType dtype) { return size_of(dtype) == 1; }

/// Type of the gradient of an operand: its own, or the output's for 8-bit operands, which cannot hold a gradient's
/// range.
DType gradient_dtype(const MatmulForm& form, Tensor operand) {
  return is_narrow(operand.dtype()) ? form.output.dtype : operand.dtype();
}

/// Gradient with respect to a: dy op(b)^T in a's type.
Tensor gradient_of_a(const MatmulForm& form, Tensor a, Tensor b, Tensor dy) {
  const DType dtype = gradient_dtype(form, a);
  const Tensor da = form.transpose_a ? product(b, dy, form.transpose_b, true, dtype, form.chunks)
                                     : product(dy, b, false, !form.transpose_b, dtype, form.chunks);
  return sum_to(da, {da.dtype(), a.shape()});
}

/// Gradient with respect to b: op(a)^T dy. A matrix b is a weight: its gradient is f32 and sums over all rows, which
/// are samples and so are never split within a micro-batch (no chunks).
Tensor gradient_of_b(const MatmulForm& form, Tensor a, Tensor b, Tensor dy) {
  const bool weight = b.shape().rank() == 2;
  bool transpose_a = form.transpose_a;
  if (weight && !transpose_a) a = as_rows(a), dy = as_rows(dy);
  const DType dtype = weight ? DType::kF32 : gradient_dtype(form, b);
  const int64_t chunks = weight ? 1 : form.chunks;
  const Tensor db = form.transpose_b ? product(dy, a, true, transpose_a, dtype, chunks)
                                     : product(a, dy, !transpose_a, false, dtype, chunks);
  return sum_to(db, {db.dtype(), b.shape()});
}

std::vector<Tensor> matmul_gradient(GradientContext& context) {
  const MatmulForm form = matmul_form(context.node);
  if (form.blocked)
    refuse(context.node, "a product with a blocked operand has no gradient", "", "",
           "Differentiate before operands are blocked");
  const Tensor dy = context.output_gradients[0];
  const Tensor a = context.inputs[0], b = context.inputs[1];
  // Of 8-bit operands, gradients take the format with the longer range (Micikevicius et al., arXiv 2209.05433).
  const Tensor low = cast_to(dy, is_narrow(a.dtype()) ? DType::kF8E5M2 : a.dtype());
  std::vector<Tensor> gradients(context.inputs.size());
  // In front of the products, so that the map that makes dy can sum its rows.
  if (gradients.size() > 2 && context.needed[2]) gradients[2] = form.has_bias ? column_sum(dy) : dy;
  if (context.needed[0]) gradients[0] = gradient_of_a(form, a, b, low);
  if (context.needed[1]) gradients[1] = gradient_of_b(form, a, b, low);
  return gradients;
}

/// A bare product of f32, then what the node adds, then its rounding, in one map.
Tensor product_apart(SimplifyContext& context) {
  const MatmulForm form = matmul_form(context.node);
  const bool adds = form.has_bias || form.accumulate;
  if (form.blocked || (!adds && form.output.dtype == DType::kF32)) return {};
  Attributes attributes;
  if (form.transpose_a) attributes.set("transpose_a", true);
  if (form.transpose_b) attributes.set("transpose_b", true);
  if (form.a.dtype != DType::kF32) attributes.set("dtype", DType::kF32);
  if (form.in_order) attributes.set("in_order", true);
  if (form.chunks > 1) attributes.set("chunks", form.chunks);
  if (form.chunk_blocks > 1) attributes.set("chunk_blocks", form.chunk_blocks);
  const Tensor sum = context.build.op("matmul", {context.inputs[0], context.inputs[1]}, std::move(attributes));
  if (!adds) return cast(sum, form.output.dtype);
  return context.build.op("map", {sum, context.inputs[2]},
                          {{"program", std::string("2:%2=add(%0,%1)->%2")},
                           {"shape", form.output.shape.dims()},
                           {"dtypes", std::string(name_of(form.output.dtype))}});
}

/// Sums over k, n and rows of products of independent elements; rows of a weight's gradient are as alike as both
/// operands' are.
ScalingRule product_scaling(bool linear) {
  ScalingRule rule;
  rule.forward = [](const ScalingContext& context) {
    const MatmulForm form = matmul_form(context.node);
    const Amplitude &a = context.inputs[0], &b = context.inputs[1];
    const bool weight = form.b.shape.rank() == 2;
    Amplitude out = weight ? a : product_spread(a, b);
    // One b for all rows of a product; another for each sample, unless it is a weight.
    out.in_sample = a.in_sample;
    out.rms = a.rms * b.rms * std::sqrt(static_cast<double>(form.k));
    out.parameter = false;
    return std::vector{out};
  };
  rule.backward = [](const ScalingContext& context, std::span<const Amplitude> gradients) {
    const MatmulForm form = matmul_form(context.node);
    const Amplitude &a = context.inputs[0], &b = context.inputs[1], &g = gradients[0];
    const bool weight = form.b.shape.rank() == 2;
    const int64_t rows = weight ? form.m * form.batch : form.m;
    std::vector<Amplitude> result{scaled(g, b.rms * std::sqrt(static_cast<double>(form.n)))};
    result.push_back(summed_over_rows(product_spread(a, g), rows, weight ? context.samples : 1));
    if (form.has_bias) result.push_back(summed_over_rows(g, rows, context.samples));
    if (context.inputs.size() > result.size()) result.push_back(g);
    return result;
  };
  rule.fan_in = [](const NodeSignature& node) { return matmul_form(node).k; };
  if (linear) rule.added = {2};
  return rule;
}

std::vector<AttributeSpec> product_attributes(bool linear) {
  std::vector<AttributeSpec> specs;
  if (linear) {
    specs.push_back({"transpose_weight", Kind::kBool, false, "weight is [n,k] (default false: [k,n])"});
  } else {
    specs.push_back({"transpose_a", Kind::kBool, false, "swap the last two dimensions of a"});
    specs.push_back({"transpose_b", Kind::kBool, false, "swap the last two dimensions of b"});
    specs.push_back({"accumulate", Kind::kBool, false, "add to input c: out = c + a b, f32"});
    specs.push_back({"in_order", Kind::kBool, false, "one chain of f32 multiply-adds over the k of each chunk, in order"});
  }
  specs.push_back({"dtype", Kind::kDType, false, "type of the output (default: a's; f32 with accumulate)"});
  specs.push_back({"chunks", Kind::kInt, false, "equal parts of the contraction, summed apart, then by a tree (1)"});
  specs.push_back({"chunk_blocks", Kind::kInt, false, "blocks of the contraction that each chunk has a part of (1)"});
  specs.push_back({"b_blocked", Kind::kString, false, "format in which input b is blocked bytes"});
  specs.push_back({"b_shape", Kind::kInts, false, "logical shape of a blocked b"});
  specs.push_back({"b_dtype", Kind::kDType, false, "logical type of a blocked b"});
  return specs;
}

std::vector<TensorType> infer_block(const NodeSignature& node) {
  require_floating(node, 0, "w");
  require_rank(node, 0, "w", 2);
  const int64_t bytes = node.attributes.get_int("bytes");
  if (bytes < 0) refuse(node, "a blocked form has no negative size", "bytes=" + std::to_string(bytes));
  if (!is_floating(node.attributes.get_dtype("dtype")))
    refuse(node, "blocked elements must be floating", std::string(name_of(node.attributes.get_dtype("dtype"))));
  if (node.attributes.get_string("format").empty()) refuse(node, "a blocked form needs the name of its format");
  return {{DType::kU8, Shape{bytes}}};
}

ShardingRule block_sharding(const NodeSignature& node) {
  const std::string dims = factor_names("d", node.inputs[0].shape.rank(), "!");
  return ShardingRule::parse("([" + dims + "])->[!bytes]", node);
}

}  // namespace

void register_matmul_ops(OpRegistry& registry) {
  registry.add({.name = "matmul",
                .doc = "[...,m,k] x [...,k,n] (+ c) -> [...,m,n]; leading dimensions broadcast; sums are f32",
                .min_inputs = 2,
                .max_inputs = 3,
                .attributes = product_attributes(false),
                .infer = infer_matmul,
                .gradient = matmul_gradient,
                .apart = product_apart,
                .sharding = matmul_sharding,
                .localize = localize_chunks,
                .cost = matmul_cost,
                .products = matmul_products,
                .precision = OpDef::Precision::kLow,
                .full_inputs = {2},
                .narrow = true,
                .scaling = product_scaling(false)});
  registry.add({.name = "linear",
                .doc = "[...,k] x weight [k,n] (or [n,k] with transpose_weight) + bias [n] -> [...,n]; sums are f32",
                .min_inputs = 3,
                .max_inputs = 3,
                .attributes = product_attributes(true),
                .infer = infer_matmul,
                .gradient = matmul_gradient,
                .apart = product_apart,
                .sharding = matmul_sharding,
                .localize = localize_chunks,
                .cost = matmul_cost,
                .products = matmul_products,
                .precision = OpDef::Precision::kLow,
                .full_inputs = {2},
                .narrow = true,
                .scaling = product_scaling(true)});
  registry.add({.name = "block",
                .doc = "w in the byte layout that one kernel family reads fastest -> u8[bytes]",
                .min_inputs = 1,
                .max_inputs = 1,
                .attributes = {{"format", Kind::kString, true, "says all that the blocking kernel must know"},
                               {"bytes", Kind::kInt, true, "size of the blocked form"},
                               {"dtype", Kind::kDType, true, "type of the blocked elements"}},
                .infer = infer_block,
                .gradient = {},
                .sharding = block_sharding,
                .cost = [](const NodeSignature& node) { return streaming_cost(node, 0); }});
}

Tensor matmul(Tensor a, Tensor b, bool transpose_a, bool transpose_b, std::optional<DType> dtype) {
  return product(a, b, transpose_a, transpose_b, dtype.value_or(a.dtype()), 1);
}

Tensor linear(Tensor a, Tensor weight, Tensor bias, bool transpose_weight) {
  Attributes attributes;
  if (transpose_weight) attributes.set("transpose_weight", true);
  return a.builder->op("linear", {a, weight, bias}, std::move(attributes));
}

}  // namespace ramet::ops
