#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "ops/op_cases.h"
#include "ramet/base/error.h"
#include "ramet/ir/builder.h"
#include "ramet/ir/text.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/exact_sum.h"

namespace ramet::tests {
namespace {

std::string label(const OpCase& op_case) { return op_case.op + "/" + op_case.name; }

std::vector<HostTensor> run(const OpCase& op_case, const std::vector<HostTensor>& inputs) {
  return interpret_node(signature_of(op_case), reference_backend(), inputs);
}

/// |a - b| <= tolerance * max(1, largest |b|), NaN like NaN, infinities equal.
void expect_near(const std::vector<double>& a, const std::vector<double>& b, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  double most = 1;
  for (double value : b)
    if (std::isfinite(value)) most = std::max(most, std::fabs(value));
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(b[i]) ? std::isnan(a[i]) : a[i] == b[i]) continue;
    ASSERT_NEAR(a[i], b[i], tolerance * most) << what << ", element " << i;
  }
}

/// The cases that a check applies to.
template <typename Predicate>
std::vector<OpCase> cases_where(const Predicate& applies) {
  std::vector<OpCase> chosen;
  for (const OpCase& op_case : op_cases())
    if (applies(op_case)) chosen.push_back(op_case);
  return chosen;
}
std::vector<OpCase> reference_cases() {
  return cases_where([](const OpCase& op_case) { return op_case.in_reference; });
}
std::vector<OpCase> narrow_cases() {
  return cases_where([](const OpCase& op_case) { return op_case.in_reference && op_case.low_types; });
}
std::vector<OpCase> gradient_cases() {
  return cases_where([](const OpCase& op_case) {
    const NodeSignature node = signature_of(op_case);
    const auto floating = [](const TensorType& type) { return is_floating(type.dtype); };
    const bool flows = std::any_of(node.inputs.begin(), node.inputs.end(), floating) &&
                       std::any_of(node.outputs.begin(), node.outputs.end(), floating);
    return op_case.in_reference && op_case.gradient_tolerance > 0 && node.op->gradient && flows;
  });
}

class EveryCase : public testing::TestWithParam<OpCase> {};
class ReferenceCase : public testing::TestWithParam<OpCase> {};
class NarrowCase : public testing::TestWithParam<OpCase> {};
class GradientCase : public testing::TestWithParam<OpCase> {};

std::string test_name(const testing::TestParamInfo<OpCase>& info) {
  std::string name = info.param.op + "_" + info.param.name;
  for (char& letter : name)
    if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryCase, testing::ValuesIn(op_cases()), test_name);
INSTANTIATE_TEST_SUITE_P(Ops, ReferenceCase, testing::ValuesIn(reference_cases()), test_name);
INSTANTIATE_TEST_SUITE_P(Ops, NarrowCase, testing::ValuesIn(narrow_cases()), test_name);
INSTANTIATE_TEST_SUITE_P(Ops, GradientCase, testing::ValuesIn(gradient_cases()), test_name);

TEST(OpTable, EveryOpHasACase) {
  std::set<std::string> covered;
  for (const OpCase& op_case : op_cases()) covered.insert(op_case.op);
  for (const OpDef* op : OpRegistry::instance().all())
    // Collectives need more than one device: collective_test.cc, tests/transport.
    EXPECT_TRUE(op->exchange != Exchange::kNone || covered.count(op->name))
        << op->name << " has no line in the case table (tests/ops/op_cases_*.cc)";
}

/// Names of the ops of some cases.
std::set<std::string> ops_of(const std::vector<OpCase>& cases) {
  std::set<std::string> names;
  for (const OpCase& op_case : cases) names.insert(op_case.op);
  return names;
}

TEST(OpTable, EveryGradientIsComparedWithDifferences) {
  // Statistics depend on each other: tests of whole losses differentiate them. Roundings have the gradient of the
  // identity, not that of their steps.
  const std::set<std::string> elsewhere{"cross_entropy", "cross_entropy_rows", "round_bf16", "round_f16"};
  const std::set<std::string> compared = ops_of(gradient_cases());
  for (const OpDef* op : OpRegistry::instance().all()) {
    if (!op->gradient || op->exchange != Exchange::kNone) continue;
    EXPECT_NE(compared.count(op->name), elsewhere.count(op->name)) << op->name;
  }
}

