#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_loss.h"
#include "ramet/transform/differentiate.h"

// Losses and element-wise functions against PyTorch, values and gradients, as bench/peers/torch_functions.py recorded
// them: by the reference kernels and by those of the CPU.

namespace ramet::tests {
namespace {

using Json = nlohmann::json;
using Build = std::function<Tensor(const std::vector<Tensor>&, const Json& options)>;

LossReduction reduction_of(const Json& options) {
  const std::string name = options.value("reduction", "mean");
  return name == "none" ? LossReduction::kNone : name == "sum" ? LossReduction::kSum : LossReduction::kMean;
}
Tensor input_or_none(const std::vector<Tensor>& in, size_t index) { return index < in.size() ? in[index] : Tensor{}; }

double number_of(const Json& value) {
  return value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
}

Build unary(Tensor (*function)(Tensor)) {
  return [function](const std::vector<Tensor>& in, const Json&) { return function(in[0]); };
}
Build unary(const char* op) {
  return [op](const std::vector<Tensor>& in, const Json&) { return map_unary(op, in[0]); };
}
Build binary(Tensor (*function)(Tensor, Tensor)) {
  return [function](const std::vector<Tensor>& in, const Json&) { return function(in[0], in[1]); };
}

Build loss(Tensor (*function)(Tensor, Tensor, LossReduction)) {
  return [function](const std::vector<Tensor>& in, const Json& o) { return function(in[0], in[1], reduction_of(o)); };
}

#define BUILD(expression) [](const std::vector<Tensor>& in, [[maybe_unused]] const Json& o) { return expression; }

const std::map<std::string, Build>& losses() {
  static const std::map<std::string, Build> table{
      {"cross_entropy", BUILD(cross_entropy_loss(in[0], in[1],
                                                 {.weight = input_or_none(in, 2),
                                                  .label_smoothing = o["smoothing"],
                                                  .ignore_index = o["ignore"],
                                                  .reduction = reduction_of(o)}))},
      {"nll", BUILD(nll_loss(in[0], in[1], {.weight = input_or_none(in, 2), .reduction = reduction_of(o)}))},
      {"multi_margin",
       BUILD(multi_margin_loss(in[0], in[1], o["p"], o["margin"], input_or_none(in, 2), reduction_of(o)))},
      {"multilabel_margin", loss(multilabel_margin_loss)},
      {"multilabel_soft_margin", BUILD(multilabel_soft_margin_loss(in[0], in[1], {}, reduction_of(o)))},
      {"mse", loss(mse_loss)},
      {"l1", loss(l1_loss)},
      {"smooth_l1", BUILD(smooth_l1_loss(in[0], in[1], o["beta"], reduction_of(o)))},
      {"huber", BUILD(huber_loss(in[0], in[1], o["delta"], reduction_of(o)))},
      {"bce", BUILD(binary_cross_entropy(in[0], in[1], input_or_none(in, 2), reduction_of(o)))},
      {"bce_logits", BUILD(binary_cross_entropy_with_logits(in[0], in[1], input_or_none(in, 2), input_or_none(in, 3),
                                                            reduction_of(o)))},
      {"kl", BUILD(kl_divergence(in[0], in[1], o["log_target"], reduction_of(o), o["reduction"] == "batchmean"))},
      {"gaussian_nll", BUILD(gaussian_nll_loss(in[0], in[1], in[2], o["full"], o["epsilon"], reduction_of(o)))},
      {"poisson_nll", BUILD(poisson_nll_loss(in[0], in[1], o["log_input"], o["full"], 1e-8, reduction_of(o)))},
      {"margin_ranking", BUILD(margin_ranking_loss(in[0], in[1], in[2], o["margin"], reduction_of(o)))},
      {"hinge_embedding", BUILD(hinge_embedding_loss(in[0], in[1], o["margin"], reduction_of(o)))},
      {"soft_margin", loss(soft_margin_loss)},
      {"cosine_embedding", BUILD(cosine_embedding_loss(in[0], in[1], in[2], o["margin"], reduction_of(o)))},
      {"triplet_margin", BUILD(triplet_margin_loss(
                             in[0], in[1], in[2],
                             {.margin = o["margin"], .p = o["p"], .swap = o["swap"], .reduction = reduction_of(o)}))},
      {"cosine_similarity", BUILD(cosine_similarity(in[0], in[1], o["axis"]))},
      {"pairwise_distance", BUILD(pairwise_distance(in[0], in[1], number_of(o["p"])))},
      {"ctc", BUILD(ctc_loss(log_softmax(in[0]), in[1], in[2], in[3],
                             {.blank = o["blank"], .zero_infinity = true, .reduction = reduction_of(o)}))}};
  return table;
}

const std::map<std::string, Build>& functions() {
  static const std::map<std::string, Build> table{{"silu", unary(silu)},
                                                  {"celu", BUILD(celu(in[0], 0.7))},
                                                  {"selu", unary(selu)},
                                                  {"relu6", unary(relu6)},
                                                  {"hardtanh", BUILD(hardtanh(in[0]))},
                                                  {"hardsigmoid", BUILD(hardsigmoid(in[0]))},
                                                  {"hardswish", unary(hardswish)},
                                                  {"mish", unary(mish)},
                                                  {"softsign", unary(softsign)},
                                                  {"softplus", BUILD(softplus(in[0], 2, 3))},
                                                  {"log_sigmoid", unary(log_sigmoid)},
                                                  {"tanhshrink", unary(tanhshrink)},
                                                  {"softshrink", BUILD(softshrink(in[0], 0.7))},
                                                  {"hardshrink", BUILD(hardshrink(in[0], 0.7))},
                                                  {"threshold", BUILD(thresholded(in[0], 0.5, -3))},
                                                  {"glu", BUILD(glu(in[0], 1))},
                                                  {"elu", BUILD(elu(in[0], 1.3))},
                                                  {"leaky_relu", BUILD(leaky_relu(in[0], 0.2))},
                                                  {"frac", unary(frac)},
                                                  {"trunc", unary(trunc)},
                                                  {"quick_gelu", unary(quick_gelu)},
                                                  {"clamp_low", BUILD(clamp(in[0], -0.5, std::nullopt))},
                                                  {"clamp", BUILD(clamp(in[0], -0.5, 1.5))},
                                                  {"remainder", binary(remainder)},
                                                  {"fmod", binary(ops::fmod)},
                                                  {"floor_divide", binary(floor_divide)},
                                                  {"trunc_divide", binary(trunc_divide)},
                                                  {"atan2", binary(ops::atan2)},
                                                  {"hypot", binary(ops::hypot)},
                                                  {"copysign", binary(ops::copysign)},
                                                  {"logaddexp", binary(logaddexp)},
                                                  {"addcmul", BUILD(addcmul(in[0], in[1], in[2], 0.5))},
                                                  {"addcdiv", BUILD(addcdiv(in[0], in[1], in[2], 0.5))},
                                                  {"lerp", BUILD(ops::lerp(in[0], in[1], in[2]))},
                                                  {"xlogy", binary(xlogy)},
                                                  {"prelu", binary(prelu)},
                                                  {"swiglu", binary(swiglu)},
                                                  {"bitwise_and", binary(bitwise_and)},
                                                  {"bitwise_or", binary(bitwise_or)},
                                                  {"bitwise_xor", binary(bitwise_xor)},
                                                  {"shift_left", binary(shift_left)},
                                                  {"shift_right", binary(shift_right)},
                                                  {"nan_to_num", BUILD(nan_to_num(in[0], 2, 100, -50))},
                                                  {"is_nan", unary(is_nan)},
                                                  {"is_inf", BUILD(is_inf(in[0]))},
                                                  {"is_finite", unary(is_finite)}};
  return table;
}
#undef BUILD

Build build_of(const std::string& name) {
  for (const auto* table : {&losses(), &functions()})
    if (const auto found = table->find(name); found != table->end()) return found->second;
  return [name](const std::vector<Tensor>& in, const Json&) { return map_unary(name, in[0]); };  // an op's own name
}

std::vector<double> numbers(const Json& list) {
  std::vector<double> values;
  for (const Json& each : list)
    values.push_back(each.is_string() ? std::stod(each.get<std::string>()) : each.get<double>());
  return values;
}

const Json& recorded() {
  static const Json cases = Json::parse(read_file(RAMET_SOURCE_DIR "/tests/samples/functions.json")).at("cases");
  return cases;
}

void expect_near(const HostTensor& found, const std::vector<double>& wanted, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(found.elements(), static_cast<int64_t>(wanted.size())) << what;
  double most = 1;
  for (const double value : wanted)
    if (std::isfinite(value)) most = std::max(most, std::fabs(value));
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double a = found.get(static_cast<int64_t>(i)), b = wanted[i];
    if (std::isnan(b) ? std::isnan(a) : a == b) continue;
    ASSERT_NEAR(a, b, tolerance * most) << what << ", element " << i;
  }
}

/// The graph of a case: the function's value, and the scalar whose gradient was recorded.
Graph graph_of(const Json& item, std::map<std::string, HostTensor>& feeds) {
  Graph graph("case");
  GraphBuilder build(graph);
  std::vector<Tensor> inputs;
  for (const Json& input : item["inputs"]) {
    const std::string name = "in" + std::to_string(inputs.size());
    feeds[name] = HostTensor::of(dtype_from_name(input["type"].get<std::string>()),
                                 Shape(input["shape"].get<std::vector<int64_t>>()), numbers(input["values"]));
    inputs.push_back(build.input(name, feeds[name].type.dtype, feeds[name].type.shape));
  }
  const Tensor value = build_of(item["function"])(inputs, item["options"]);
  EXPECT_EQ(value.shape(), Shape(item["shape"].get<std::vector<int64_t>>())) << item["function"];
  build.output("value", value);
  if (!item["gradients"].empty()) {
    HostTensor weights(value.type());
    for (int64_t i = 0; i < weights.elements(); ++i) weights.set(i, 1 + static_cast<double>(i % 3) / 2);
    build.output("loss", reduce_sum(multiply(value, constant(build, TensorData(std::move(weights))))));
  }
  return graph;
}

class Functions : public testing::TestWithParam<size_t> {};

TEST_P(Functions, AreThoseOfPyTorch) {
  const Json& item = recorded()[GetParam()];
  std::map<std::string, HostTensor> feeds;
  const Graph graph = graph_of(item, feeds);
  const std::string what = item["function"].get<std::string>() + " " + item["options"].dump();
  std::vector<std::string> wrt;
  for (const auto& [input, gradient] : item["gradients"].items()) wrt.push_back("in" + input);
  const Graph both = wrt.empty() ? graph : differentiate(graph, "loss", wrt);
  for (const Backend* backend : {&reference_backend(), &cpu_backend()}) {
    const auto results = interpret(both, *backend, feeds);
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string& name = both.outputs()[i].name;
      const bool fast = backend != &reference_backend();
      if (name == "value") {
        expect_near(results[i], numbers(item["value"]), fast ? 1e-5 : 2e-6, what);
      } else if (name != "loss") {
        const std::string input = name.substr(std::string("grad.in").size());
        expect_near(results[i], numbers(item["gradients"][input]), fast ? 3e-5 : 5e-6, what + ", gradient " + input);
      }
    }
  }
}

std::vector<size_t> every_case() {
  std::vector<size_t> all(recorded().size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}
INSTANTIATE_TEST_SUITE_P(Peers, Functions, testing::ValuesIn(every_case()), [](const auto& info) {
  const std::string name = recorded()[info.param]["function"];
  return name + "_" + std::to_string(info.param);
});

TEST(FunctionsTable, EveryLossAndFunctionIsRecorded) {
  std::set<std::string> known;
  for (const Json& item : recorded()) known.insert(item["function"]);
  for (const auto* table : {&losses(), &functions()})
    for (const auto& [name, build] : *table) EXPECT_TRUE(known.contains(name)) << name;
}

}  // namespace
}  // namespace ramet::tests
