#include <algorithm>
#include <numeric>

#include "ramet/base/error.h"
#include "ramet/base/rounding.h"
#include "ramet/ops/build.h"
#include "ramet/ops/permute_attributes.h"
#include "ramet/ops/random_fill.h"
#include "ramet/ops/rules.h"
#include "ramet/ops/scaling_rules.h"

// Ops that move elements, and those that make them from nothing.

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;
using Dims = std::vector<int64_t>;

size_t at(int index) { return static_cast<size_t>(index); }

// --- reshape ---

std::vector<TensorType> infer_reshape(const NodeSignature& node) {
  const Shape shape = shape_attribute(node, "shape");
  const TensorType& a = node.inputs[0];
  if (shape.elements() != a.elements())
    refuse(node, "reshape to another number of elements", shape.text() + " of " + std::to_string(shape.elements()),
           std::to_string(a.elements()) + " elements, as " + a.text());
  return {{a.dtype, shape}};
}

/// Extents of adjacent dimensions [begin, end) of both shapes that hold the same elements, as a common list of factors:
/// the gaps between the suffix products of both, where each divides the next. Empty when there is no such list.
std::vector<int64_t> common_factors(const Dims& a, const Dims& b) {
  std::vector<int64_t> cuts{1};
  for (const Dims* dims : {&a, &b}) {
    int64_t product = 1;
    for (size_t i = dims->size(); i-- > 0;) cuts.push_back(product *= (*dims)[i]);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<int64_t> factors;
  for (size_t i = cuts.size() - 1; i > 0; --i) {
    if (cuts[i] % cuts[i - 1] != 0) return {};
    factors.push_back(cuts[i] / cuts[i - 1]);
  }
  return factors;
}

class ReshapeSharding {
 public:
  ReshapeSharding(const Dims& from, const Dims& to) : from_(from), to_(to) {}

  ShardingRule run() {
    size_t i = 0, j = 0;
    while (i < from_.size() || j < to_.size()) {
      const size_t i0 = i, j0 = j;
      int64_t left = i < from_.size() ? from_[i++] : 1, right = j < to_.size() ? to_[j++] : 1;
      while (left != right) {
        if (left < right && i < from_.size())
          left *= from_[i++];
        else if (right < left && j < to_.size())
          right *= to_[j++];
        else
          break;
      }
      group(Dims(from_.begin() + static_cast<long>(i0), from_.begin() + static_cast<long>(i)),
            Dims(to_.begin() + static_cast<long>(j0), to_.begin() + static_cast<long>(j)));
    }
    return rule_.input(in_).output(out_).build();
  }

 private:
  void group(const Dims& from, const Dims& to) {
    const auto product = [](const Dims& dims) {
      return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
    };
    const bool whole = product(from) == 0 || product(from) != product(to);
    const std::vector<int64_t> sizes = whole ? std::vector<int64_t>{} : common_factors(from, to);
    if (whole || (sizes.empty() && product(from) != 1)) {
      for (int64_t extent : from) in_.push_back({rule_.factor(extent, true)});
      for (int64_t extent : to) out_.push_back({rule_.factor(extent, true)});
      return;
    }
    std::vector<int> factors;
    for (int64_t size : sizes) factors.push_back(rule_.factor(size));
    append(in_, from, factors, sizes);
    append(out_, to, factors, sizes);
  }

  static void append(ShardingRule::Operand& operand, const Dims& dims, const std::vector<int>& factors,
                     const std::vector<int64_t>& sizes) {
    size_t next = 0;
    for (int64_t extent : dims) {
      ShardingRule::Dim dim;
      for (int64_t product = 1; product < extent; ++next) product *= sizes[next], dim.push_back(factors[next]);
      operand.push_back(std::move(dim));
    }
  }

  const Dims &from_, &to_;
  RuleBuilder rule_;
  ShardingRule::Operand in_, out_;
};

/// The node that makes a tensor, when it is of op `name`.
const Node* producer_of(const Tensor& tensor, std::string_view name) {
  const Graph& graph = tensor.builder->graph();
  const NodeId id = graph.value(tensor.id).producer;
  return id != kNoNode && graph.node(id).op->name == name ? &graph.node(id) : nullptr;
}

OpDef reshape_op() {
  OpDef op;
  op.name = "reshape";
  op.doc = "the same elements in the same row-major order under another shape";
  op.min_inputs = op.max_inputs = 1;
  op.attributes = {required_attribute("shape", Kind::kInts, "of the result")};
  op.infer = infer_reshape;
  op.gradient = [](GradientContext& c) { return std::vector{reshape(c.output_gradients[0], c.inputs[0].shape())}; };
  op.simplify = [](SimplifyContext& c) -> Tensor {
    const Shape shape(c.node.attributes.get_ints("shape"));
    if (c.inputs[0].shape() == shape) return c.inputs[0];
    if (const Node* inner = producer_of(c.inputs[0], "reshape"))
      return reshape(c.build.tensor(inner->inputs[0]), shape);
    return {};
  };
  op.sharding = [](const NodeSignature& node) {
    return ReshapeSharding(node.inputs[0].shape.dims(), node.outputs[0].shape.dims()).run();
  };
  op.localize = localize_shape;
  op.cost = no_cost;
  op.is_view = true;
  op.cheap = true;
  op.scaling = passing_rule();
  return op;
}

// --- transpose ---

std::vector<TensorType> infer_transpose(const NodeSignature& node) {
  const TensorType& a = node.inputs[0];
  const Dims& permutation = node.attributes.get_ints("permutation");
  Dims sorted = permutation, identity(at(a.shape.rank()));
  std::sort(sorted.begin(), sorted.end());
  std::iota(identity.begin(), identity.end(), 0);
  if (sorted != identity)
    refuse(node, "'permutation' is not one", text_of(permutation), "each of 0 to rank - 1 once, for " + a.text());
  Dims dims;
  for (int64_t axis : permutation) dims.push_back(a.shape.dim(static_cast<int>(axis)));
  return {{a.dtype, Shape(std::move(dims))}};
}

OpDef transpose_op() {
  OpDef op;
  op.name = "transpose";
  op.doc = "dimensions in another order: dimension i of the result is dimension permutation[i] of the input";
  op.min_inputs = op.max_inputs = 1;
  op.attributes = {required_attribute("permutation", Kind::kInts, "a permutation of the axes")};
  op.infer = infer_transpose;
  op.gradient = [](GradientContext& c) {
    const Dims& permutation = c.node.attributes.get_ints("permutation");
    Dims inverse(permutation.size());
    for (size_t i = 0; i < inverse.size(); ++i) inverse[at(static_cast<int>(permutation[i]))] = static_cast<int64_t>(i);
    return std::vector{transpose(c.output_gradients[0], inverse)};
  };
  op.simplify = [](SimplifyContext& c) -> Tensor {
    Dims permutation = c.node.attributes.get_ints("permutation");
    if (std::is_sorted(permutation.begin(), permutation.end())) return c.inputs[0];
    const Node* inner = producer_of(c.inputs[0], "transpose");
    if (!inner) return {};
    for (int64_t& axis : permutation) axis = inner->attributes.get_ints("permutation")[at(static_cast<int>(axis))];
    return transpose(c.build.tensor(inner->inputs[0]), permutation);
  };
  op.sharding = [](const NodeSignature& node) {
    RuleBuilder rule;
    ShardingRule::Operand in, out;
    for (int64_t extent : node.inputs[0].shape.dims()) in.push_back({rule.factor(extent)});
    for (int64_t axis : node.attributes.get_ints("permutation")) out.push_back(in[at(static_cast<int>(axis))]);
    return rule.input(in).output(out).build();
  };
  op.cost = [](const NodeSignature& node) { return streaming_cost(node, 0); };
  op.cheap = true;
  op.scaling = passing_rule();
  return op;
}

// --- broadcast_to ---

OpDef broadcast_op() {
  OpDef op;
  op.name = "broadcast_to";
  op.doc = "the input repeated along new dimensions and those of extent 1, by NumPy's rule";
  op.min_inputs = op.max_inputs = 1;
  op.attributes = {required_attribute("shape", Kind::kInts, "of the result")};
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    const Shape shape = shape_attribute(node, "shape");
    if (broadcast_shapes(node.inputs[0].shape, shape, node.text()) != shape)
      refuse(node, "the input does not broadcast to the shape", node.inputs[0].text(), shape.text());
    return {{node.inputs[0].dtype, shape}};
  };
  op.gradient = [](GradientContext& c) { return std::vector{sum_to(c.output_gradients[0], c.node.inputs[0])}; };
  op.simplify = [](SimplifyContext& c) {
    return c.inputs[0].shape().dims() == c.node.attributes.get_ints("shape") ? c.inputs[0] : Tensor{};
  };
  op.sharding = elementwise_sharding;
  op.localize = localize_shape;
  op.cost = [](const NodeSignature& node) { return streaming_cost(node, 0); };
  op.cheap = true;
  op.scaling = broadcasting_rule();
  return op;
}

