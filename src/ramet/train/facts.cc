#include "ramet/train/facts.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "ramet/base/thread_team.h"
#include "ramet/layout/pipeline_parts.h"
#include "ramet/transform/cluster_sums.h"
#include "ramet/transform/layers.h"
#include "ramet/transport/process.h"

namespace ramet::train {
namespace {

/// The extent of a logical axis, with padding: that of the weights that have it, when all agree; 0 otherwise. A
/// dimension of several blocks counts by its blocks.
int64_t extent_of(const Model& model, const std::string& axis) {
  int64_t extent = 0;
  for (const StateTensor& weight : model.weights)
    for (size_t dim = 0; dim < weight.axes.size(); ++dim) {
      if (weight.axes[dim].name != axis) continue;
      const int64_t found = weight.type.shape[static_cast<int>(dim)] / std::max<int64_t>(1, weight.axes[dim].blocks);
      if (extent != 0 && extent != found) return 0;
      extent = found;
    }
  return extent;
}

/// The longest sequence of the inputs.
int64_t positions_of(const Model& model) {
  int64_t most = 0;
  for (const InputSpec& input : model.inputs)
    for (size_t dim = 0; dim < input.axes.size(); ++dim)
      if (input.axes[dim] == "positions") most = std::max(most, input.type.shape[static_cast<int>(dim)]);
  return most;
}

}  // namespace

LayoutFacts layout_facts(const Model& model, const TrainOptions& options) {
  const bool exact = options.bits == "exact";
  const LayerCosts costs = layer_costs(model.forward, LayerOrder(model.forward));
  const auto layers = static_cast<int64_t>(costs.layers.size());
  const double all = std::accumulate(costs.layers.begin(), costs.layers.end(), 0.0);
  const auto heads = model.units_of_axes.find("heads");
  return {.lanes = exact ? options.lanes : options.accumulation,
          .chunks = exact ? options.chunks : 1,
          .exact = exact,
          .micro_batches = options.accumulation,
          .clusters = transform::clusters_of(model.forward),
          .tokens = positions_of(model),
          .layers = layers,
          .heads = heads != model.units_of_axes.end() ? heads->second : 0,
          .hidden = extent_of(model, "embed"),
          .intermediate = extent_of(model, "mlp"),
          .vocabulary = extent_of(model, "vocab"),
          .layer_work = layers > 0 ? all / static_cast<double>(layers) : 0,
          .head_work = costs.after,
          .processors = available_processors(),
          .memory = available_memory()};
}

bool has_tied_weights(const Model& model) {
  const Graph& forward = model.forward;
  std::set<std::string> constants;
  for (const StateTensor& state : model.states)
    if (state.kind == StateKind::kConstant) constants.insert(state.name);
  const std::vector<ModelRegion> regions = regions_of(forward, LayerOrder(forward));
  std::map<ValueId, ModelRegion> reader;
  for (size_t n = 0; n < regions.size(); ++n)
    for (ValueId input : forward.nodes()[n].inputs) {
      if (forward.value(input).producer != kNoNode) continue;
      const auto is_state = [&](const GraphInput& each) {
        return each.value == input && each.role == InputRole::kState && !constants.contains(forward.value(input).name);
      };
      if (std::none_of(forward.inputs().begin(), forward.inputs().end(), is_state)) continue;
      if (reader.emplace(input, regions[n]).first->second != regions[n]) return true;
    }
  return false;
}

void settle_head(Layout& layout, const Model& model) {
  if (layout.head != Layout::Head::kAuto) return;
  layout.head = layout.p > 1 && has_tied_weights(model) ? Layout::Head::kFirst : Layout::Head::kLast;
}

Layout fitted_layout(Layout layout, const Model& model, const TrainOptions& options, const std::string& source,
                     std::vector<std::string>& remarks) {
  for (std::string& remark : validate(layout, layout_facts(model, options), source))
    if (std::find(remarks.begin(), remarks.end(), remark) == remarks.end()) remarks.push_back(std::move(remark));
  settle_head(layout, model);
  return layout;
}

}  // namespace ramet::train
