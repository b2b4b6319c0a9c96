#include "ramet/transform/infer_axes.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace ramet::transform {
namespace {

/// A dimension of a value, seen as `blocks` blocks, each of which is cut alike.
struct CutDim {
  ValueId value = kNoValue;
  int dim = 0;
  int64_t blocks = 1;
  auto operator<=>(const CutDim&) const = default;
};

/// Dimensions that are cut together.
struct Chain {
  std::map<std::string, std::map<int, int64_t>> states{};  ///< dimensions, and their blocks
  std::map<NodeId, int> nodes{};                           ///< the factor of each node that is cut
  int64_t elements = 0;                                    ///< of the states
  int64_t units = 0;                                       ///< into how many parts all dimensions fall
  int matrices = 0;                                        ///< states of two dimensions or more
  bool filters = false;                                    ///< some state has more than two
  bool apart = true;                                       ///< no op needs the dimension whole
  bool of_data = false;                                    ///< some dimension is one of the data
  bool ends = false;                                       ///< a product with a weight sums over the dimension
  bool of_words = false;                                   ///< rows of a table that data chooses, or scores of a loss
  bool divided = false;                                    ///< units are fewer than the extent of a state's dimension
};

bool has_factor(const ShardingRule::Operand& operand, int factor) {
  return std::any_of(operand.begin(), operand.end(), [&](const ShardingRule::Dim& dim) {
    return std::find(dim.begin(), dim.end(), factor) != dim.end();
  });
}

/// The factor that cuts of a dimension fall on, and in how many blocks it is cut.
std::optional<std::pair<int, int64_t>> factor_of(const ShardingRule& rule, const ShardingRule::Dim& dim,
                                                 int64_t blocks) {
  int64_t before = 1;
  for (const int factor : dim) {
    const int64_t size = rule.factors[static_cast<size_t>(factor)].size;
    if (blocks % before == 0 && size % (blocks / before) == 0 && size > blocks / before)
      return std::pair{factor, blocks / before};
    before *= size;
  }
  return std::nullopt;
}

/// Whether a node can sum over a factor in chunks (transform/chunk.h), which shards may share.
bool sums_in_chunks(const NodeSignature& node, const ShardingRule::Factor& factor) {
  const auto& attributes = node.op->attributes;
  if (std::none_of(attributes.begin(), attributes.end(), [](const auto& each) { return each.name == "chunks"; }))
    return false;
  return !node.op->chunked_extent || node.op->chunked_extent(node) == factor.size;
}

class AxisSearch {
 public:
  explicit AxisSearch(const Graph& graph) : graph_(graph), uses_(graph.uses()), depends_(depends_on_data(graph)) {
    for (const GraphInput& input : graph.inputs())
      if (input.role == InputRole::kState)
        states_[input.value] = graph.value(input.value).name;
      else
        data_.insert(input.value);
    for (const GraphOutput& output : graph.outputs())
      if (output.role == OutputRole::kState) becomes_[output.value].push_back(output.name);
  }

  /// All chains through states of two dimensions or more.
  std::vector<Chain> run() {
    std::vector<Chain> chains;
    for (const auto& [value, name] : states_) {
      const Shape& shape = graph_.type(value).shape;
      for (int dim = 0; shape.rank() >= 2 && dim < shape.rank(); ++dim)
        if (shape[dim] > 1 && !chain_of_.count({value, dim, 1})) {
          chains.push_back(follow({value, dim, 1}));
          ++count_;
        }
    }
    return chains;
  }

 private:
  static std::vector<bool> depends_on_data(const Graph& graph) {
    std::vector<bool> depends(graph.values().size(), false);
    for (const GraphInput& input : graph.inputs())
      if (input.role == InputRole::kData) depends[static_cast<size_t>(input.value)] = true;
    for (const Node& node : graph.nodes())
      if (std::any_of(node.inputs.begin(), node.inputs.end(),
                      [&](ValueId input) { return depends[static_cast<size_t>(input)]; }))
        for (const ValueId output : node.outputs) depends[static_cast<size_t>(output)] = true;
    return depends;
  }

  Chain follow(const CutDim& seed) {
    Chain chain;
    std::vector<CutDim> left = {seed};
    chain_of_[seed] = count_;
    while (!left.empty()) {
      const CutDim at = left.back();
      left.pop_back();
      note_value(chain, at);
      std::vector<NodeId> nodes = uses_[static_cast<size_t>(at.value)];
      if (const NodeId maker = graph_.value(at.value).producer; maker != kNoNode) nodes.push_back(maker);
      for (const NodeId node : nodes)
        for (const CutDim& next : through(chain, node, at)) {
          const auto [known, added] = chain_of_.emplace(next, count_);
          if (added) left.push_back(next);
          // What two chains reach in different ways is cut by none.
          if (known->second != count_) chain.apart = false;
        }
    }
    return chain;
  }