// --- slice and pad ---

/// Attribute `name` with one number a dimension; absent: `otherwise` for each.
Dims per_dimension(const NodeSignature& node, const std::string& name, int64_t otherwise) {
  const int rank = node.inputs[0].shape.rank();
  if (!node.attributes.has(name)) return Dims(at(rank), otherwise);
  const Dims& values = node.attributes.get_ints(name);
  if (static_cast<int>(values.size()) != rank)
    refuse(node, "attribute '" + name + "' needs one number a dimension", text_of(values),
           std::to_string(rank) + " numbers");
  return values;
}

std::vector<TensorType> infer_slice(const NodeSignature& node) {
  const TensorType& a = node.inputs[0];
  const Dims start = per_dimension(node, "start", 0), stop = per_dimension(node, "stop", 0),
             stride = per_dimension(node, "stride", 1);
  Dims dims;
  for (size_t i = 0; i < start.size(); ++i) {
    const int64_t extent = a.shape.dims()[i];
    if (start[i] < 0 || stop[i] < start[i] || stop[i] > extent)
      refuse(node, "slice out of range in dimension " + std::to_string(i),
             "[" + std::to_string(start[i]) + ", " + std::to_string(stop[i]) + ")",
             "0 <= start <= stop <= " + std::to_string(extent));
    if (stride[i] < 1) refuse(node, "stride below 1", std::to_string(stride[i]), "1 or more");
    const int64_t length = stop[i] - start[i];
    dims.push_back(length / stride[i] + (length % stride[i] != 0));
  }
  return {{a.dtype, Shape(std::move(dims))}};
}