/// Whether a case is computed in parts along a factor.
bool is_split(const OpCase& op_case, const ShardingRule::Factor& factor) {
  return !factor.whole && factor.size >= 2 && factor.size % 2 == 0 && op_case.in_reference;
}

TEST(OpTable, EveryRuleWithFreeFactorsIsSplit) {
  std::set<std::string> free, split;
  for (const OpCase& op_case : op_cases()) {
    const NodeSignature node = signature_of(op_case);
    for (const ShardingRule::Factor& factor : node.op->sharding(node).factors) {
      if (!factor.whole) free.insert(op_case.op);
      if (is_split(op_case, factor)) split.insert(op_case.op);
    }
  }
  for (const std::string& op : free) EXPECT_TRUE(split.contains(op)) << op;
}

TEST(OpTable, EveryEntryIsWhole) {
  for (const OpDef* op : OpRegistry::instance().all()) {
    EXPECT_FALSE(op->doc.empty()) << op->name;
    EXPECT_TRUE(op->infer && op->sharding && op->cost) << op->name;
    EXPECT_FALSE(op->gradient && op->gradient_stops) << op->name;
    for (const AttributeSpec& attribute : op->attributes)
      EXPECT_FALSE(attribute.doc.empty()) << op->name << " " << attribute.name;
  }
}

TEST_P(EveryCase, VerifiesAndReadsBackFromText) {
  const OpCase& op_case = GetParam();
  Graph graph("case");
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < op_case.inputs.size(); ++i)
    inputs.push_back(graph.add_input("in" + std::to_string(i), op_case.inputs[i].type, InputRole::kData));
  const NodeId node = graph.add_node(OpRegistry::instance().get(op_case.op), inputs, op_case.attributes, op_case.name);
  for (size_t i = 0; i < graph.node(node).outputs.size(); ++i)
    graph.add_output("out" + std::to_string(i), graph.node(node).outputs[i]);
  verify(graph, "building");
  EXPECT_EQ(print(parse_graph(print(graph))), print(graph));
}

TEST_P(EveryCase, CostsWhatItMoves) {
  const NodeSignature node = signature_of(GetParam());
  const Cost cost = node.op->cost(node);
  EXPECT_GE(cost.flops, 0);
  EXPECT_GE(cost.bytes_read, 0);
  EXPECT_GE(cost.bytes_written, 0);
  const auto empty = [](const TensorType& type) { return type.elements() == 0; };
  const bool nothing = std::all_of(node.outputs.begin(), node.outputs.end(), empty);
  if (node.op->is_view || nothing) return;
  EXPECT_GT(cost.bytes_written + cost.bytes_read, 0);
}

TEST_P(ReferenceCase, HasTheExpectedValues) {
  const OpCase& op_case = GetParam();
  const auto outputs = run(op_case, inputs_of(op_case));
  for (size_t i = 0; i < op_case.expected.size(); ++i)
    if (!op_case.expected[i].empty())
      expect_near(outputs[i].values(), op_case.expected[i], 2e-6, label(op_case) + " output " + std::to_string(i));
}

/// In a narrower type the result is that of f32 on the same (rounded) values, rounded.
TEST_P(NarrowCase, ComputesAsInF32) {
  const OpCase& op_case = GetParam();
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    const OpCase low = in_type(op_case, dtype);
    const auto low_inputs = inputs_of(low);
    std::vector<HostTensor> full_inputs;
    for (size_t i = 0; i < low_inputs.size(); ++i)
      full_inputs.push_back(
          HostTensor::of(op_case.inputs[i].type.dtype, low_inputs[i].type.shape, low_inputs[i].values()));
    const auto full = run(op_case, full_inputs), narrow = run(low, low_inputs);
    for (size_t i = 0; i < full.size(); ++i)
      expect_near(narrow[i].values(), full[i].values(), dtype == DType::kBF16 ? 4e-3 : 5e-4,
                  label(op_case) + " in " + std::string(name_of(dtype)) + ", output " + std::to_string(i));
  }
}

