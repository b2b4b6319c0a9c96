#include "ramet/ops/epilogue.h"

#include <algorithm>
#include <set>

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/rules.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;

/// Why the program is no epilogue; "" when it is one.
std::string refusal(const MapProgram& program) {
  if (program.inputs < 1 || program.inputs > kMostEpilogueInputs)
    return "1 to " + std::to_string(kMostEpilogueInputs) + " inputs";
  if (program.draws()) return "a program that draws no random numbers";
  if (program.outputs.size() != 1 || program.outputs[0].reduce != MapProgram::Reduce::kNone)
    return "a program with one output that is not summed";
  return "";
}

MapProgram program_of(const NodeSignature& node) {
  MapProgram program = MapProgram::parse(node.attributes.get_string("epilogue"));
  if (const std::string expected = refusal(program); !expected.empty())
    refuse(node, "attribute 'epilogue' is no program that follows a result", program.text(), expected);
  return program;
}

std::vector<TensorType> infer_with(const NodeSignature& node) { return epilogue_map(node).outputs; }

/// The result between the two is neither written nor read.
Cost cost_with(const NodeSignature& node, const Cost& own) {
  const NodeSignature map = epilogue_map(node);
  const Cost after = map.op->cost(map);
  const int64_t between = map.inputs[0].bytes();
  return {own.flops + after.flops, own.bytes_read + after.bytes_read - between,
          own.bytes_written + after.bytes_written - between};
}

/// The program needs whole sums: a factor that the result lacks is whole. Other inputs follow the result's dimensions.
ShardingRule sharding_with(const NodeSignature& node, ShardingRule rule) {
  const NodeSignature map = epilogue_map(node);
  const ShardingRule::Operand result = rule.outputs[0];
  std::set<int> free;
  for (const ShardingRule::Dim& dim : result) free.insert(dim.begin(), dim.end());
  for (size_t f = 0; f < rule.factors.size(); ++f)
    if (!free.count(static_cast<int>(f))) rule.factors[f].whole = true;
  const Shape& space = map.inputs[0].shape;
  for (size_t i = 1; i < map.inputs.size(); ++i) {
    const Shape& shape = map.inputs[i].shape;
    const int more = space.rank() - shape.rank();
    ShardingRule::Operand operand;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const bool stretched = shape.dim(axis) == 1 && space.dim(axis + more) != 1;
      operand.push_back(stretched ? ShardingRule::Dim{} : result[static_cast<size_t>(axis + more)]);
    }
    rule.inputs.push_back(std::move(operand));
  }
  return rule;
}

/// Through the program, then through the node: the result between them is computed again.
std::vector<Tensor> gradient_with(GradientContext& context,
                                  const std::function<std::vector<Tensor>(GradientContext&)>& own) {
  const NodeSignature bare = without_epilogue(context.node), map = epilogue_map(context.node);
  const size_t count = bare.inputs.size();
  const std::span<const Tensor> inputs = context.inputs.subspan(0, count);
  const std::vector<Tensor> own_inputs(inputs.begin(), inputs.end());
  const Tensor result = context.build.ops(bare.op->name, own_inputs, bare.attributes).at(0);
  std::vector<Tensor> read{result};
  read.insert(read.end(), context.inputs.begin() + static_cast<std::ptrdiff_t>(count), context.inputs.end());
  std::vector<bool> needed{true};
  needed.insert(needed.end(), context.needed.begin() + static_cast<std::ptrdiff_t>(count), context.needed.end());
  GradientContext after{context.build, map, read, context.outputs, context.output_gradients, needed};
  const std::vector<Tensor> behind = map.op->gradient(after);
  std::vector<Tensor> gradients(count);
  if (behind[0].valid()) {
    const Tensor between = behind[0];
    GradientContext before{
        context.build, bare,
        inputs,        {&result, 1},
        {&between, 1}, {context.needed.begin(), context.needed.begin() + static_cast<std::ptrdiff_t>(count)}};
    gradients = own(before);
  }
  gradients.insert(gradients.end(), behind.begin() + 1, behind.end());
  return gradients;
}

}  // namespace

