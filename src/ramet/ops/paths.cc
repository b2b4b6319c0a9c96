#include "ramet/ops/paths.h"

#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_paths.h"
#include "ramet/ops/build_shapes.h"
#include "ramet/ops/neighbors.h"
#include "ramet/ops/rules.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;
using Reduce = ShardingRule::Reduce;

bool is_gradient(const NodeSignature& node) { return node.op->name == "path_gradient"; }

PathMessage message_of(const NodeSignature& node) {
  const std::string name = node.attributes.get_string("message");
  if (name == "product") return PathMessage::kProduct;
  if (name == "sum") return PathMessage::kSum;
  if (name == "rotation") return PathMessage::kRotation;
  refuse(node, "attribute 'message' has an unknown value", "\"" + name + "\"", "\"product\", \"sum\" or \"rotation\"");
}

void take_rotation(const NodeSignature& node, PathForm& form) {
  form.width = node.attributes.get_int_or("width", form.features);
  if (form.message != PathMessage::kRotation) return;
  if (form.width < 2 || form.width % 2 != 0 || form.features % form.width != 0)
    refuse(node, "runs of complex numbers do not divide the features", std::to_string(form.width),
           "an even divisor of " + std::to_string(form.features));
}

void require_floats(const NodeSignature& node, int input, const std::string& operand, const Shape& shape) {
  require_dtype(node, input, operand, {DType::kF32});
  require_shape(node, input, operand, shape);
}

}  // namespace

PathForm path_form(const NodeSignature& node) {
  const int x = is_gradient(node) ? 0 : 1;
  const auto shape = [&](int input) -> const Shape& { return node.inputs[static_cast<size_t>(input)].shape; };
  for (const auto& [at, name] : {std::pair(x, "x"), std::pair(x + 1, "relations")}) {
    require_dtype(node, at, name, {DType::kF32});
    require_rank(node, at, name, 3, 3);
  }
  require_rank(node, x + 2, "source", 2, 2);
  PathForm form{.batch = shape(x)[0],
                .rows = shape(x)[1],
                .relations = shape(x + 1)[1],
                .edges = shape(x + 2)[1],
                .features = shape(x)[2],
                .message = message_of(node)};
  form.statistics = is_gradient(node) ? node.inputs.size() > 6 : node.op->name == "path_statistics";
  require_shape(node, x + 1, "relations", {form.batch, form.relations, form.features});
  for (const auto& [at, name] : {std::pair(x + 2, "source"), std::pair(x + 3, "relation"), std::pair(x + 4, "ptr")}) {
    require_dtype(node, at, name, {DType::kI32});
    require_shape(node, at, name, {form.batch, at == x + 4 ? form.rows + 1 : form.edges});
  }
  take_rotation(node, form);
  if (!is_gradient(node)) {
    require_floats(node, 0, "own", shape(x));
    return form;
  }
  require_floats(node, 5, "gradient", shape(x));
  if (!form.statistics) return form;
  if (node.inputs.size() != 11)
    refuse(node, "statistics have four gradients and two places", std::to_string(node.inputs.size()) + " inputs", "11");
  for (int input = 6; input < 9; ++input) require_floats(node, input, "gradient", shape(x));
  for (int input = 9; input < 11; ++input) {
    require_dtype(node, input, "place", {DType::kI32});
    require_shape(node, input, "place", shape(x));
  }
  return form;
}

void check_paths(const NodeSignature& node, const PathForm& form, const PathPointers& lists) {
  check_segments(node, lists.ptr, form.batch, form.rows, form.edges);
  for (int64_t b = 0; b < form.batch; ++b)
    for (int64_t e = 0; e < lists.ptr[b * (form.rows + 1) + form.rows]; ++e) {
      const auto check = [&](const char* name, const int32_t* numbers, int64_t bound) {
        if (const int32_t number = numbers[b * form.edges + e]; number < 0 || number >= bound)
          throw wrong_edge_list(node, std::string(name) + "[" + std::to_string(b) + "," + std::to_string(e) + "]",
                                number, 0, bound - 1);
      };
      check("source", lists.source, form.rows);
      check("relation", lists.relation, form.relations);
    }
}