// --- gradients against finite differences ---

bool has_gradient(const OpCase& op_case, const NodeSignature& node, size_t output) {
  if (!is_floating(node.outputs[output].dtype)) return false;
  const auto& wanted = op_case.gradient_outputs;
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), static_cast<int>(output)) != wanted.end();
}

/// A tensor for some inputs or outputs.
using MaybeTensors = std::vector<std::optional<HostTensor>>;

/// Weights of the outputs' elements in the scalar that is differentiated; none for outputs without gradient.
MaybeTensors output_weights(const OpCase& op_case, const NodeSignature& node) {
  MaybeTensors weights;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    OpCase drawn{.op = "weights", .name = label(op_case) + std::to_string(i), .inputs = {}};
    drawn.inputs.push_back({node.outputs[i], 0.5, 1.5});
    weights.push_back(has_gradient(op_case, node, i) ? std::optional(inputs_of(drawn)[0]) : std::nullopt);
  }
  return weights;
}

double weighted_sum(const std::vector<HostTensor>& outputs, const MaybeTensors& weights) {
  double sum = 0;
  for (size_t i = 0; i < outputs.size(); ++i)
    for (int64_t e = 0; weights[i] && e < outputs[i].elements(); ++e) sum += outputs[i].get(e) * weights[i]->get(e);
  return sum;
}

/// The op's own gradient rule, run by the reference: one tensor an input, none where the rule gives none.
MaybeTensors gradients_by_rule(const OpCase& op_case, const std::vector<HostTensor>& inputs,
                               const MaybeTensors& weights) {
  Graph graph("gradient");
  GraphBuilder build(graph);
  std::map<std::string, HostTensor> feeds;
  const auto feed = [&](const std::string& name, const HostTensor& tensor) {
    feeds[name] = tensor;
    return build.input(name, tensor.type.dtype, tensor.type.shape);
  };
  std::vector<Tensor> in, dout;
  for (size_t i = 0; i < inputs.size(); ++i) in.push_back(feed("in" + std::to_string(i), inputs[i]));
  const std::vector<Tensor> out = build.ops(op_case.op, in, op_case.attributes);
  for (size_t i = 0; i < out.size(); ++i)
    dout.push_back(weights[i] ? feed("dout" + std::to_string(i), *weights[i]) : Tensor{});
  const NodeSignature node = signature_of(op_case);
  std::vector<bool> needed;
  for (const TensorType& type : node.inputs) needed.push_back(is_floating(type.dtype));
  GradientContext context{build, node, in, out, dout, needed};
  const std::vector<Tensor> gradients = node.op->gradient(context);
  EXPECT_EQ(gradients.size(), inputs.size());
  std::vector<size_t> of_input;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].valid()) continue;
    EXPECT_EQ(gradients[i].shape(), inputs[i].type.shape) << "gradient of input " << i;
    build.output("grad" + std::to_string(i), gradients[i]);
    of_input.push_back(i);
  }
  verify(graph, "gradient");
  const auto results = interpret(graph, reference_backend(), feeds);
  MaybeTensors by_input(inputs.size());
  for (size_t i = 0; i < results.size(); ++i) by_input[of_input[i]] = results[i];
  return by_input;
}

/// d(weighted sum)/d(element), by a five-point stencil whose error is of order h^4.
double finite_difference(const OpCase& op_case, std::vector<HostTensor> inputs, size_t input, int64_t element,
                         const MaybeTensors& weights) {
  const double at = inputs[input].get(element), h = 0.01;
  const auto value = [&](double x) {
    inputs[input].set(element, x);
    return weighted_sum(run(op_case, inputs), weights);
  };
  return (8 * (value(at + h) - value(at - h)) - (value(at + 2 * h) - value(at - 2 * h))) / (12 * h);
}

