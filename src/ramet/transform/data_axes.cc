#include "ramet/transform/data_axes.h"

#include <algorithm>

namespace ramet::transform {
namespace {

/// The axis that a dimension, or a part of one, runs along.
struct AxisRun {
  enum class Along : int8_t { kUnknown, kAxis, kOther } along = Along::kUnknown;
  int64_t extent = 0;
};
using Runs = std::vector<AxisRun>;  // of one dimension, major first; several where it joins several

bool is_known(const Runs& runs) {
  return std::any_of(runs.begin(), runs.end(),
                     [](const AxisRun& run) { return run.along != AxisRun::Along::kUnknown; });
}

/// Notes what one dimension of an input says of its factors.
void note(const ShardingRule& rule, const ShardingRule::Dim& dim, const Runs& runs, std::vector<Runs>& factors) {
  const auto learn = [&](int factor, const Runs& found) {
    Runs& known = factors[static_cast<size_t>(factor)];
    if (!is_known(known) && is_known(found)) known = found;
  };
  if (dim.size() == 1) return learn(dim[0], runs);
  if (dim.size() != runs.size()) return;
  for (size_t i = 0; i < dim.size(); ++i)
    if (rule.factors[static_cast<size_t>(dim[i])].size != runs[i].extent) return;
  for (size_t i = 0; i < dim.size(); ++i) learn(dim[i], {runs[i]});
}

Runs runs_of(const ShardingRule& rule, const ShardingRule::Dim& dim, const std::vector<Runs>& factors) {
  Runs runs;
  for (const int factor : dim) {
    const Runs& known = factors[static_cast<size_t>(factor)];
    if (known.empty())
      runs.push_back({AxisRun::Along::kUnknown, rule.factors[static_cast<size_t>(factor)].size});
    else
      runs.insert(runs.end(), known.begin(), known.end());
  }
  return runs;
}

}  // namespace

bool declares_axes(const Graph& graph) {
  return std::any_of(graph.inputs().begin(), graph.inputs().end(),
                     [](const GraphInput& input) { return !input.axes.empty(); });
}

std::vector<int> dims_along(const Graph& graph, std::string_view axis) {
  std::vector<std::vector<Runs>> dims(graph.values().size());  // of each value's dimensions
  for (const GraphInput& input : graph.inputs())
    for (size_t d = 0; d < input.axes.size(); ++d)
      dims[static_cast<size_t>(input.value)].push_back(
          {{input.axes[d] == axis ? AxisRun::Along::kAxis : AxisRun::Along::kOther,
            graph.type(input.value).shape[static_cast<int>(d)]}});
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    if (std::all_of(node.inputs.begin(), node.inputs.end(),
                    [&](ValueId input) { return dims[static_cast<size_t>(input)].empty(); }))
      continue;
    const ShardingRule rule = node.op->sharding(graph.signature(id));
    std::vector<Runs> factors(rule.factors.size());
    for (size_t i = 0; i < rule.inputs.size() && i < node.inputs.size(); ++i) {
      const auto& known = dims[static_cast<size_t>(node.inputs[i])];
      for (size_t d = 0; d < rule.inputs[i].size() && d < known.size(); ++d)
        note(rule, rule.inputs[i][d], known[d], factors);
    }
    if (std::none_of(factors.begin(), factors.end(), is_known)) continue;
    for (size_t o = 0; o < rule.outputs.size() && o < node.outputs.size(); ++o)
      for (const ShardingRule::Dim& dim : rule.outputs[o])
        dims[static_cast<size_t>(node.outputs[o])].push_back(runs_of(rule, dim, factors));
  }
  std::vector<int> result(dims.size(), -1);
  for (size_t v = 0; v < dims.size(); ++v)
    for (size_t d = 0; d < dims[v].size() && result[v] < 0; ++d)
      if (dims[v][d].size() == 1 && dims[v][d][0].along == AxisRun::Along::kAxis) result[v] = static_cast<int>(d);
  return result;
}

}  // namespace ramet::transform
