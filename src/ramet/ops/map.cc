#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/map_program.h"
#include "ramet/ops/map_types.h"
#include "ramet/ops/rules.h"

// The op `map`: a whole MapProgram in one node.

namespace ramet::ops {
namespace {

using Reduce = MapProgram::Reduce;

Shape output_shape(const NodeSignature& node, const Shape& space, Reduce reduce) {
  if (reduce == Reduce::kNone) return space;
  if (space.rank() == 0)
    refuse(node, "a sum over a dimension of a scalar", space.text(), "an iteration space of rank 1 or more");
  if (reduce == Reduce::kSumRows) return Shape{space.dim(-1)};
  return Shape(std::vector<int64_t>(space.dims().begin(), space.dims().end() - 1));
}

void check_inputs(const NodeSignature& node, const MapProgram& program, const Shape& space) {
  const std::vector<bool> counters = program.counters();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorType& type = node.inputs[i];
    const std::string operand = "input " + std::to_string(i);
    if (counters[i]) {
      if (type != TensorType{DType::kI64, Shape{2}})
        refuse(node, operand + " is a counter of another type", type.text(), "i64[2]");
    } else if (broadcast_shapes(type.shape, space, node.text()) != space) {
      refuse(node, operand + " does not broadcast to the iteration space", type.text(), space.text());
    }
  }
}

std::vector<TensorType> infer(const NodeSignature& node) {
  const MapProgram program = MapProgram::parse(node.attributes.get_string("program"));
  const Shape space = shape_attribute(node, "shape");
  check_inputs(node, program, space);
  std::vector<DType> inputs;
  for (const TensorType& type : node.inputs) inputs.push_back(type.dtype);
  const std::vector<DType> dtypes = map_output_dtypes(node, program, inputs);
  std::vector<TensorType> outputs;
  for (size_t i = 0; i < dtypes.size(); ++i)
    outputs.push_back({dtypes[i], output_shape(node, space, program.outputs[i].reduce)});
  return outputs;
}

/// Expands a program into element-wise nodes: one tensor a value of the program.
std::vector<Tensor> expand(const MapProgram& program, std::span<const Tensor> inputs) {
  std::vector<Tensor> values(inputs.begin(), inputs.end());
  for (const MapProgram::Step& step : program.steps) {
    std::vector<Tensor> operands;
    for (int operand : step.operands) operands.push_back(values[static_cast<size_t>(operand)]);
    Attributes attributes;
    const MapOpInfo& info = step.info();
    if (info.types == MapOpTypes::kCast) {
      attributes.set("dtype", step.dtype);
    } else if (info.types == MapOpTypes::kDropout) {
      attributes.set("rate", step.parameter).set("seed", static_cast<int64_t>(step.seed));
      attributes.set("tensor", static_cast<int64_t>(step.tensor));
    } else {
      if (info.parameters > 0) attributes.set("parameter", step.parameter);
      if (info.parameters > 1) attributes.set("second", step.second);
    }
    values.push_back(operands[0].builder->ops(info.name, operands, attributes).at(0));
  }
  return values;
}

void accumulate(Tensor& sum, Tensor term) {
  if (term.valid()) sum = sum.valid() ? add(sum, term) : term;
}

/// Reverse mode over the expanded program, whose values are computed again: they cost less than to keep.
std::vector<Tensor> gradient(GradientContext& context) {
  const MapProgram program = map_program_of(context.node);
  const Shape space = map_space_of(context.node);
  const std::vector<bool> counters = program.counters();
  std::vector<Tensor> wide(context.inputs.begin(), context.inputs.end());
  for (size_t i = 0; i < wide.size(); ++i)
    if (is_floating(wide[i].dtype()) && wide[i].dtype() != DType::kF64) wide[i] = cast_to(wide[i], DType::kF32);
  const std::vector<Tensor> values = expand(program, wide);
  std::vector<Tensor> gradients(values.size());
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    Tensor g = context.output_gradients[i];
    if (!g.valid() || !is_floating(g.dtype())) continue;
    const MapProgram::Output& output = program.outputs[i];
    if (output.reduce == Reduce::kSumLast) {
      std::vector<int64_t> kept = g.shape().dims();
      kept.push_back(1);
      g = reshape(g, Shape(kept));
    }
    const size_t value = static_cast<size_t>(output.value);
    accumulate(gradients[value], sum_to(broadcast_to(cast_to(g, values[value].dtype()), space), values[value].type()));
  }
  for (size_t s = program.steps.size(); s-- > 0;) {
    const size_t result = static_cast<size_t>(program.inputs) + s;
    const MapProgram::Step& step = program.steps[s];
    const Graph& graph = context.build.graph();
    const NodeSignature node = graph.signature(graph.value(values[result].id).producer);
    if (!gradients[result].valid() || node.op->gradient_stops) continue;
    if (!node.op->gradient)
      throw Error({.what = "op '" + node.op->name + "' has no gradient, and the loss depends on it",
                   .where = context.node.text()});
    std::vector<Tensor> operands;
    std::vector<bool> needed;
    for (int operand : step.operands) {
      operands.push_back(values[static_cast<size_t>(operand)]);
      needed.push_back(is_floating(operands.back().dtype()));
    }
    const Tensor output = values[result], output_gradient = gradients[result];
    GradientContext inner{context.build, node, operands, {&output, 1}, {&output_gradient, 1}, needed};
    const std::vector<Tensor> terms = node.op->gradient(inner);
    for (size_t i = 0; i < terms.size(); ++i)
      if (needed[i]) accumulate(gradients[static_cast<size_t>(step.operands[i])], terms[i]);
  }
  std::vector<Tensor> results;
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    const bool wanted = context.needed[i] && gradients[i].valid() && !counters[i];
    results.push_back(wanted ? sum_to(gradients[i], context.node.inputs[i]) : Tensor{});
  }
  return results;
}