TEST_P(GradientCase, IsThatOfFiniteDifferences) {
  const OpCase& op_case = GetParam();
  const NodeSignature node = signature_of(op_case);
  const auto inputs = inputs_of(op_case);
  const MaybeTensors weights = output_weights(op_case, node);
  const auto gradients = gradients_by_rule(op_case, inputs, weights);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].type.dtype != DType::kF32 || !op_case.inputs[i].differentiate) continue;
    std::vector<double> wanted, found(static_cast<size_t>(inputs[i].elements()), 0.0);
    if (gradients[i]) found = gradients[i]->values();
    for (int64_t e = 0; e < inputs[i].elements(); ++e)
      wanted.push_back(finite_difference(op_case, inputs, i, e, weights));
    expect_near(found, wanted, op_case.gradient_tolerance, label(op_case) + " gradient of input " + std::to_string(i));
  }
}

// --- sharding rules, by splitting ---

/// Half `part` (0 or 1) of factor `factor` of a tensor whose dimensions are `operand`; all of it when it has none of
/// it.
HostTensor half_of(const HostTensor& tensor, const ShardingRule& rule, const ShardingRule::Operand& operand, int factor,
                   int part) {
  std::vector<std::vector<int64_t>> kept;  // for each dimension, the indices that stay
  std::vector<int64_t> dims;
  for (size_t axis = 0; axis < operand.size(); ++axis) {
    std::vector<int64_t> indices;
    for (int64_t index = 0; index < tensor.type.shape.dims()[axis]; ++index) {
      int64_t rest = index;
      bool stays = true;
      for (auto it = operand[axis].rbegin(); it != operand[axis].rend(); ++it) {
        const int64_t size = rule.factors[static_cast<size_t>(*it)].size, digit = rest % size;
        rest /= size;
        if (*it == factor) stays = digit / (size / 2) == part;
      }
      if (stays) indices.push_back(index);
    }
    dims.push_back(static_cast<int64_t>(indices.size()));
    kept.push_back(std::move(indices));
  }
  HostTensor half({tensor.type.dtype, Shape(dims)});
  const auto strides = tensor.type.shape.strides();
  for (int64_t e = 0; e < half.elements(); ++e) {
    int64_t rest = e, from = 0;
    for (size_t axis = dims.size(); axis-- > 0;) {
      from += kept[axis][static_cast<size_t>(rest % dims[axis])] * strides[axis];
      rest /= dims[axis];
    }
    const size_t size = size_of(tensor.type.dtype);
    std::memcpy(half.data.data() + static_cast<size_t>(e) * size, tensor.data.data() + static_cast<size_t>(from) * size,
                size);
  }
  return half;
}

bool contains(const ShardingRule::Operand& operand, int factor) {
  for (const auto& dim : operand)
    for (int index : dim)
      if (index == factor) return true;
  return false;
}

double combined(ShardingRule::Reduce reduce, double a, double b) {
  switch (reduce) {
    case ShardingRule::Reduce::kSum: return a + b;
    case ShardingRule::Reduce::kMax: return std::max(a, b);
    case ShardingRule::Reduce::kMin: return std::min(a, b);
    case ShardingRule::Reduce::kNone: break;
  }
  ADD_FAILURE() << "a factor that no output has says no way to combine";
  return 0;
}

void expect_exact(const HostTensor& a, const HostTensor& b, const HostTensor& whole, const std::string& what) {
  int64_t sum[kExactIntegers];
  for (int k = 0; k < kExactIntegers; ++k) sum[k] = static_cast<int64_t>(a.get(k) + b.get(k));
  exact_normalize(sum);
  for (int k = 0; k < kExactIntegers; ++k) EXPECT_EQ(sum[k], static_cast<int64_t>(whole.get(k))) << what << ", " << k;
}