  void note_value(Chain& chain, const CutDim& at) {
    chain.of_data = chain.of_data || data_.count(at.value);
    const auto state = states_.find(at.value);
    if (state != states_.end()) note_state(chain, state->second, at);
    for (const std::string& name : becomes_[at.value]) note_state(chain, name, at);
  }
  void note_state(Chain& chain, const std::string& name, const CutDim& at) {
    const TensorType& type = graph_.type(at.value);
    if (!chain.states.count(name)) {
      chain.elements += type.elements();
      chain.matrices += type.shape.rank() >= 2;
      chain.filters = chain.filters || type.shape.rank() > 2;
    }
    // One state that is met in two ways cannot be cut in both.
    const auto& [dim, added] = chain.states[name].emplace(at.dim, at.blocks);
    if ((!added && dim->second != at.blocks) || chain.states[name].size() > 1) chain.apart = false;
    limit(chain, type.shape[at.dim] / at.blocks);
  }
  static void limit(Chain& chain, int64_t units) {
    if (chain.units != 0 && chain.units != units) chain.divided = true;
    chain.units = std::gcd(chain.units, units);
  }

  const ShardingRule& rule_of(NodeId id) {
    auto found = rules_.find(id);
    if (found == rules_.end()) found = rules_.emplace(id, graph_.node(id).op->sharding(graph_.signature(id))).first;
    return found->second;
  }

  /// The dimensions that a node cuts together with one of its operands'.
  std::vector<CutDim> through(Chain& chain, NodeId id, const CutDim& at) {
    const Node& node = graph_.node(id);
    const ShardingRule& rule = rule_of(id);
    std::vector<CutDim> next;
    const auto enter = [&](const std::vector<ValueId>& values, const std::vector<ShardingRule::Operand>& operands) {
      for (size_t i = 0; i < values.size() && i < operands.size(); ++i) {
        if (values[i] != at.value) continue;
        const ShardingRule::Dim& dim = operands[i][static_cast<size_t>(at.dim)];
        if (const auto found = factor_of(rule, dim, at.blocks))
          cut(chain, id, found->first, found->second, next);
        else
          chain.apart = false;
      }
    };
    enter(node.inputs, rule.inputs);
    enter(node.outputs, rule.outputs);
    return next;
  }

  /// Notes that the node's factor is cut, and gives all dimensions that have the factor.
  void cut(Chain& chain, NodeId id, int index, int64_t blocks, std::vector<CutDim>& next) {
    const Node& node = graph_.node(id);
    const ShardingRule& rule = rule_of(id);
    const ShardingRule::Factor& factor = rule.factors[static_cast<size_t>(index)];
    const auto [known, added] = chain.nodes.emplace(id, index);
    if (!added && known->second != index) chain.apart = false;
    const bool summed = std::any_of(rule.outputs.begin(), rule.outputs.end(),
                                    [&](const auto& output) { return !has_factor(output, index); });
    if (summed)
      note_sum(chain, id, index, blocks);
    else if (factor.whole)
      chain.apart = false;
    limit(chain, factor.size / blocks);
    const auto collect = [&](const std::vector<ValueId>& values, const std::vector<ShardingRule::Operand>& operands) {
      for (size_t i = 0; i < values.size() && i < operands.size(); ++i)
        for (size_t d = 0; d < operands[i].size(); ++d) {
          int64_t before = 1;
          for (const int each : operands[i][d]) {
            if (each == index) next.push_back({values[i], static_cast<int>(d), before * blocks});
            before *= rule.factors[static_cast<size_t>(each)].size;
          }
        }
    };
    collect(node.inputs, rule.inputs);
    collect(node.outputs, rule.outputs);
  }