/// Dimensions of the iteration space are free where every output has them. Where an output sums over one and another
/// does not, it must stay whole: shards would hold a part of the one and a partial sum of the other. Draws of dropout
/// count the elements of the whole space, which output 0 shows (it is what the op's cuts speak of); a program that
/// draws and sums its output 0 stays whole.
ShardingRule sharding(const NodeSignature& node) {
  const MapProgram program = map_program_of(node);
  const Shape space = map_space_of(node);
  const std::vector<bool> counters = program.counters();
  const bool random = program.draws() && program.outputs.at(0).reduce != Reduce::kNone;
  RuleBuilder rule;
  std::vector<int> factors;
  for (int axis = 0; axis < space.rank(); ++axis) {
    size_t summed = 0;
    for (const auto& output : program.outputs)
      summed += output.reduce == (axis + 1 < space.rank() ? Reduce::kSumRows : Reduce::kSumLast);
    const bool all = summed == program.outputs.size();
    factors.push_back(rule.factor(space.dim(axis), random || (summed > 0 && !all),
                                  all ? ShardingRule::Reduce::kSum : ShardingRule::Reduce::kNone));
  }
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (counters[i])
      rule.input({{rule.factor(2, true)}});
    else
      rule.input(broadcast_operand(node.inputs[i].shape, space, factors));
  for (const auto& output : program.outputs) {
    ShardingRule::Operand dims;
    for (int axis = 0; axis < space.rank(); ++axis) {
      const bool last = axis + 1 == space.rank();
      if (output.reduce == Reduce::kNone || (output.reduce == Reduce::kSumRows) == last)
        dims.push_back({factors[static_cast<size_t>(axis)]});
    }
    rule.output(std::move(dims));
  }
  return rule.build();
}

Cost cost(const NodeSignature& node) {
  const MapProgram program = map_program_of(node);
  double flops = 0;
  for (const MapProgram::Step& step : program.steps) flops += step.info().flops;
  for (const auto& output : program.outputs) flops += output.reduce != Reduce::kNone;
  return streaming_cost(node, flops * static_cast<double>(map_space_of(node).elements()));
}

/// A shard computes the part of the iteration space that its operands show.
Attributes localize(const NodeSignature& node, const std::vector<int64_t>& parts, const ShardingRule& rule) {
  Attributes attributes = node.attributes;
  std::vector<int64_t> shape = attributes.get_ints("shape");
  // The first factors of the rule are the dimensions of the space, in order.
  for (size_t axis = 0; axis < shape.size(); ++axis) shape[axis] = rule.factors[axis].size / parts[axis];
  return attributes.set("shape", shape);
}

}  // namespace

std::string dtypes_text(std::span<const DType> dtypes) {
  std::string text;
  for (const DType dtype : dtypes) text += (text.empty() ? "" : ",") + std::string(name_of(dtype));
  return text;
}

std::vector<DType> map_output_dtypes(const NodeSignature& node, const MapProgram& program,
                                     std::span<const DType> inputs) {
  const std::vector<DType> types = map_value_types(program, inputs, node.text());
  std::vector<DType> dtypes;
  const std::string& list = node.attributes.get_string("dtypes");
  for (size_t begin = 0; begin <= list.size();) {
    const size_t comma = std::min(list.find(',', begin), list.size());
    dtypes.push_back(dtype_from_name(std::string_view(list).substr(begin, comma - begin)));
    begin = comma + 1;
  }
  if (dtypes.size() != program.outputs.size())
    refuse(node, "as many element types are needed as the program has outputs", std::to_string(dtypes.size()),
           std::to_string(program.outputs.size()));
  for (size_t i = 0; i < dtypes.size(); ++i) {
    const MapProgram::Output& output = program.outputs[i];
    const DType value = types[static_cast<size_t>(output.value)];
    if (output.value < program.inputs && program.counters()[static_cast<size_t>(output.value)])
      refuse(node, "a counter is given as output " + std::to_string(i));
    const bool widens = value == DType::kF32 && dtypes[i] != DType::kF64;
    if (widens ? !is_floating(dtypes[i]) : value != dtypes[i])
      refuse(node, "output " + std::to_string(i) + " has the wrong element type", std::string(name_of(dtypes[i])),
             widens ? "a floating-point type" : std::string(name_of(value)));
    if (output.reduce != Reduce::kNone && !is_floating(value))
      refuse(node, "only floats are summed", std::string(name_of(value)), "a floating-point value");
  }
  return dtypes;
}

void register_map_ops(OpRegistry& registry) {
  using Kind = AttributeSpec::Kind;
  OpDef op;
  op.name = "map";
  op.doc =
      "a program of element-wise steps over one iteration space; outputs may be summed over rows or the last dimension";
  op.min_inputs = 0;
  op.max_inputs = -1;
  op.attributes = {required_attribute("program", Kind::kString, "text of the MapProgram"),
                   required_attribute("shape", Kind::kInts, "iteration space"),
                   required_attribute("dtypes", Kind::kString, "element type of each output, as in \"bf16,f32\"")};
  op.infer = infer;
  op.gradient = gradient;
  op.sharding = sharding;
  op.localize = localize;
  op.cost = cost;
  op.cheap = true;
  op.positional = OpDef::kPositionalOutput;
  op.positional_if = [](const NodeSignature& node) { return map_program_of(node).draws(); };
  registry.add(std::move(op));
}

}  // namespace ramet::ops