/// Into how many parts a dimension's last factor is cut: those before it are whole.
int64_t parts_of_last(const ShardingRule::Dim& dim, const Dims& parts) {
  return dim.empty() ? 1 : parts[at(dim.back())];
}

/// Slice and pad: a dimension that changes falls into blocks of which whole ones stay or go, where start and stop allow
/// it; each block may be cut. `start` and `step` of a dimension: of the narrow operand in the wide one.
ShardingRule block_sharding(const NodeSignature& node, const Dims& start, const Dims& step) {
  const Shape &in = node.inputs[0].shape, &out = node.outputs[0].shape;
  RuleBuilder rule;
  ShardingRule::Operand input, output;
  for (int axis = 0; axis < in.rank(); ++axis) {
    const int64_t from = in.dim(axis), to = out.dim(axis);
    const int64_t block = step[at(axis)] == 1 ? std::gcd(std::gcd(from, to), start[at(axis)]) : 1;
    if (from == to) {
      input.push_back({rule.factor(from)});
      output.push_back(input.back());
    } else if (block <= 1) {
      input.push_back({rule.factor(from, true)});
      output.push_back({rule.factor(to, true)});
    } else {
      const int shared = rule.factor(block);
      const auto blocks = [&](int64_t extent) {
        return extent == block ? ShardingRule::Dim{shared}
                               : ShardingRule::Dim{rule.factor(extent / block, true), shared};
      };
      input.push_back(blocks(from));
      output.push_back(blocks(to));
    }
  }
  return rule.input(input).output(output).build();
}

