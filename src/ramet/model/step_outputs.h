#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ramet/ir/graph.h"

namespace ramet::model {

/// Begins the names of outputs of a model's forward graph, of any shape, that a training step gives to its caller. The
/// model is the same model without them (Model::identity).
inline constexpr std::string_view kStepOutput = "step:";

inline bool is_step_output(const GraphOutput& output) {
  return output.role == OutputRole::kResult && output.name.starts_with(kStepOutput);
}

/// The names of these outputs, as the graph has them.
inline std::vector<std::string> step_outputs(const Graph& forward) {
  std::vector<std::string> names;
  for (const GraphOutput& output : forward.outputs())
    if (is_step_output(output)) names.push_back(output.name);
  return names;
}

}  // namespace ramet::model