  /// A sum over the dimension: a product with a weight, rows of a table, or a loss over classes.
  void note_sum(Chain& chain, NodeId id, int index, int64_t blocks) {
    const Node& node = graph_.node(id);
    const ShardingRule& rule = rule_of(id);
    const ShardingRule::Factor& factor = rule.factors[static_cast<size_t>(index)];
    if (factor.reduce != ShardingRule::Reduce::kSum || blocks != 1 ||
        (factor.whole && !sums_in_chunks(graph_.signature(id), factor))) {
      chain.apart = false;
      return;
    }
    int operands = 0;
    bool of_weight = false;
    for (size_t i = 0; i < rule.inputs.size(); ++i) {
      if (!has_factor(rule.inputs[i], index)) continue;
      ++operands;
      of_weight = of_weight || !depends_[static_cast<size_t>(node.inputs[i])];
    }
    if (operands > 1) {
      chain.ends = chain.ends || of_weight;
    } else if (node.op->picks_rows && of_weight) {
      chain.of_words = chain.of_words || depends_[static_cast<size_t>(node.inputs[1])];
    } else if (!of_weight) {
      chain.of_words = true;
    }
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> uses_;
  std::vector<bool> depends_;  // of each value: whether data decides it
  std::map<ValueId, std::string> states_{};
  std::set<ValueId> data_{};
  std::map<ValueId, std::vector<std::string>> becomes_{};  // states that a value is the next value of
  std::map<NodeId, ShardingRule> rules_{};
  std::map<CutDim, int> chain_of_{};
  int count_ = 0;
};

/// Whether a chain of words is a table: more rows than columns.
bool is_table(const Chain& chain, const Graph& graph) {
  return std::any_of(chain.states.begin(), chain.states.end(), [&](const auto& state) {
    const ValueId value = graph.find_input(state.first);
    if (value == kNoValue) return false;
    const TensorType& type = graph.type(value);
    const int64_t rows = type.shape[state.second.begin()->first];
    return type.shape.rank() == 2 && rows * rows >= type.elements();
  });
}

bool is_taken_apart(const Chain& chain, const Graph& graph) {
  if (!chain.apart || chain.of_data || chain.units < 2) return false;
  return (chain.ends && chain.matrices >= 2) || (chain.of_words && is_table(chain, graph));
}

bool joins_products(const Chain& chain) { return !chain.of_data && chain.units >= 2 && chain.matrices >= 2; }

bool contradict(const Chain& a, const Chain& b) {
  const Chain &small = a.nodes.size() < b.nodes.size() ? a : b, &large = &small == &a ? b : a;
  for (const auto& [node, factor] : small.nodes)
    if (large.nodes.count(node)) return true;
  for (const auto& [state, dims] : small.states)
    if (large.states.count(state)) return true;
  return false;
}

/// Chains of which no two contradict each other, those first whose weights are many and whose contradictions are few
/// (the greedy order GWMIN of Sakai, Togasaki and Yamazaki, Discrete Applied Mathematics 126, 2003).
std::vector<const Chain*> choose(std::vector<const Chain*> chains) {
  std::map<const Chain*, std::vector<const Chain*>> against;
  for (size_t i = 0; i < chains.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (contradict(*chains[i], *chains[j])) {
        against[chains[i]].push_back(chains[j]);
        against[chains[j]].push_back(chains[i]);
      }
  std::vector<const Chain*> chosen;
  while (!chains.empty()) {
    const auto worth = [&](const Chain* chain) {
      const auto left = std::count_if(against[chain].begin(), against[chain].end(), [&](const Chain* other) {
        return std::find(chains.begin(), chains.end(), other) != chains.end();
      });
      return static_cast<double>(chain->elements) / static_cast<double>(left + 1);
    };
    const Chain* best = *std::max_element(chains.begin(), chains.end(),
                                          [&](const Chain* a, const Chain* b) { return worth(a) < worth(b); });
    chosen.push_back(best);
    std::erase_if(chains, [&](const Chain* chain) {
      return chain == best || std::count(against[best].begin(), against[best].end(), chain) > 0;
    });
  }
  return chosen;
}

std::string name_of(const Chain& chain) {
  if (chain.filters) return "channels";
  if (!chain.ends) return "vocab";
  return chain.divided ? "heads" : "mlp";
}

void write(InferredAxes& result, const Graph& graph, const Chain& chain, const std::string& name) {
  for (const auto& [state, dims] : chain.states) {
    const auto [dim, blocks] = *dims.begin();
    std::vector<LogicalAxis>& axes = result.states[state];
    if (axes.empty()) {
      const ValueId input = graph.find_input(state);
      const ValueId value = input != kNoValue ? input : graph.find_output(state)->value;
      axes.resize(static_cast<size_t>(graph.type(value).shape.rank()));
    }
    LogicalAxis& axis = axes[static_cast<size_t>(dim)];
    if (axis.name.empty()) axis = {name, blocks};
  }
  if (chain.divided && name != "embed") result.units[name] = std::gcd(result.units[name], chain.units);
  if (!default_tensor_axes().count(name)) result.shards[name] = 1;
}

}  // namespace

InferredAxes infer_axes(const Graph& forward) {
  const std::vector<Chain> chains = AxisSearch(forward).run();
  std::vector<const Chain*> apart, others;
  for (const Chain& chain : chains)
    if (is_taken_apart(chain, forward)) apart.push_back(&chain);
  InferredAxes result;
  const std::vector<const Chain*> first = choose(std::move(apart));
  for (const Chain* chain : first) write(result, forward, *chain, name_of(*chain));
  for (const Chain& chain : chains)
    if (joins_products(chain) && std::find(first.begin(), first.end(), &chain) == first.end()) others.push_back(&chain);
  for (const Chain* chain : choose(std::move(others))) write(result, forward, *chain, "embed");
  return result;
}

}  // namespace ramet::transform