/// Tells the node of half `part` of factor `factor` where its positional operand is in the whole.
void place(Attributes& attributes, const OpDef& op, const ShardingRule& rule, int factor, int part) {
  const bool output = op.positional == OpDef::kPositionalOutput;
  const ShardingRule::Operand& operand =
      output ? rule.outputs.at(0) : rule.inputs.at(static_cast<size_t>(op.positional));
  std::vector<int64_t> cuts, position;
  for (size_t dim = 0; dim < operand.size(); ++dim) {
    int64_t blocks = 1;
    for (int index : operand[dim]) {
      if (index == factor) {
        cuts.insert(cuts.end(), {static_cast<int64_t>(dim), 2, 2, blocks, 1});
        position.push_back(part);
      }
      blocks *= rule.factors[static_cast<size_t>(index)].size;
    }
  }
  attributes.set("cuts", cuts).set("position", position);
}

/// Computes the node in two shards along a factor and expects what the whole node gives: the same bits where the factor
/// stands in the output, a combination of partial results where it is reduced.
void expect_splits(const OpCase& op_case, const NodeSignature& node, const ShardingRule& rule, int factor) {
  const ShardingRule::Factor& split = rule.factors[static_cast<size_t>(factor)];
  const auto inputs = inputs_of(op_case);
  const auto whole = run(op_case, inputs);
  std::vector<std::vector<HostTensor>> shards;
  for (int part = 0; part < 2; ++part) {
    OpCase shard = op_case;
    std::vector<HostTensor> halves;
    for (size_t i = 0; i < inputs.size(); ++i) {
      halves.push_back(half_of(inputs[i], rule, rule.inputs[i], factor, part));
      shard.inputs[i].type = halves.back().type;
    }
    if (node.op->localize) {
      std::vector<int64_t> parts(rule.factors.size(), 1);
      parts[static_cast<size_t>(factor)] = 2;
      shard.attributes = node.op->localize(node, parts, rule);
    }
    if (node.op->positional != OpDef::kNotPositional) place(shard.attributes, *node.op, rule, factor, part);
    shards.push_back(run(shard, halves));
  }
  for (size_t o = 0; o < whole.size(); ++o) {
    const std::string what =
        label(op_case) + ", factor " + split.name + " of " + rule.text() + ", output " + std::to_string(o);
    if (contains(rule.outputs[o], factor)) {
      for (int part = 0; part < 2; ++part)
        EXPECT_TRUE(shards[static_cast<size_t>(part)][o] == half_of(whole[o], rule, rule.outputs[o], factor, part))
            << what << ", part " << part;
      continue;
    }
    if (whole[o].type == exact_type()) {  // added integer by integer, then carried: all bits are promised
      expect_exact(shards[0][o], shards[1][o], whole[o], what);
      continue;
    }
    std::vector<double> sum;
    for (int64_t e = 0; e < whole[o].elements(); ++e)
      sum.push_back(combined(split.reduce, shards[0][o].get(e), shards[1][o].get(e)));
    expect_near(sum, whole[o].values(), 1e-5, what);
  }
}

/// Each dimension is the product of its factors.
void expect_extents(const ShardingRule& rule, const std::vector<ShardingRule::Operand>& operands,
                    const std::vector<TensorType>& types) {
  ASSERT_EQ(operands.size(), types.size()) << rule.text();
  for (size_t i = 0; i < types.size(); ++i) {
    std::vector<int64_t> extents;
    for (const auto& dim : operands[i]) {
      int64_t extent = 1;
      for (int factor : dim) extent *= rule.factors[static_cast<size_t>(factor)].size;
      extents.push_back(extent);
    }
    EXPECT_EQ(extents, types[i].shape.dims()) << rule.text();
  }
}

TEST_P(EveryCase, ShardsAsItsRuleSays) {
  const OpCase& op_case = GetParam();
  const NodeSignature node = signature_of(op_case);
  const ShardingRule rule = node.op->sharding(node);
  expect_extents(rule, rule.inputs, node.inputs);
  expect_extents(rule, rule.outputs, node.outputs);
  for (int factor = 0; factor < static_cast<int>(rule.factors.size()); ++factor) {
    if (is_split(op_case, rule.factors[static_cast<size_t>(factor)])) expect_splits(op_case, node, rule, factor);
  }
}

}  // namespace
}  // namespace ramet::tests
