#include "ramet/layout/stage_update.h"

#include <algorithm>
#include <set>

#include "ramet/base/error.h"
#include "ramet/ir/part_of.h"

namespace ramet::layout {
namespace {

constexpr int kShared = kEveryStage;
constexpr int kUnknown = -2;  // a state whose users tell

/// Labels of values: those of the states they come from. A node that meets two labels takes `conflict(node)`; exact
/// sums are shared.
template <typename Conflict>
std::vector<int> spread_labels(const Graph& graph, const std::map<std::string, int>& of_state,
                               const Conflict& conflict) {
  std::vector<int> label(graph.values().size(), kShared);
  for (const GraphInput& input : graph.inputs()) {
    if (input.role != InputRole::kState) continue;
    const auto known = of_state.find(graph.value(input.value).name);
    label[static_cast<size_t>(input.value)] = known == of_state.end() ? kUnknown : known->second;
  }
  const auto uses = graph.uses();
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    int mine = kShared;
    bool unknown = false;
    for (ValueId input : node.inputs) {
      const int other = label[static_cast<size_t>(input)];
      if (node.op->regroups) continue;
      unknown = unknown || other == kUnknown;
      if (other < 0) continue;
      mine = mine == kShared || mine == other ? other : conflict(id);
    }
    if (mine == kShared && unknown) mine = kUnknown;
    for (ValueId output : node.outputs) label[static_cast<size_t>(output)] = mine;
  }
  // What only unknown states make goes with its readers.
  for (NodeId id = static_cast<NodeId>(graph.nodes().size()) - 1; id >= 0; --id) {
    const Node& node = graph.node(id);
    const auto resolve = [&](ValueId value) {
      if (label[static_cast<size_t>(value)] != kUnknown) return;
      for (NodeId user : uses[static_cast<size_t>(value)])
        for (ValueId output : graph.node(user).outputs)
          if (label[static_cast<size_t>(output)] >= 0)
            label[static_cast<size_t>(value)] = label[static_cast<size_t>(output)];
    };
    for (ValueId output : node.outputs) resolve(output);
    for (ValueId input : node.inputs) resolve(input);
  }
  return label;
}

}  // namespace

StageUpdates::StageUpdates(const Graph& update, const Mesh& mesh, std::map<std::string, int> owner)
    : update_(update), mesh_(mesh), owner_(std::move(owner)) {
  label_nodes();
}

void StageUpdates::label_nodes() {
  label_ = spread_labels(update_, owner_, [&](NodeId id) -> int {
    throw Error({.what = "an update needs weights of two pipeline stages",
                 .where = update_.signature(id).text(),
                 .remedy = "Choose a layout that keeps them on one stage: head=first for a loss head that shares a "
                           "weight with the embeddings, or p=1"});
  });
  for (const GraphInput& input : update_.inputs())
    if (input.role == InputRole::kState)
      owner_.emplace(update_.value(input.value).name, std::max(0, label_[static_cast<size_t>(input.value)]));
  for (const GraphOutput& output : update_.outputs())
    if (output.role == OutputRole::kState)
      owner_.emplace(output.name, std::max(0, label_[static_cast<size_t>(output.value)]));
}

std::string StageUpdates::name_of_sum(ValueId value) const { return update_.node(update_.value(value).producer).name; }