OpDef slice_op() {
  OpDef op;
  op.name = "slice";
  op.doc = "elements start, start + stride, ... below stop along each dimension";
  op.min_inputs = op.max_inputs = 1;
  op.attributes = {required_attribute("start", Kind::kInts, "one a dimension"),
                   required_attribute("stop", Kind::kInts, "one a dimension"),
                   optional_attribute("stride", Kind::kInts, "one a dimension (1)")};
  op.infer = infer_slice;
  op.gradient = [](GradientContext& c) {
    const Dims start = c.node.attributes.get_ints("start"), stride = per_dimension(c.node, "stride", 1);
    Dims high, interior;
    for (size_t i = 0; i < start.size(); ++i) {
      const int64_t count = c.node.outputs[0].shape.dims()[i], extent = c.node.inputs[0].shape.dims()[i];
      interior.push_back(stride[i] - 1);
      high.push_back(extent - start[i] - (count == 0 ? 0 : (count - 1) * stride[i] + 1));
    }
    Attributes attributes{{"low", start}, {"high", high}};
    if (std::any_of(interior.begin(), interior.end(), [](int64_t gap) { return gap > 0; }))
      attributes.set("interior", interior);
    return std::vector{c.build.op("pad", {c.output_gradients[0]}, attributes)};
  };
  op.simplify = [](SimplifyContext& c) {
    return c.node.op->infer(c.node)[0] == c.node.inputs[0] ? c.inputs[0] : Tensor{};
  };
  op.sharding = [](const NodeSignature& node) {
    return block_sharding(node, node.attributes.get_ints("start"), per_dimension(node, "stride", 1));
  };
  op.localize = [](const NodeSignature& node, const Dims& parts, const ShardingRule& rule) {
    Attributes attributes = node.attributes;
    Dims start = attributes.get_ints("start"), stop = attributes.get_ints("stop");
    for (size_t i = 0; i < stop.size(); ++i) {
      const int64_t cut = parts_of_last(rule.inputs[0][i], parts);
      start[i] /= cut, stop[i] /= cut;
    }
    return attributes.set("start", start).set("stop", stop);
  };
  op.cost = [](const NodeSignature& node) {
    Cost cost;
    cost.bytes_read = cost.bytes_written = node.outputs[0].bytes();
    return cost;
  };
  op.cheap = true;
  op.scaling = part_rule();
  op.permuted = permute_attributes({}, {"start", "stop", "stride"});
  return op;
}

std::vector<TensorType> infer_pad(const NodeSignature& node) {
  const Dims low = per_dimension(node, "low", 0), high = per_dimension(node, "high", 0),
             interior = per_dimension(node, "interior", 0);
  constexpr int64_t kMost = int64_t{1} << 40;
  Dims dims;
  for (size_t i = 0; i < low.size(); ++i) {
    for (int64_t count : {low[i], high[i], interior[i]})
      if (count < 0 || count > kMost)
        refuse(node, "padding out of range", std::to_string(count), "0 to 2^40; use slice to cut");
    const int64_t extent = node.inputs[0].shape.dims()[i];
    if (extent > 1 && interior[i] > kMost / extent) refuse(node, "padding out of range", std::to_string(interior[i]));
    dims.push_back(low[i] + high[i] + extent + (extent > 1 ? (extent - 1) * interior[i] : 0));
  }
  const Shape shape(std::move(dims));
  require_bounded(node, shape);
  return {{node.inputs[0].dtype, shape}};
}

OpDef pad_op() {
  OpDef op;
  op.name = "pad";
  op.doc = "the input with `value` before, after and between its elements along each dimension";
  op.min_inputs = op.max_inputs = 1;
  op.attributes = {required_attribute("low", Kind::kInts, "elements before, one a dimension"),
                   required_attribute("high", Kind::kInts, "elements after"),
                   optional_attribute("interior", Kind::kInts, "elements between two (0)"),
                   optional_attribute("value", Kind::kFloat, "of the padding (0)")};
  op.infer = infer_pad;
  op.gradient = [](GradientContext& c) {
    const Dims low = c.node.attributes.get_ints("low"), interior = per_dimension(c.node, "interior", 0);
    Dims stop, stride;
    for (size_t i = 0; i < low.size(); ++i) {
      const int64_t extent = c.node.inputs[0].shape.dims()[i];
      stride.push_back(interior[i] + 1);
      stop.push_back(low[i] + (extent == 0 ? 0 : (extent - 1) * stride.back() + 1));
    }
    return std::vector{slice(c.output_gradients[0], low, stop, stride)};
  };
  op.simplify = [](SimplifyContext& c) {
    return c.node.op->infer(c.node)[0] == c.node.inputs[0] ? c.inputs[0] : Tensor{};
  };
  op.sharding = [](const NodeSignature& node) {
    Dims steps = per_dimension(node, "interior", 0);
    for (int64_t& step : steps) ++step;
    return block_sharding(node, per_dimension(node, "low", 0), steps);
  };
  op.localize = [](const NodeSignature& node, const Dims& parts, const ShardingRule& rule) {
    Attributes attributes = node.attributes;
    Dims low = attributes.get_ints("low"), high = attributes.get_ints("high");
    for (size_t i = 0; i < low.size(); ++i) {
      const int64_t cut = parts_of_last(rule.inputs[0][i], parts);
      low[i] /= cut, high[i] /= cut;
    }
    return attributes.set("low", low).set("high", high);
  };
  op.cost = [](const NodeSignature& node) { return streaming_cost(node, 0); };
  op.cheap = true;
  op.scaling = part_rule();
  op.permuted = permute_attributes({}, {"low", "high", "interior"});
  return op;
}

