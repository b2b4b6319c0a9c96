#include "ramet/front/model_support.h"

#include <algorithm>
#include <vector>

#include "ramet/transform/infer_axes.h"

namespace ramet::front {

std::set<std::string> states_of_loss(const Graph& forward) {
  std::vector<bool> reached(forward.values().size(), false);
  reached[static_cast<size_t>(forward.find_output("loss")->value)] = true;
  for (auto id = static_cast<NodeId>(forward.nodes().size()) - 1; id >= 0; --id) {
    const Node& node = forward.node(id);
    const bool any = std::any_of(node.outputs.begin(), node.outputs.end(),
                                 [&](ValueId value) { return reached[static_cast<size_t>(value)]; });
    if (!any || node.op->gradient_stops) continue;
    for (const ValueId input : node.inputs)
      if (is_floating(forward.type(input).dtype)) reached[static_cast<size_t>(input)] = true;
  }
  std::set<std::string> names;
  for (const GraphInput& input : forward.inputs())
    if (input.role == InputRole::kState && reached[static_cast<size_t>(input.value)])
      names.insert(forward.value(input.value).name);
  return names;
}

void give_axes(model::Model& model) {
  const InferredAxes inferred = infer_axes(model.forward);
  for (auto* states : {&model.weights, &model.states})
    for (StateTensor& state : *states)
      if (const auto found = inferred.states.find(state.name); found != inferred.states.end())
        state.axes = found->second;
  model.axes.insert(inferred.shards.begin(), inferred.shards.end());
  model.units_of_axes = inferred.units;
}

bool matches_name(const std::string& pattern, const std::string& name) {
  size_t p = 0, n = 0, star = std::string::npos, mark = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*')
      star = p++, mark = n;
    else if (p < pattern.size() && pattern[p] == name[n])
      ++p, ++n;
    else if (star != std::string::npos)
      p = star + 1, n = ++mark;
    else
      return false;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace ramet::front
