#include "ramet/transform/unit_scale.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/transform/residual.h"

namespace ramet::transform {
namespace {

size_t at(int32_t id) { return static_cast<size_t>(id); }

/// To 12 binary digits: no factor depends on the C library, whose functions the estimates are made with.
double rounded(double factor) {
  int exponent = 0;
  const double mantissa = std::frexp(factor, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 12)), exponent - 12);
}

/// Gradient of one value: true, as far as estimates go.
struct Flow {
  double square = 0, in_sample = 0, across = 0;  ///< the latter weighted with squares

  void add(const Amplitude& spread) {
    const double more = spread.rms * spread.rms;
    square += more, in_sample += more * spread.in_sample, across += more * spread.across;
  }
  bool flows() const { return square > 0; }
  double rms() const { return flows() ? rounded(std::sqrt(square)) : 1; }
  Amplitude spread() const {
    Amplitude result{.rms = std::sqrt(square)};
    if (flows()) result.in_sample = in_sample / square, result.across = across / square;
    return result;
  }
};

class UnitScaler {
 public:
  UnitScaler(const Graph& graph, std::span<const StateTensor> weights, const UnitScaling& how)
      : graph_(graph), how_(how), residuals_(find_residuals(graph)) {
    for (const StateTensor& weight : weights) states_[weight.name] = &weight;
    spreads_.resize(graph.values().size(), Amplitude{.exact = true});
    flows_.resize(graph.values().size());
    weight_of_.resize(graph.values().size());
    is_output_.resize(graph.values().size());
    for (const GraphOutput& output : graph.outputs()) is_output_[at(output.value)] = true;
    scales_.resize(graph.nodes().size());
  }