// --- concat and split ---

std::vector<TensorType> infer_concat(const NodeSignature& node) {
  const TensorType& first = node.inputs[0];
  require_rank(node, 0, "part", 1);
  const int axis = axis_attribute(node, "axis", first.shape.rank());
  Dims dims = first.shape.dims();
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    const TensorType& part = node.inputs[i];
    Dims other = part.shape.dims();
    if (other.size() == dims.size()) dims[at(axis)] += other[at(axis)], other[at(axis)] = dims[at(axis)];
    if (part.dtype != first.dtype || other != dims)
      refuse(node, "part " + std::to_string(i) + " does not fit the first", part.text(),
             first.text() + " but for dimension " + std::to_string(axis));
  }
  const Shape shape(std::move(dims));
  require_bounded(node, shape);
  return {{first.dtype, shape}};
}

/// Both ops: dimension `axis` of every operand is a number of blocks, whose extent divides that of every piece. Each
/// block may be cut, and so may the other dimensions.
ShardingRule joint_sharding(const NodeSignature& node) {
  RuleBuilder rule;
  const Shape& shape = node.inputs[0].shape;
  const int axis = axis_attribute(node, "axis", shape.rank());
  int64_t block = 0;
  for (const auto* types : {&node.inputs, &node.outputs})
    for (const TensorType& type : *types) block = std::gcd(block, type.shape.dim(axis));
  std::vector<int> factors;
  for (int i = 0; i < shape.rank(); ++i)
    factors.push_back(rule.factor(i == axis ? block : shape.dim(i), i == axis && block <= 1));
  const auto operand = [&](const TensorType& type) {
    ShardingRule::Operand dims;
    for (int i = 0; i < shape.rank(); ++i) {
      if (i != axis || type.shape.dim(i) == block)
        dims.push_back({factors[at(i)]});
      else if (block <= 1)
        dims.push_back({rule.factor(type.shape.dim(i), true)});
      else
        dims.push_back({rule.factor(type.shape.dim(i) / block, true), factors[at(i)]});
    }
    return dims;
  };
  for (const TensorType& type : node.inputs) rule.input(operand(type));
  for (const TensorType& type : node.outputs) rule.output(operand(type));
  return rule.build();
}

OpDef concat_op() {
  OpDef op;
  op.name = "concat";
  op.doc = "tensors one after another along `axis`";
  op.min_inputs = 1;
  op.max_inputs = -1;
  op.attributes = {required_attribute("axis", Kind::kInt, "along which the parts stand")};
  op.infer = infer_concat;
  op.gradient = [](GradientContext& c) {
    const int axis = axis_attribute(c.node, "axis", c.node.inputs[0].shape.rank());
    Dims sizes;
    for (const TensorType& part : c.node.inputs) sizes.push_back(part.shape.dim(axis));
    return split(c.output_gradients[0], sizes, axis);
  };
  op.simplify = [](SimplifyContext& c) { return c.inputs.size() == 1 ? c.inputs[0] : Tensor{}; };
  op.sharding = joint_sharding;
  op.cost = [](const NodeSignature& node) { return streaming_cost(node, 0); };
  op.cheap = true;
  op.scaling = joining_rule();
  op.permuted = permute_attributes({"axis"}, {});
  return op;
}

std::vector<TensorType> infer_split(const NodeSignature& node) {
  const TensorType& a = node.inputs[0];
  require_rank(node, 0, "whole", 1);
  const int axis = axis_attribute(node, "axis", a.shape.rank());
  const Dims& sizes = node.attributes.get_ints("sizes");
  std::vector<TensorType> parts;
  int64_t left = a.shape.dim(axis);
  for (int64_t size : sizes) {
    Dims dims = a.shape.dims();
    dims[at(axis)] = size;
    if (size < 0 || size > left) break;
    left -= size;
    parts.push_back({a.dtype, Shape(std::move(dims))});
  }
  if (left != 0 || parts.size() != sizes.size() || sizes.empty())
    refuse(node, "'sizes' do not add up to the dimension", text_of(sizes),
           std::to_string(a.shape.dim(axis)) + " in all");
  return parts;
}