namespace {

/// Samples and features are free, but for runs of complex numbers; rows and edges stay whole.
ShardingRule path_rule(const NodeSignature& node) {
  const PathForm form = path_form(node);
  RuleBuilder rule;
  const auto summed = [&](int64_t size) { return rule.factor(size, true, Reduce::kSum); };
  const int batch = rule.factor(form.batch), from = summed(form.rows), to = rule.factor(form.rows, true);
  const int relations = summed(form.relations), edges = summed(form.edges), pointers = summed(form.rows + 1);
  ShardingRule::Dim features;
  if (form.message == PathMessage::kRotation)
    features = {rule.factor(form.features / form.width), rule.factor(form.width, true)};
  else
    features = {rule.factor(form.features)};
  const ShardingRule::Operand out{{batch}, {to}, features};
  if (!is_gradient(node)) rule.input({{batch}, {from}, features});
  rule.input({{batch}, {from}, features}).input({{batch}, {relations}, features});
  rule.input({{batch}, {edges}}).input({{batch}, {edges}}).input({{batch}, {pointers}});
  if (is_gradient(node)) {
    for (size_t input = 5; input < node.inputs.size(); ++input) rule.input({{batch}, {from}, features});
    return rule.output(out).output({{batch}, {rule.factor(form.relations, true)}, features}).build();
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) rule.output(out);
  return rule.build();
}

std::vector<Tensor> path_gradient(GradientContext& context) {
  const PathForm form = path_form(context.node);
  const Tensor own = context.inputs[0];
  std::vector<Tensor> gradients(context.inputs.size()), flows;
  for (size_t i = 0; i < (form.statistics ? 4 : 1); ++i) {
    const Tensor flow = context.output_gradients[i];
    flows.push_back(flow.valid() ? cast_to(flow, DType::kF32) : zeros(context.build, own.type()));
  }
  if (context.needed[0]) {
    Tensor of_own = flows[0];
    if (form.statistics) {
      of_own = add(of_own, scale(multiply(own, flows[1]), 2));
      const Tensor itself = full(context.build, DType::kI32, {}, -1), none = full(context.build, DType::kF32, {}, 0);
      for (size_t i = 2; i < 4; ++i)
        of_own = add(of_own, select(equal(context.outputs[i + 2], itself), flows[i], none));
    }
    gradients[0] = of_own;
  }
  if (!context.needed[1] && !context.needed[2]) return gradients;
  std::vector<Tensor> operands(context.inputs.begin() + 1, context.inputs.end());
  operands.insert(operands.end(), flows.begin(), flows.end());
  if (form.statistics) operands.insert(operands.end(), {context.outputs[4], context.outputs[5]});
  const std::vector<Tensor> found = context.build.ops("path_gradient", operands, context.node.attributes);
  gradients[1] = found[0], gradients[2] = found[1];
  return gradients;
}

OpDef path_op(const std::string& name, const std::string& doc, int inputs, int most_inputs, double flops) {
  OpDef op;
  op.name = name;
  op.doc = doc;
  op.min_inputs = inputs, op.max_inputs = most_inputs;
  op.attributes = {
      required_attribute("message", Kind::kString, "\"product\", \"sum\" or \"rotation\""),
      optional_attribute("width", Kind::kInt, "of a rotation: features of a run of complex numbers (all of them)")};
  op.sharding = path_rule;
  op.precision = OpDef::Precision::kFull;
  op.cost = [flops](const NodeSignature& node) {
    const PathForm form = path_form(node);
    const auto messages = static_cast<double>(form.batch * form.edges) * static_cast<double>(form.features);
    Cost cost = streaming_cost(node, flops * messages);
    cost.bytes_read += form.batch * form.edges * form.features * 2 * static_cast<int64_t>(sizeof(float));
    return cost;
  };
  return op;
}

}  // namespace

void register_path_ops(OpRegistry& registry) {
  const std::string operands =
      "own [B,N,F], x [B,N,F], relations [B,R,F], source i32 [B,E], relation i32 [B,E], ptr i32 [B,N+1] -> ";
  OpDef sum = path_op("path_sum",
                      operands +
                          "[B,N,F]: for each row its own message and those of its edges, each of the source's "
                          "and the relation's row, summed in order",
                      6, 6, 2);
  sum.infer = [](const NodeSignature& node) {
    static_cast<void>(path_form(node));
    return std::vector{node.inputs[0]};
  };
  sum.gradient = path_gradient;
  registry.add(std::move(sum));

  OpDef statistics = path_op("path_statistics",
                             operands +
                                 "f32 [B,N,F] four times: the messages' sum, the sum of their squares, the "
                                 "greatest and the least; and the edges of these i32 [B,N,F], -1 of the row's "
                                 "own message",
                             6, 6, 6);
  statistics.infer = [](const NodeSignature& node) {
    static_cast<void>(path_form(node));
    const TensorType values = node.inputs[0], places{DType::kI32, values.shape};
    return std::vector{values, values, values, values, places, places};
  };
  statistics.gradient = path_gradient;
  registry.add(std::move(statistics));

  OpDef gradient = path_op("path_gradient",
                           "x [B,N,F], relations [B,R,F], source i32 [B,E], relation i32 [B,E], ptr i32 [B,N+1], "
                           "gradient of sums [B,N,F]; and of statistics those of squares, greatest and least, and two "
                           "tensors of places -> [B,N,F] and [B,R,F]: gradients of x and of the relations, each a "
                           "chain over the edges in order",
                           6, 11, 10);
  gradient.infer = [](const NodeSignature& node) {
    static_cast<void>(path_form(node));
    return std::vector{node.inputs[0], node.inputs[1]};
  };
  registry.add(std::move(gradient));
}

namespace {

std::vector<Tensor> messages(const std::string& op, Tensor own, Tensor x, Tensor relations, const PathLists& lists,
                             const std::string& message, int64_t width) {
  Attributes attributes{{"message", message}};
  if (message == "rotation" && width > 0) attributes.set("width", width);
  return x.builder->ops(op, {own, x, relations, lists.source, lists.relation, lists.ptr}, std::move(attributes));
}

}  // namespace

Tensor path_sum(Tensor own, Tensor x, Tensor relations, const PathLists& lists, const std::string& message,
                int64_t width) {
  return messages("path_sum", own, x, relations, lists, message, width).at(0);
}

PathStatistics path_statistics(Tensor own, Tensor x, Tensor relations, const PathLists& lists,
                               const std::string& message, int64_t width) {
  const std::vector<Tensor> found = messages("path_statistics", own, x, relations, lists, message, width);
  return {.sum = found[0], .squares = found[1], .most = found[2], .least = found[3]};
}

}  // namespace ramet::ops