NodeSignature without_epilogue(const NodeSignature& node) {
  if (!has_epilogue(node)) return node;
  const auto further = static_cast<size_t>(program_of(node).inputs - 1);
  NodeSignature bare = node;
  bare.attributes.erase("epilogue");
  bare.attributes.erase("epilogue_dtype");
  if (bare.inputs.size() < further)
    refuse(node, "the epilogue reads more inputs than the node has", std::to_string(node.inputs.size()));
  bare.inputs.resize(bare.inputs.size() - further);
  bare.outputs = bare.op->infer(bare);
  return bare;
}

NodeSignature epilogue_map(const NodeSignature& node) {
  const NodeSignature bare = without_epilogue(node);
  NodeSignature map;
  map.op = &OpRegistry::instance().get("map");
  map.name = node.name;
  map.inputs = bare.outputs;
  map.inputs.insert(map.inputs.end(), node.inputs.begin() + std::ssize(bare.inputs), node.inputs.end());
  const DType given =
      node.attributes.has("epilogue_dtype") ? node.attributes.get_dtype("epilogue_dtype") : bare.outputs[0].dtype;
  map.attributes = {{"program", program_of(node).text()},
                    {"shape", bare.outputs[0].shape.dims()},
                    {"dtypes", std::string(name_of(given))}};
  map.outputs = map.op->infer(map);
  return map;
}

std::optional<Attributes> epilogue_attributes(const NodeSignature& node, const NodeSignature& map, int input) {
  if (has_epilogue(node) || (map.op->name != "map" && map.op->map_op.empty()) || map.outputs.size() != 1 ||
      map.outputs[0].shape != node.outputs[0].shape)
    return {};
  MapProgram program = map_program_of(map);
  if (!refusal(program).empty()) return {};
  // The result becomes input 0; those before it move up by one.
  const auto moved = [&](int value) { return value == input ? 0 : value < input ? value + 1 : value; };
  for (MapProgram::Step& step : program.steps)
    for (int& operand : step.operands) operand = moved(operand);
  program.outputs[0].value = moved(program.outputs[0].value);
  Attributes attributes = node.attributes;
  attributes.set("epilogue", program.text());
  if (map.outputs[0].dtype != node.outputs[0].dtype) attributes.set("epilogue_dtype", map.outputs[0].dtype);
  return attributes;
}

void take_epilogues(OpDef& op) {
  const OpDef own = op;
  const int most = op.max_inputs, least = op.min_inputs;
  op.max_inputs = -1;
  op.attributes.push_back(
      optional_attribute("epilogue", Kind::kString, "map program behind the result; its further inputs come last"));
  op.attributes.push_back(
      optional_attribute("epilogue_dtype", Kind::kDType, "element type that the epilogue gives (that of the result)"));
  op.infer = [own = own.infer, most, least](const NodeSignature& node) {
    if (has_epilogue(node)) return infer_with(node);
    const auto count = static_cast<int>(node.inputs.size());
    if (count < least || count > most)
      refuse(node, "wrong number of inputs", std::to_string(count),
             std::to_string(least) + " to " + std::to_string(most));
    return own(node);
  };
  op.cost = [own = own.cost](const NodeSignature& node) {
    const Cost bare = own(without_epilogue(node));
    return has_epilogue(node) ? cost_with(node, bare) : bare;
  };
  op.sharding = [own = own.sharding](const NodeSignature& node) {
    ShardingRule bare = own(without_epilogue(node));
    return has_epilogue(node) ? sharding_with(node, std::move(bare)) : bare;
  };
  if (own.products)
    op.products = [own = own.products](const NodeSignature& node) { return own(without_epilogue(node)); };
  if (own.chunked_extent)
    op.chunked_extent = [own = own.chunked_extent](const NodeSignature& node) { return own(without_epilogue(node)); };
  if (own.gradient)
    op.gradient = [own = own.gradient](GradientContext& context) {
      return has_epilogue(context.node) ? gradient_with(context, own) : own(context);
    };
  // Such a node is not taken apart again: partitioning comes before epilogues.
  for (auto* rule : {&op.simplify, &op.apart})
    if (*rule)
      *rule = [own = *rule](SimplifyContext& context) { return has_epilogue(context.node) ? Tensor{} : own(context); };
}

}  // namespace ramet::ops