OpDef split_op() {
  OpDef op;
  op.name = "split";
  op.doc = "pieces of the input of the given sizes along `axis`";
  op.min_inputs = op.max_inputs = 1;
  op.attributes = {required_attribute("sizes", Kind::kInts, "of the pieces"),
                   required_attribute("axis", Kind::kInt, "that is cut")};
  op.infer = infer_split;
  op.gradient = [](GradientContext& c) {
    std::vector<Tensor> parts;
    for (size_t i = 0; i < c.outputs.size(); ++i)
      parts.push_back(c.output_gradients[i].valid() ? cast_to(c.output_gradients[i], c.outputs[i].dtype())
                                                    : zeros(c.build, c.outputs[i].type()));
    return std::vector{concat(parts, c.node.attributes.get_int("axis"))};
  };
  op.sharding = joint_sharding;
  op.localize = [](const NodeSignature& node, const Dims& parts, const ShardingRule& rule) {
    Attributes attributes = node.attributes;
    Dims sizes = attributes.get_ints("sizes");
    const auto axis = at(axis_attribute(node, "axis", node.inputs[0].shape.rank()));
    for (size_t i = 0; i < sizes.size(); ++i) sizes[i] /= parts_of_last(rule.outputs[i][axis], parts);
    return attributes.set("sizes", sizes);
  };
  op.cost = [](const NodeSignature& node) { return streaming_cost(node, 0); };
  op.cheap = true;
  op.scaling = splitting_rule();
  op.permuted = permute_attributes({"axis"}, {});
  return op;
}

// --- from nothing ---

std::vector<TensorType> infer_source(const NodeSignature& node) {
  return {{node.attributes.get_dtype("dtype"), shape_attribute(node, "shape")}};
}

OpDef source_op(const std::string& name, const std::string& doc) {
  OpDef op;
  op.name = name;
  op.doc = doc;
  op.attributes = {required_attribute("dtype", Kind::kDType, "of the result"),
                   required_attribute("shape", Kind::kInts, "of the result")};
  op.infer = infer_source;
  op.gradient_stops = true;
  op.sharding = elementwise_sharding;
  op.localize = localize_shape;
  op.cost = [](const NodeSignature& node) { return streaming_cost(node, 0); };
  op.cheap = true;
  return op;
}

OpDef full_op() {
  OpDef op = source_op("full", "a constant of one value");
  op.attributes.push_back(required_attribute("value", Kind::kFloat, "of every element"));
  op.infer = [](const NodeSignature& node) {
    const double value = node.attributes.get_float("value");
    const std::vector<TensorType> types = infer_source(node);
    const DType dtype = types[0].dtype;
    const bool wide = size_of(dtype) == 8;  // whose greatest number is no double
    if (!is_floating(dtype) &&
        !(value >= lowest_of(dtype) && (wide ? value < greatest_of(dtype) : value < greatest_of(dtype) + 1)))
      refuse(node, "the value does not fit the element type", text_of(value), std::string(name_of(dtype)));
    return types;
  };
  op.scaling = constant_rule([](const NodeSignature& node) { return node.attributes.get_float("value"); });
  return op;
}

OpDef iota_op() {
  OpDef op = source_op("iota", "0, 1, 2, ... along `axis`, the same along all others");
  op.attributes.push_back(required_attribute("axis", Kind::kInt, "along which numbers grow"));
  op.infer = [](const NodeSignature& node) {
    const std::vector<TensorType> types = infer_source(node);
    if (types[0].dtype == DType::kBool) refuse(node, "cannot count in this type", types[0].text());
    axis_attribute(node, "axis", types[0].shape.rank());
    return types;
  };
  op.sharding = [](const NodeSignature& node) {
    RuleBuilder rule;
    const Shape& shape = node.outputs[0].shape;
    ShardingRule::Operand out;
    for (int i = 0; i < shape.rank(); ++i) out.push_back({rule.factor(shape.dim(i))});
    return rule.output(out).build();
  };
  op.positional = OpDef::kPositionalOutput;
  op.scaling = constant_rule([](const NodeSignature& node) {
    const Shape& shape = node.outputs[0].shape;
    return static_cast<double>(shape.dim(axis_attribute(node, "axis", shape.rank())));
  });
  return op;
}