Graph StageUpdates::of_stage(int stage) const {
  Graph graph(update_.name());
  struct Local {
    ValueId id = kNoValue;
    bool partial = false;  // a term of a sum over stages
    ValueId summed = kNoValue;
  };
  std::vector<Local> local(update_.values().size());
  for (const GraphInput& input : update_.inputs()) {
    const Value& value = update_.value(input.value);
    const bool state = input.role == InputRole::kState;
    if (state && owner_.at(value.name) != stage && owner_.at(value.name) != kEveryStage) continue;
    local[static_cast<size_t>(input.value)].id = graph.add_input(update_, input);
  }
  const auto add = [&](const char* op, std::vector<ValueId> inputs, Attributes attributes, NodeInfo info) {
    const NodeId made =
        graph.add_node(OpRegistry::instance().get(op), std::move(inputs), std::move(attributes), std::move(info));
    return graph.node(made).outputs[0];
  };
  // The value for a reader that is no sum itself: the sum over stages.
  const auto read = [&](ValueId source, const NodeInfo& reader) {
    NodeInfo info = reader;
    info.gradient.clear();
    Local& at = local[static_cast<size_t>(source)];
    if (!at.partial) return at.id;
    if (at.summed != kNoValue) return at.summed;
    const TensorType& type = update_.type(source);
    const ValueId term =
        at.id != kNoValue
            ? at.id
            : add("full", {}, {{"dtype", type.dtype}, {"shape", type.shape.dims()}, {"value", 0.0}}, info);
    return at.summed = add("all_reduce", {term},
                           {{"axis", static_cast<int64_t>(MeshAxis::kStage)}, {"parts", static_cast<int64_t>(mesh_.p)}},
                           info.named(name_of_sum(source) + "/stages"));
  };
  for (const Node& node : update_.nodes()) {
    const bool sums = node.op->regroups || node.op->exchange != Exchange::kNone;
    const int label = label_[static_cast<size_t>(node.outputs[0])];
    if (label >= 0 && label != stage) continue;
    bool partial = node.op->regroups && mesh_.p > 1, absent = false;
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) {
      const Local& at = local[static_cast<size_t>(input)];
      partial = partial || (sums && at.partial);
      if (node.op->regroups && at.id == kNoValue) continue;  // another stage's term
      inputs.push_back(sums ? at.id : read(input, node));
      absent = absent || inputs.back() == kNoValue;
    }
    absent = absent || (node.op->regroups && inputs.empty());
    if (absent) {
      for (ValueId output : node.outputs) local[static_cast<size_t>(output)].partial = partial;
      continue;
    }
    const NodeId made = graph.add_node(*node.op, std::move(inputs), node.attributes, node);
    for (size_t o = 0; o < node.outputs.size(); ++o)
      local[static_cast<size_t>(node.outputs[o])] = {graph.node(made).outputs[o], partial, kNoValue};
  }
  for (const GraphOutput& output : update_.outputs()) {
    if (output.role == OutputRole::kState && owner_.at(output.name) != stage) continue;
    // A result of one stage's states is that stage's.
    const int label = label_[static_cast<size_t>(output.value)];
    if (output.role == OutputRole::kResult && label >= 0 && label != stage) continue;
    const ValueId value = read(output.value, output.name);
    if (value == kNoValue)
      internal_error("StageUpdates", "output '" + output.name + "' is not made on stage " + std::to_string(stage));
    graph.add_output(output.name, value, output.role);
  }
  std::set<std::string> all;
  for (const GraphOutput& output : graph.outputs()) all.insert(output.name);
  return part_of(graph, all);
}

bool meets_stages(const OpDef& op, const Attributes& attributes) {
  return op.exchange != Exchange::kNone && attributes.get_int_or("axis", -1) == static_cast<int64_t>(MeshAxis::kStage);
}

std::vector<int> update_parts(const Graph& update, const std::map<std::string, int>& group, int groups) {
  std::vector<int> label = spread_labels(update, group, [](NodeId) { return kShared; });
  // How many sums over all weights a value follows from, one after another.
  std::vector<int> round(update.values().size(), 0);
  std::vector<int> part(update.nodes().size(), 0);
  int meeting = 0;  // round of the last collective between stages; on other stages other sums have terms
  for (size_t n = 0; n < part.size(); ++n) {
    const Node& node = update.node(static_cast<NodeId>(n));
    int mine = 0;
    for (ValueId input : node.inputs) {
      const int known = round[static_cast<size_t>(input)];
      const bool of_group = known == 0 || label[static_cast<size_t>(input)] >= 0;  // else a sum already
      mine = std::max(mine, known + (node.op->regroups && of_group ? 1 : 0));
    }
    if (meets_stages(*node.op, node.attributes)) mine = meeting = std::max(mine, meeting);
    for (ValueId output : node.outputs) round[static_cast<size_t>(output)] = mine;
    const int own = label[static_cast<size_t>(node.outputs[0])];
    if (own >= 0)
      part[n] = mine * (groups + 1) + own;
    else if (mine > 0)
      part[n] = mine * (groups + 1) - 1;  // of sums and scalars; without sums in the first part
  }
  return part;
}

}  // namespace ramet::layout