  UnitScaled run() {
    spread_inputs();
    find_last_products();
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) forward(id);
    const GraphOutput* loss = graph_.find_output("loss");
    if (loss) {
      flows_[at(loss->value)].add({.rms = 1, .in_sample = 1, .across = 1});
      for (NodeId id = static_cast<NodeId>(graph_.nodes().size()) - 1; id >= 0; --id) backward(id);
    }
    for (auto& [name, weight] : result_.weights) weight.gradient = 1 / flows_[at(graph_.find_input(name))].rms();
    build();
    return std::move(result_);
  }

 private:
  /// The factors put around a node.
  struct NodeScales {
    Attributes attributes;
    std::vector<double> before;        ///< forward factor on each input
    std::vector<double> after;         ///< on each output
    std::vector<bool> flows;           ///< whether a gradient reaches the input through the node
    std::vector<double> out_gradient;  ///< rms of each output's gradient; 0: none
  };

  // --- what there is ---

  bool floating(ValueId id) const { return is_floating(graph_.type(id).dtype); }

  void spread_inputs() {
    bool known = false;
    for (const GraphInput& input : graph_.inputs()) {
      const Value& value = graph_.value(input.value);
      if (input.role == InputRole::kData && !known && value.type.shape.rank() > 0) {
        const auto batch = std::find(input.axes.begin(), input.axes.end(), "batch");
        const int64_t dim = batch == input.axes.end() ? 0 : batch - input.axes.begin();
        samples_ = std::max<int64_t>(1, value.type.shape[static_cast<int>(dim)]);
        known = true;
      }
      if (!floating(input.value)) continue;
      Amplitude& spread = spreads_[at(input.value)] = Amplitude{};
      active_.resize(graph_.values().size());
      if (input.role != InputRole::kState) continue;
      active_[at(input.value)] = true;
      weight_of_[at(input.value)] = value.name;
      spread.parameter = true;
      ScaledWeight& weight = result_.weights[value.name];
      const Shape& shape = value.type.shape;
      if (shape.rank() > 0) weight.width = shape.dim(-1);
      if (shape.rank() > 1) weight.kind = ScaledWeight::Kind::kInput;
      const auto state = states_.find(value.name);
      if (state == states_.end()) continue;
      const StateInit& init = state->second->init;
      if (init.kind == StateInit::Kind::kZeros) spread.rms = 0;
      if (init.kind == StateInit::Kind::kConstant) spread.rms = std::fabs(init.a), spread.in_sample = spread.across = 1;
    }
    active_.resize(graph_.values().size());
  }

  /// Products with a weight whose results, as they are, become logits.
  void find_last_products() {
    last_.resize(graph_.nodes().size());
    for (const Node& node : graph_.nodes()) {
      if (!node.op->scaling.logits || node.inputs.empty()) continue;
      for (ValueId value = node.inputs[0];;) {
        const NodeId maker = graph_.value(value).producer;
        if (maker == kNoNode || !floating(value)) break;
        const Node& before = graph_.node(maker);
        if (before.op->scaling.fan_in) {
          last_[at(maker)] = true;
          break;
        }
        if (!before.op->scaling.passes && !before.op->scaling.part) break;
        value = before.inputs[0];
      }
    }
  }

  // --- forward ---

  NodeSignature signature(NodeId id) const {
    NodeSignature signature = graph_.signature(id);
    const ScalingRule& rule = signature.op->scaling;
    if (how_.u_mup && rule.u_mup) signature.attributes = rule.u_mup(signature, how_.attention);
    return signature;
  }

  [[noreturn]] void no_rule(NodeId id, const std::string& which) const {
    throw Error({.what = "unit scaling has no rule for op '" + graph_.node(id).op->name + "'" + which,
                 .where = graph_.text_of(id),
                 .expected = "an op whose table entry says how its results and gradients spread (OpDef::scaling)",
                 .remedy = "Train with train.scaling = \"none\", or give the op a rule"});
  }

  void forward(NodeId id) {
    const Node& node = graph_.node(id);
    NodeScales& scales = scales_[at(id)];
    const NodeSignature signed_node = signature(id);
    scales.attributes = signed_node.attributes;
    scales.before.assign(node.inputs.size(), 1), scales.after.assign(node.outputs.size(), 1);
    std::vector<Amplitude> inputs;
    bool any = false, exact = true, active = false, parameter = true;
    for (ValueId input : node.inputs) {
      inputs.push_back(spreads_[at(input)]);
      active = active || active_[at(input)];
      if (!floating(input)) continue;
      any = true;
      exact = exact && inputs.back().exact;
      parameter = parameter && inputs.back().parameter;
    }
    const bool makes_floats =
        std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return floating(v); });
    if (!makes_floats) return;
    const ScalingRule& rule = node.op->scaling;
    for (ValueId output : node.outputs) active_[at(output)] = active && floating(output) && !node.op->gradient_stops;
    if ((exact && any) || (!any && !rule.forward)) return;  // as they are
    if (!rule.forward) no_rule(id, "");
    const ScalingContext context{signed_node, inputs, samples_};
    if (rule.sum)
      add_terms(id, context);
    else
      normalise(id, context);
    if (any && parameter)
      for (ValueId output : node.outputs)
        if (spreads_[at(output)].parameter) weight_of_[at(output)] = weight_of_[at(node.inputs[0])];
    note_product(id);
  }

  /// The op's results with a factor each that makes them unit.
  void normalise(NodeId id, const ScalingContext& context) {
    const Node& node = graph_.node(id);
    NodeScales& scales = scales_[at(id)];
    const ScalingRule& rule = node.op->scaling;
    const std::vector<Amplitude> outputs = rule.forward(context);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      Amplitude& spread = spreads_[at(node.outputs[i])];
      spread = outputs[i];
      if (spread.exact || is_output_[at(node.outputs[i])] || !(spread.rms > 0)) continue;
      double factor = 1 / spread.rms;
      // u-muP: the model's last product is divided by its fan-in, not by the root.
      if (how_.u_mup && last_[at(id)])
        factor *= how_.logits / std::sqrt(static_cast<double>(rule.fan_in(context.node)));
      scales.after[i] = rounded(factor);
      spread.rms *= scales.after[i];
    }
    // Inputs that are added at the end do not have the op's factor.
    for (int added : rule.added) scales.before[static_cast<size_t>(added)] = 1 / scales.after[0];
  }

  /// A sum with a weight for each term.
  void add_terms(NodeId id, const ScalingContext& context) {
    const Node& node = graph_.node(id);
    NodeScales& scales = scales_[at(id)];
    Amplitude& spread = spreads_[at(node.outputs[0])];
    std::vector<Amplitude> terms(context.inputs.begin(), context.inputs.end());
    const auto spread_of_terms = [&] { return node.op->scaling.forward({context.node, terms, samples_})[0]; };
    if (is_output_[at(node.outputs[0])]) {
      spread = spread_of_terms();
      return;
    }
    if (const auto residual = residuals_.find(id); residual != residuals_.end()) {
      weigh(residual->second, node);
      for (size_t i = 0; i < terms.size(); ++i) terms[i].rms *= scales.before[i];
      spread = spread_of_terms();
      spread.weight = 1;
      return;
    }
    // Exact terms (a mask, a constant) are added unchanged.
    bool exact = false;
    for (Amplitude& term : terms)
      if (term.exact) exact = true, term.rms = 0;
    spread = spread_of_terms();
    for (const Amplitude& term : terms)
      if (term.rms > 0) spread.weight = std::min(spread.weight, term.weight);
    if (!(spread.rms > 0) || exact) return;
    scales.after[0] = rounded(1 / spread.rms);
    spread.rms *= scales.after[0];
  }

  /// Weights of a residual's terms: the paper's running mean and fixed tau, or the rule of u-muP (its appendix on
  /// residuals), where the first term of a sum counts as much as all attentions, or all others, together.
  void weigh(const Residual& residual, const Node& node) {
    const Amplitude& branch = spreads_[at(node.inputs[residual.branch])];
    NodeScales& scales = scales_[at(graph_.value(node.outputs[0]).producer)];
    double& terms = terms_[residual.sum];
    const auto length = static_cast<double>(residuals_length(residual));
    if (residual.index == 0) terms = how_.u_mup ? std::max(1.0, length / 2) : 1;
    double more = 1;
    if (how_.u_mup) {
      const double ratio = how_.attention_residual, other = std::sqrt(2 / (ratio * ratio + 1)) * how_.residual;
      const double own = branch.weight < 1 ? ratio * other : other;
      more = own * own;
    } else {
      // An average over rows says less than a row: it comes back with the weight that it would have had.
      more = branch.weight * branch.weight;
      if (how_.residual_tau) terms = 1, more *= *how_.residual_tau / (1 - *how_.residual_tau);
    }
    scales.before[residual.branch] = rounded(std::sqrt(more / (terms + more)));
    scales.before[1 - residual.branch] = rounded(std::sqrt(terms / (terms + more)));
    terms += more;
  }

  int64_t residuals_length(const Residual& residual) const {
    int64_t length = 0;
    for (const auto& [id, other] : residuals_) length += other.sum == residual.sum;
    return length;
  }

  /// Which weight a product has, and how it is used.
  void note_product(NodeId id) {
    const Node& node = graph_.node(id);
    if (!node.op->scaling.fan_in || weight_of_[at(node.inputs[1])].empty()) return;
    ScaledWeight& weight = result_.weights[weight_of_[at(node.inputs[1])]];
    weight.kind = last_[at(id)] ? ScaledWeight::Kind::kOutput : ScaledWeight::Kind::kHidden;
    weight.fan_in = node.op->scaling.fan_in(graph_.signature(id));
    weight.forward = scales_[at(id)].after[0];
  }

  // --- backward ---

  void backward(NodeId id) {
    const Node& node = graph_.node(id);
    NodeScales& scales = scales_[at(id)];
    scales.flows.assign(node.inputs.size(), false), scales.out_gradient.assign(node.outputs.size(), 0);
    std::vector<Amplitude> gradients, inputs;
    bool flows = false, wanted = false;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Flow& flow = flows_[at(node.outputs[i])];
      Amplitude spread = flow.spread();
      spread.rms *= scales.after[i];
      gradients.push_back(spread);
      if (flow.flows()) scales.out_gradient[i] = flow.rms();
      flows = flows || flow.flows();
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      inputs.push_back(spreads_[at(node.inputs[i])]);
      inputs.back().rms *= scales.before[i];
      wanted = wanted || active_[at(node.inputs[i])];
    }
    if (!flows || !wanted || node.op->gradient_stops) return;
    const NodeSignature signed_node = signature(id);
    if (!node.op->scaling.backward) no_rule(id, "'s gradient");
    const ScalingContext context{signed_node, inputs, samples_};
    const std::vector<Amplitude> results = node.op->scaling.backward(context, gradients);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!active_[at(node.inputs[i])] || !floating(node.inputs[i]) || i >= results.size()) continue;
      scales.flows[i] = true;
      Amplitude of_input = results[i];
      of_input.rms *= scales.before[i];
      flows_[at(node.inputs[i])].add(of_input);
      note_depth(id, node.inputs[i]);
    }
  }

  void note_depth(NodeId id, ValueId input) {
    const std::string& weight = weight_of_[at(input)];
    if (weight.empty()) return;
    for (const auto& [sum, residual] : residuals_)
      if (residual.nodes.count(id)) result_.weights[weight].depth = residuals_length(residual);
  }

  // --- the graph ---

  void build() {
    result_.graph = Graph(graph_.name());
    Graph& graph = result_.graph;
    GraphBuilder build(graph);
    GraphCopier copier(graph_, graph);
    copier.copy_inputs();
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) {
      const Node& node = graph_.node(id);
      const NodeScales& scales = scales_[at(id)];
      InfoScope scope(build, node);
      const auto factored = [&](ValueId value, double forward, double backward) {
        return forward == 1 && backward == 1 ? value : rescale(build.tensor(value), forward, backward).id;
      };
      // The gradients of the op's own outputs are all so many times the true ones.
      double squares = 0, only = 1;
      int count = 0;
      for (size_t i = 0; i < scales.out_gradient.size(); ++i) {
        if (scales.out_gradient[i] == 0) continue;
        const double raw = scales.out_gradient[i] * scales.after[i];
        squares += raw * raw, ++count;
        only = raw;
      }
      const double common = count == 1 ? only : count > 1 ? rounded(std::sqrt(squares / count)) : 1;
      std::vector<ValueId> inputs;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const bool flows = i < scales.flows.size() && scales.flows[i];
        const double backward = flows ? scales.before[i] * common / flows_[at(node.inputs[i])].rms() : 1;
        inputs.push_back(factored(copier[node.inputs[i]], scales.before[i], backward));
      }
      const NodeId copy = graph.add_node(*node.op, inputs, scales.attributes, node);
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        const double gradient = i < scales.out_gradient.size() ? scales.out_gradient[i] : 0;
        const double backward = gradient > 0 && count > 1 ? gradient * scales.after[i] / common : 1;
        const ValueId value = factored(graph.node(copy).outputs[i], scales.after[i], backward);
        copier.map(node.outputs[i], value);
        if (const std::string& name = graph_.value(node.outputs[i]).name; !name.empty())
          graph.set_value_name(value, name);
      }
    }
    copier.copy_outputs();
  }

  const Graph& graph_;
  const UnitScaling how_;
  const std::map<NodeId, Residual> residuals_;
  std::map<std::string, const StateTensor*> states_;
  int64_t samples_ = 1;
  std::vector<Amplitude> spreads_;        // by value
  std::vector<Flow> flows_;               // by value
  std::vector<std::string> weight_of_;    // by value: the weight that it is, or is a part of
  std::vector<bool> active_, is_output_;  // by value: depends on a weight; leaves the graph
  std::vector<bool> last_;                // by node: makes logits
  std::vector<NodeScales> scales_;        // by node
  std::map<int, double> terms_;           // by sum
  UnitScaled result_;
};

}  // namespace