OpDef random_op() {
  OpDef op = source_op("random", "initial values drawn by logical element (ops/random_fill.h)");
  op.attributes.push_back(required_attribute("kind", Kind::kString, "\"uniform\", \"normal\" or \"truncated_normal\""));
  op.attributes.push_back(required_attribute("a", Kind::kFloat, "low, or mean"));
  op.attributes.push_back(required_attribute("b", Kind::kFloat, "high, or deviation"));
  op.attributes.push_back(required_attribute("seed", Kind::kInt, "of the random numbers"));
  op.attributes.push_back(required_attribute("tensor", Kind::kInt, "id of the logical tensor: hash64 of its name"));
  op.infer = [](const NodeSignature& node) {
    const std::vector<TensorType> types = infer_source(node);
    if (!is_floating(types[0].dtype)) refuse(node, "random numbers are floating-point", types[0].text());
    try {
      random_kind_from_name(node.attributes.get_string("kind"));
    } catch (const Error& error) {
      refuse(node, error.parts().what, error.parts().found, error.parts().expected);
    }
    return types;
  };
  // A shard would have to know where it stands in the whole; initial values are drawn once, so that nothing is lost.
  op.sharding = whole_sharding;
  op.cost = [](const NodeSignature& node) { return streaming_cost_each(node, 60); };
  op.cheap = false;
  return op;
}

}  // namespace

void register_shape_ops(OpRegistry& registry) {
  for (OpDef (*make)() :
       {reshape_op, transpose_op, broadcast_op, slice_op, pad_op, concat_op, split_op, full_op, iota_op, random_op})
    registry.add(make());
}

Tensor reshape(Tensor a, Shape shape) {
  Dims dims = shape.dims();
  int64_t known = 1;
  auto unknown = dims.end();
  for (auto dim = dims.begin(); dim != dims.end(); ++dim) {
    if (*dim == -1 && unknown == dims.end())
      unknown = dim;
    else if (*dim > 0 && known <= (int64_t{1} << 48))
      known *= *dim;
  }
  if (unknown != dims.end() && known > 0 && a.shape().elements() % known == 0) *unknown = a.shape().elements() / known;
  return a.builder->op("reshape", {a}, {{"shape", dims}});
}

Tensor transpose(Tensor a, std::vector<int64_t> permutation) {
  for (int64_t& axis : permutation) axis = normalize_axis(axis, a.shape().rank(), "transpose of " + a.type().text());
  return a.builder->op("transpose", {a}, {{"permutation", permutation}});
}

Tensor broadcast_to(Tensor a, Shape shape) {
  if (a.shape() == shape) return a;
  return a.builder->op("broadcast_to", {a}, {{"shape", shape.dims()}});
}

Tensor slice(Tensor a, std::vector<int64_t> start, std::vector<int64_t> stop, std::vector<int64_t> stride) {
  for (Dims* bound : {&start, &stop})
    for (size_t i = 0; i < bound->size() && i < a.shape().dims().size(); ++i)
      if ((*bound)[i] < 0) (*bound)[i] += a.shape().dims()[i];
  Attributes attributes{{"start", start}, {"stop", stop}};
  if (std::any_of(stride.begin(), stride.end(), [](int64_t step) { return step != 1; }))
    attributes.set("stride", stride);
  return a.builder->op("slice", {a}, attributes);
}

Tensor concat(std::vector<Tensor> parts, int64_t axis) {
  if (parts.empty()) throw Error({.what = "concat of no tensors", .where = "concat", .expected = "1 or more"});
  return parts[0].builder->ops("concat", parts, {{"axis", axis}}).at(0);
}

std::vector<Tensor> split(Tensor a, std::vector<int64_t> sizes, int64_t axis) {
  return a.builder->ops("split", {a}, {{"sizes", sizes}, {"axis", axis}});
}

Tensor pad(Tensor a, std::vector<int64_t> low, std::vector<int64_t> high, double value) {
  Attributes attributes{{"low", low}, {"high", high}};
  if (value != 0) attributes.set("value", value);
  return a.builder->op("pad", {a}, attributes);
}

Tensor full(GraphBuilder& builder, DType dtype, const Shape& shape, double value) {
  return builder.op("full", {}, {{"dtype", dtype}, {"shape", shape.dims()}, {"value", value}});
}

Tensor iota(GraphBuilder& builder, DType dtype, const Shape& shape, int64_t axis) {
  return builder.op("iota", {}, {{"dtype", dtype}, {"shape", shape.dims()}, {"axis", axis}});
}

}  // namespace ramet::ops
