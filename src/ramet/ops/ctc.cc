#include "ramet/ops/ctc.h"

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/network_rules.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;

std::vector<TensorType> infer_ctc(const NodeSignature& node) { return {{DType::kF32, Shape{ctc_form(node).samples}}}; }

std::vector<TensorType> infer_ctc_grad(const NodeSignature& node) {
  require_type(node, 4, "dloss", {DType::kF32, Shape{ctc_form(node).samples}});
  return {node.inputs[0]};
}

std::vector<Tensor> gradient(GradientContext& context) {
  std::vector<Tensor> inputs(context.inputs.begin(), context.inputs.end());
  inputs.push_back(context.output_gradients[0]);
  return {context.build.ops("ctc_loss_grad", inputs, context.node.attributes)[0], {}, {}, {}};
}

Cost cost(const NodeSignature& node) {
  const CtcForm form = ctc_form(node);
  const double steps = static_cast<double>(form.times * form.samples) * static_cast<double>(2 * form.longest + 1);
  return streaming_cost(node, (node.inputs.size() > 4 ? 110 : 50) * steps);
}

std::vector<AttributeSpec> attributes() {
  return {{"blank", Kind::kInt, true, "class that stands between labels"},
          {"zero_infinity", Kind::kBool, false, "a loss that is infinite, and its gradient, are 0 (false)"}};
}

}  // namespace

CtcForm ctc_form(const NodeSignature& node) {
  require_floating(node, 0, "log_probs");
  require_rank(node, 0, "log_probs", 3, 3);
  const Shape& shape = node.inputs[0].shape;
  CtcForm form{.times = shape[0], .samples = shape[1], .classes = shape[2]};
  require_dtype(node, 1, "targets", {DType::kI32});
  require_rank(node, 1, "targets", 2, 2);
  form.longest = node.inputs[1].shape[1];
  require_shape(node, 1, "targets", Shape{form.samples, form.longest});
  require_type(node, 2, "input lengths", {DType::kI32, Shape{form.samples}});
  require_type(node, 3, "target lengths", {DType::kI32, Shape{form.samples}});
  form.blank = node.attributes.get_int("blank");
  if (form.blank < 0 || form.blank >= form.classes)
    refuse(node, "the blank is no class", std::to_string(form.blank), "0 to " + std::to_string(form.classes - 1));
  form.zero_infinity = node.attributes.get_bool_or("zero_infinity", false);
  return form;
}

void check_ctc_sample(const NodeSignature& node, const CtcForm& form, int64_t sample, const int32_t* labels,
                      int64_t input_length, int64_t target_length) {
  const auto fail = [&](const std::string& what, int64_t found, int64_t most) {
    throw Error({.what = what,
                 .where = node.text() + ", sample " + std::to_string(sample),
                 .found = std::to_string(found),
                 .expected = "0 to " + std::to_string(most)},
                ErrorKind::kFailure);
  };
  if (input_length < 0 || input_length > form.times) fail("an input length out of range", input_length, form.times);
  if (target_length < 0 || target_length > form.longest)
    fail("a target length out of range", target_length, form.longest);
  for (int64_t i = 0; i < target_length; ++i)
    if (labels[i] < 0 || labels[i] >= form.classes) fail("a label is no class", labels[i], form.classes - 1);
}

void register_ctc_ops(OpRegistry& registry) {
  registry.add(
      {.name = "ctc_loss",
       .doc = "(log_probs [t,n,c], targets i32[n,s], input lengths i32[n], target lengths i32[n]) -> f32[n]: "
              "-log of the probability of all paths that give the target (ops/ctc.h)",
       .min_inputs = 4,
       .max_inputs = 4,
       .attributes = attributes(),
       .infer = infer_ctc,
       .gradient = gradient,
       .sharding =
           [](const NodeSignature& node) { return ShardingRule::parse("([!t,n,!c],[n,!s],[n],[n])->[n]", node); },
       .cost = cost,
       .precision = OpDef::Precision::kFull});
  registry.add({.name = "ctc_loss_grad",
                .doc = "(inputs of ctc_loss, dloss f32[n]) -> dlog_probs",
                .min_inputs = 5,
                .max_inputs = 5,
                .attributes = attributes(),
                .infer = infer_ctc_grad,
                .gradient = {},
                .sharding =
                    [](const NodeSignature& node) {
                      return ShardingRule::parse("([!t,n,!c],[n,!s],[n],[n],[n])->[!t,n,!c]", node);
                    },
                .cost = cost,
                .precision = OpDef::Precision::kFull,
                .full_inputs = {4}});
}

}  // namespace ramet::ops
