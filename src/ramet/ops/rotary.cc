#include <cmath>

#include "ramet/base/error.h"
#include "ramet/ops/build_attention.h"
#include "ramet/ops/rotary.h"
#include "ramet/ops/rules.h"
#include "ramet/ops/scaling_rules.h"

namespace ramet::ops {

RotaryForm rotary_form(const NodeSignature& node) {
  RotaryForm form;
  require_floating(node, 0, "a");
  require_rank(node, 0, "a", 4, 4);
  const TensorType &a = node.inputs[0], &cosine = node.inputs[1];
  form.batch = a.shape[0], form.sequence = a.shape[1], form.heads = a.shape[2], form.head_size = a.shape[3];
  form.neighbours = node.attributes.get_bool_or("neighbours", false);
  form.back = node.attributes.get_bool_or("back", false);
  const int rank = cosine.shape.rank();
  const bool of_samples = rank == 3, fits = (rank == 2 || (of_samples && cosine.shape[0] == form.batch)) &&
                                            cosine.shape.dim(-2) == form.sequence && cosine.dtype == DType::kF32;
  if (!fits)
    refuse(node, "the cosines have the wrong type", cosine.text(),
           "f32[" + std::to_string(form.sequence) + ",pairs], or with samples before");
  if (node.inputs[2] != cosine)
    refuse(node, "the sines are of another type than the cosines", node.inputs[2].text(), cosine.text());
  form.pairs = cosine.shape.dim(-1);
  if (2 * form.pairs > form.head_size)
    refuse(node, "more pairs than a head has", std::to_string(form.pairs),
           "at most half of the head size, " + std::to_string(form.head_size / 2));
  form.sample_stride = of_samples ? form.sequence * form.pairs : 0;
  return form;
}

namespace {

using Kind = AttributeSpec::Kind;

OpDef rotary_op() {
  OpDef op;
  op.name = "rotary";
  op.doc =
      "a [B,S,heads,D], cosine and sine f32 [S,R/2] or [B,S,R/2] -> a with pairs (x, y) of the first R elements of "
      "each "
      "head as (x cos - y sin, y cos + x sin)";
  op.min_inputs = op.max_inputs = 3;
  op.attributes = {
      optional_attribute("neighbours", Kind::kBool, "pairs are elements 2i and 2i+1, not i and i+R/2 (false)"),
      optional_attribute("back", Kind::kBool, "rotates the other way (false)")};
  op.infer = [](const NodeSignature& node) -> std::vector<TensorType> {
    rotary_form(node);
    return {node.inputs[0]};
  };
  op.gradient = [](GradientContext& context) -> std::vector<Tensor> {
    Attributes attributes = context.node.attributes;
    attributes.set("back", !attributes.get_bool_or("back", false));
    const Tensor gradient = cast_to(context.output_gradients[0], context.inputs[0].dtype());
    return {context.build.op("rotary", {gradient, context.inputs[1], context.inputs[2]}, attributes), {}, {}};
  };
  op.sharding = [](const NodeSignature& node) {
    return ShardingRule::parse(node.inputs[1].shape.rank() == 3 ? "([b,s,h,!d],[b,s,!r],[b,s,!r])->[b,s,h,!d]"
                                                                : "([b,s,h,!d],[s,!r],[s,!r])->[b,s,h,!d]",
                               node);
  };
  op.cost = [](const NodeSignature& node) { return streaming_cost_each(node, 3); };
  op.cheap = true;
  op.full_inputs = {1, 2};
  op.scaling = passing_rule();
  return op;
}

}  // namespace

void register_rotary_op(OpRegistry& registry) { registry.add(rotary_op()); }

Tensor rotary(Tensor a, const RotaryTables& angles, RotaryPairs pairs) {
  Attributes attributes;
  if (pairs == RotaryPairs::kNeighbours) attributes.set("neighbours", true);
  return a.builder->op("rotary", {a, angles.cosine, angles.sine}, std::move(attributes));
}

std::vector<double> rotary_frequencies(int64_t rotated, double base) {
  if (rotated < 2 || rotated % 2 != 0 || !(base > 0))
    throw Error({.what = "rotary positions need an even number of elements and a positive base",
                 .where = "rotary_frequencies",
                 .found = std::to_string(rotated) + " elements, base " + std::to_string(base)});
  std::vector<double> frequencies;
  for (int64_t i = 0; i < rotated; i += 2)
    frequencies.push_back(static_cast<float>(std::pow(base, -static_cast<double>(i) / static_cast<double>(rotated))));
  return frequencies;
}

RotaryTables rotary_tables(GraphBuilder& builder, int64_t positions, const std::vector<double>& frequencies,
                           double amplitude) {
  if (positions < 0 || positions > (int64_t{1} << 24) || frequencies.empty())
    throw Error(
        {.what = "rotary tables of an impossible size",
         .where = "rotary_tables in '" + builder.scope_path() + "'",
         .found = std::to_string(positions) + " positions, " + std::to_string(frequencies.size()) + " frequencies"});
  const auto pairs = static_cast<int64_t>(frequencies.size());
  const TensorType type{DType::kF32, Shape{positions, pairs}};
  HostTensor cosine(type), sine(type);
  for (int64_t p = 0; p < positions; ++p)
    for (int64_t i = 0; i < pairs; ++i) {
      // The product as f32, so that no bit depends on the last bits of another library's functions.
      const float angle = static_cast<float>(p) * static_cast<float>(frequencies[static_cast<size_t>(i)]);
      cosine.set(p * pairs + i, std::cos(static_cast<double>(angle)) * amplitude);
      sine.set(p * pairs + i, std::sin(static_cast<double>(angle)) * amplitude);
    }
  return {constant(builder, TensorData(std::move(cosine))), constant(builder, TensorData(std::move(sine)))};
}

RotaryTables rotary_rows(const RotaryTables& tables, Tensor positions) {
  return {gather(tables.cosine, positions), gather(tables.sine, positions)};
}

}  // namespace ramet::ops