UnitScaled unit_scale(const Graph& forward, std::span<const StateTensor> weights, const UnitScaling& how) {
  return UnitScaler(forward, weights, how).run();
}

double deviation_of(const StateInit& init) {
  switch (init.kind) {
    case StateInit::Kind::kZeros: return 0;
    case StateInit::Kind::kConstant: return 0;
    case StateInit::Kind::kNormal: return init.b;
    // Of a normal cut at two deviations.
    case StateInit::Kind::kTruncatedNormal: return init.b * 0.87962566103423978;
    case StateInit::Kind::kUniform: return (init.b - init.a) / std::sqrt(12.0);
    // Given values stay as they are.
    case StateInit::Kind::kIota:
    case StateInit::Kind::kFunction:
    case StateInit::Kind::kData: return 0;
  }
  return 0;
}

std::vector<StateTensor> unit_weights(std::vector<StateTensor> weights) {
  for (StateTensor& weight : weights) {
    const double deviation = deviation_of(weight.init);
    if (!(deviation > 0)) continue;
    if (weight.init.kind == StateInit::Kind::kUniform)
      weight.init.a = -std::sqrt(3.0), weight.init.b = std::sqrt(3.0);
    else
      weight.init.a = 0, weight.init.b /= deviation;
  }
  return weights;
}

}  // namespace ramet::transform
