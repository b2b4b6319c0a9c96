#include "ramet/layout/spread_graph.h"

#include <algorithm>
#include <tuple>

#include "ramet/base/error.h"
#include "ramet/layout/halo_plan.h"
#include "ramet/ops/halo.h"
#include "ramet/transform/data_axes.h"

namespace ramet::layout {
namespace {

bool has_factor(const ShardingRule::Operand& operand, int factor) {
  return std::any_of(operand.begin(), operand.end(), [&](const ShardingRule::Dim& dim) {
    return std::find(dim.begin(), dim.end(), factor) != dim.end();
  });
}

/// Partial sums are kept apart only in types whose sums are the recipe's own: f32, and exact integers.
bool is_sum_type(DType dtype) { return dtype == DType::kF32 || is_index(dtype); }

/// Whether every device has a whole branch of the balanced tree over the clusters, in order.
bool are_branches(const std::vector<int64_t>& deal, int64_t devices) {
  const int64_t own = std::ssize(deal) / devices;
  return std::is_sorted(deal.begin(), deal.end()) && (own & (own - 1)) == 0;
}

}  // namespace

SpreadGraph::SpreadGraph(const Graph& graph, const Mesh& mesh, StateSpreads& states, bool sequence,
                         std::vector<int64_t> deal)
    : source_(graph),
      mesh_(mesh),
      states_(states),
      sequence_(sequence && mesh.t1 > 1),
      deal_(std::move(deal)),
      dealt_(!deal_.empty() && !are_branches(deal_, mesh.t1)),
      result_{Graph(graph.name()), {}, {}, {}},
      resharder_(mesh, result_.graph, deal_),
      places_(graph.values().size()),
      wishes_(graph.values().size()) {}

SpreadResult SpreadGraph::run() {
  if (sequence_) find_positions();
  find_wishes();
  add_inputs();
  for (NodeId id = 0; id < static_cast<NodeId>(source_.nodes().size()); ++id) visit(id);
  add_outputs();
  return std::move(result_);
}

void SpreadGraph::find_positions() {
  if (declares_axes(source_)) {
    positions_ = dims_along(source_, "positions");
    return;
  }
  for (const Value& value : source_.values()) positions_.push_back(value.type.shape.rank() >= 3 ? 1 : -1);
}

bool SpreadGraph::is_state(ValueId source) const {
  if (source_.value(source).producer != kNoNode) return false;
  return states_.count(source_.value(source).name) > 0;
}

void SpreadGraph::add_inputs() {
  for (const GraphInput& input : source_.inputs()) {
    const Value& value = source_.value(input.value);
    Spread spread;
    if (input.role == InputRole::kState) {
      const auto known = states_.find(value.name);
      if (known == states_.end()) internal_error("SpreadGraph", "state '" + value.name + "' has no spread");
      spread = known->second;
    }
    if (spread.partial != 0) {
      // Terms are held by dimensions alone; flat parts are where their sum goes.
      if (spread.flat()) flat_sums_[input.value] = {spread.flat_parts, spread.flat_stride};
      spread.flat_parts = spread.flat_stride = 1;
    }
    const bool has_clusters = input.role == InputRole::kData && !input.axes.empty() && input.axes[0] == "clusters";
    if (const auto cut = has_clusters ? cut_of_clusters(value.type) : std::nullopt) {
      spread.cuts = {*cut};
      Sharding sharding = sharding_of(value.type, spread);
      sharding.deal = deal_;
      result_.feeds.emplace(value.name, std::move(sharding));
    }
    const ValueId added =
        result_.graph.add_input(value.name, sharding_of(value.type, spread).local(), input.role, input.axes);
    place(input.value) = {added, spread};
  }
}

/// The cut of a tensor whose dimension 0 is the clusters.
std::optional<Cut> SpreadGraph::cut_of_clusters(const TensorType& type) const {
  if (deal_.empty() || mesh_.t1 == 1 || type.shape.rank() == 0 || type.shape[0] != std::ssize(deal_)) return {};
  return Cut{0, MeshAxis::kTensor1, mesh_.t1, 1, 1, dealt_};
}

/// Where a partial sum goes when it is summed: along the positions under sequence parallelism, else to every member.
Spread SpreadGraph::settled(ValueId source) const {
  Spread to = place(source).spread;
  const TensorType& type = source_.type(source);
  const bool over_shards = to.partial & bit_of(MeshAxis::kTensor1);
  const int positions = sequence_ ? positions_[static_cast<size_t>(source)] : -1;
  if (positions >= 0 && over_shards && is_floating(type.dtype) && !to.cut_of(positions) &&
      type.shape[positions] % mesh_.t1 == 0) {
    to.cuts.push_back({positions, MeshAxis::kTensor1, mesh_.t1, 1, 1});
    std::sort(to.cuts.begin(), to.cuts.end(), [](const Cut& a, const Cut& b) { return a.dim < b.dim; });
  }
  if (const auto flat = flat_sums_.find(source); flat != flat_sums_.end())
    std::tie(to.flat_parts, to.flat_stride) = flat->second;
  to.partial = 0;
  return to;
}

/// Makes the value whole sums from here on.
void SpreadGraph::settle(ValueId source) {
  Place& at = place(source);
  if (at.spread.partial == 0) return;
  const Spread to = settled(source);
  at.id = fetch(source, to);
  at.spread = to;
}

ValueId SpreadGraph::fetch(ValueId source, const Spread& spread) {
  const Place& at = place(source);
  const Value& value = source_.value(source);
  const NodeInfo maker = value.producer == kNoNode ? NodeInfo(value.name) : source_.node(value.producer).info();
  return resharder_.convert(at.id, value.type, at.spread, spread, maker);
}

void SpreadGraph::add_outputs() {
  for (const GraphOutput& output : source_.outputs()) {
    Spread to;
    if (output.role == OutputRole::kState) {
      const auto [known, found_here] = states_.emplace(output.name, Spread{});
      if (found_here) {
        settle(output.value);
        known->second = place(output.value).spread;
        known->second.flat_parts = known->second.flat_stride = 1;
      }
      to = known->second;
      // An accumulator holds this replica's own sum by definition.
      if (place(output.value).spread.partial == 0) to.partial = 0;
    } else if (source_.type(output.value).shape.rank() > 0) {
      // A result stays as it lies: the host puts the parts together.
      settle(output.value);
      if (place(output.value).spread.flat()) leave_flat(output.value);
      to = place(output.value).spread;
      if (!to.cuts.empty()) {
        Sharding& part = result_.results[output.name] = sharding_of(source_.type(output.value), to);
        if (dealt_) part.deal = deal_;
      }
    }
    result_.graph.add_output(output.name, fetch(output.value, to), output.role);
  }
}

/// The factor that a dimension's cut falls on: the blocks before it are whole factors.
bool SpreadGraph::find_factor(const ShardingRule& rule, const ShardingRule::Dim& dim, const Cut& cut, int& factor,
                              FactorCut& found) const {
  int64_t before = 1;
  for (int candidate : dim) {
    const int64_t size = rule.factors[static_cast<size_t>(candidate)].size;
    if (cut.dealt && (before > 1 || size % std::ssize(deal_) != 0)) return false;
    if (cut.blocks % before == 0) {
      const int64_t blocks = cut.blocks / before;
      if (size % (blocks * cut.parts) == 0) {
        factor = candidate;
        found = {cut.axis, cut.parts, blocks, cut.stride, cut.dealt};
        return true;
      }
    }
    before *= size;
  }
  return false;
}

/// Whether the node may run with a factor cut so. A contraction behind which more than the sum is done is noted, to be
/// taken apart.
bool SpreadGraph::may_cut(NodeId id, const NodeSignature& node, const ShardingRule& rule, int index,
                          const FactorCut& cut) {
  const ShardingRule::Factor& factor = rule.factors[static_cast<size_t>(index)];
  bool partial = false, sums_apart = true;
  for (size_t o = 0; o < rule.outputs.size(); ++o) {
    if (has_factor(rule.outputs[o], index)) continue;
    partial = true;
    sums_apart = sums_apart && is_sum_type(node.outputs[o].dtype);
  }
  if (!partial) return !factor.whole;
  if (factor.reduce != ShardingRule::Reduce::kSum || cut.blocks != 1 || cut.dealt) return false;
  if (factor.whole || !sums_apart) {
    if (node.op->apart && factor.size > 1) result_.to_take_apart.insert(id);
    return false;
  }
  return true;
}

SpreadGraph::FactorCuts SpreadGraph::choose_cuts(NodeId id, const NodeSignature& node, const ShardingRule& rule) {
  const Node& source = source_.node(id);
  std::vector<size_t> order;
  for (size_t i = 0; i < source.inputs.size(); ++i) order.push_back(i);
  std::stable_partition(order.begin(), order.end(), [&](size_t i) { return is_state(source.inputs[i]); });
  FactorCuts cuts;
  // A state that the node's graph changes stays as it lies: no factor of it is cut that it does not have cut.
  std::set<int> fixed;
  for (size_t i = 0; i < source.inputs.size(); ++i) {
    if (!is_state(source.inputs[i])) continue;
    const GraphOutput* changed = source_.find_output(source_.value(source.inputs[i]).name);
    if (!changed || changed->role != OutputRole::kState) continue;
    for (size_t dim = 0; dim < rule.inputs[i].size(); ++dim)
      if (!place(source.inputs[i]).spread.cut_of(static_cast<int>(dim)))
        fixed.insert(rule.inputs[i][dim].begin(), rule.inputs[i][dim].end());
  }
  const auto take = [&](const ShardingRule::Operand& operand, const Cut& cut, bool may_sum) {
    int factor = -1;
    FactorCut found;
    if (!find_factor(rule, operand[static_cast<size_t>(cut.dim)], cut, factor, found)) return;
    if (cuts.count(factor) || fixed.count(factor) || !fits(rule, cuts, factor, found)) return;
    const bool sums = std::any_of(rule.outputs.begin(), rule.outputs.end(),
                                  [&](const auto& output) { return !has_factor(output, factor); });
    if ((sums && !may_sum) || !may_cut(id, node, rule, factor, found)) return;
    cuts[factor] = found;
  };
  for (size_t i : order)
    for (const Cut& cut : place(source.inputs[i]).spread.cuts) take(rule.inputs[i], cut, true);
  for (size_t o = 0; o < source.outputs.size(); ++o)
    for (const Cut& cut : wishes_[static_cast<size_t>(source.outputs[o])]) take(rule.outputs[o], cut, false);
  return cuts;
}

/// Whether a factor may be cut beside others: one factor an axis of the mesh, and no dimension of any operand twice.
bool SpreadGraph::fits(const ShardingRule& rule, const FactorCuts& cuts, int factor, const FactorCut& cut) const {
  for (const auto& [other, taken] : cuts)
    if (other != factor && taken.axis == cut.axis) return false;
  for (const auto* operands : {&rule.inputs, &rule.outputs})
    for (const auto& operand : *operands)
      for (const auto& dim : operand)
        for (const auto& [other, taken] : cuts)
          if (other != factor && std::find(dim.begin(), dim.end(), factor) != dim.end() &&
              std::find(dim.begin(), dim.end(), other) != dim.end())
            return false;
  if (!cut.dealt) return true;
  // Dealt clusters come first in every dimension.
  for (const auto* operands : {&rule.inputs, &rule.outputs})
    for (const auto& operand : *operands)
      for (const auto& dim : operand)
        if (std::find(dim.begin(), dim.end(), factor) > dim.begin() &&
            std::find(dim.begin(), dim.end(), factor) != dim.end())
          return false;
  return true;
}

/// From the last node to the first: a value that becomes a state is wished as the state lies, others as their readers
/// say.
void SpreadGraph::find_wishes() {
  const auto uses = source_.uses();
  std::vector<bool> leaves(source_.values().size(), false);
  for (const GraphOutput& output : source_.outputs()) {
    leaves[static_cast<size_t>(output.value)] = true;
    if (const auto known = states_.find(output.name);
        output.role == OutputRole::kState && known != states_.end() && known->second.partial == 0)
      wishes_[static_cast<size_t>(output.value)] = known->second.cuts;
  }
  for (size_t value = source_.values().size(); value-- > 0;) {
    if (leaves[value] || source_.value(static_cast<ValueId>(value)).producer == kNoNode) continue;
    bool first = true;
    for (NodeId user : uses[value]) {
      const Node& reader = source_.node(user);
      for (size_t input = 0; input < reader.inputs.size(); ++input) {
        if (reader.inputs[input] != static_cast<ValueId>(value)) continue;
        std::vector<Cut> wish = wish_for(user, input);
        if (first)
          wishes_[value] = std::move(wish);
        else if (wishes_[value] != wish)
          wishes_[value].clear();
        first = false;
      }
      if (!first && wishes_[value].empty()) break;
    }
  }
}

/// How a node would have an input cut: as its states lie and as its own readers wish.
std::vector<Cut> SpreadGraph::wish_for(NodeId id, size_t input) const {
  const Node& node = source_.node(id);
  if (node.op->regroups) return {};
  const ShardingRule rule = node.op->sharding(source_.signature(id));
  FactorCuts cuts;
  const auto take = [&](const ShardingRule::Operand& operand, const Cut& cut) {
    int factor = -1;
    FactorCut found;
    if (!find_factor(rule, operand[static_cast<size_t>(cut.dim)], cut, factor, found)) return;
    const bool whole = rule.factors[static_cast<size_t>(factor)].whole;
    if (whole || cuts.count(factor) || !fits(rule, cuts, factor, found)) return;
    cuts[factor] = found;
  };
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (is_state(node.inputs[i]))
      for (const Cut& cut : states_.at(source_.value(node.inputs[i]).name).cuts) take(rule.inputs[i], cut);
  for (size_t o = 0; o < node.outputs.size(); ++o)
    for (const Cut& cut : wishes_[static_cast<size_t>(node.outputs[o])]) take(rule.outputs[o], cut);
  return cuts_of(rule, rule.inputs[input], cuts);
}

std::vector<Cut> SpreadGraph::cuts_of(const ShardingRule& rule, const ShardingRule::Operand& operand,
                                      const FactorCuts& cuts) const {
  std::vector<Cut> result;
  for (size_t d = 0; d < operand.size(); ++d) {
    int64_t before = 1;
    for (int factor : operand[d]) {
      if (const auto cut = cuts.find(factor); cut != cuts.end())
        result.push_back({static_cast<int>(d), cut->second.axis, cut->second.parts, before * cut->second.blocks,
                          cut->second.stride, cut->second.dealt});
      before *= rule.factors[static_cast<size_t>(factor)].size;
    }
  }
  return result;
}

void SpreadGraph::visit(NodeId id) {
  const Node& node = source_.node(id);
  if (node.op->regroups) return visit_exact_sum(id);
  for (ValueId input : node.inputs) settle(input);
  for (ValueId input : node.inputs) {
    if (!place(input).spread.flat()) continue;
    if (treats_elements_alike(id, input)) return visit_flat(id, place(input));
    leave_flat(input);
  }
  if (fetches_rows(*node.op) && fetch_rows(id)) return;
  const NodeSignature signature = source_.signature(id);
  const ShardingRule rule = node.op->sharding(signature);
  add_cut_node(id, signature, rule, choose_cuts(id, signature, rule));
}

void SpreadGraph::add_cut_node(NodeId id, const NodeSignature& signature, const ShardingRule& rule,
                               const FactorCuts& cuts) {
  const Node& node = source_.node(id);
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    inputs.push_back(fetch(node.inputs[i], {cuts_of(rule, rule.inputs[i], cuts), 1, 1, 0}));
  Attributes attributes = node.attributes;
  if (!cuts.empty() && node.op->localize) {
    std::vector<int64_t> parts(rule.factors.size(), 1);
    for (const auto& [factor, cut] : cuts) parts[static_cast<size_t>(factor)] = cut.parts;
    attributes = node.op->localize(signature, parts, rule);
  }
  if (node.op->positional != OpDef::kNotPositional) {
    const auto& operand = node.op->positional == OpDef::kPositionalOutput
                              ? rule.outputs[0]
                              : rule.inputs[static_cast<size_t>(node.op->positional)];
    std::vector<int64_t> positions;
    bool dealt = false;
    for (const Cut& cut : cuts_of(rule, operand, cuts)) {
      positions.insert(positions.end(),
                       {int64_t{cut.dim}, static_cast<int64_t>(cut.axis), cut.parts, cut.blocks, cut.stride});
      dealt = dealt || cut.dealt;
    }
    if (!positions.empty()) attributes.set("cuts", positions);
    if (dealt) attributes.set("deal", deal_);
  }
  const NodeId made = result_.graph.add_node(*node.op, std::move(inputs), std::move(attributes), node);
  for (size_t o = 0; o < node.outputs.size(); ++o) {
    Place& at = place(node.outputs[o]);
    at.id = result_.graph.node(made).outputs[o];
    at.spread.cuts = cuts_of(rule, rule.outputs[o], cuts);
    for (const auto& [factor, cut] : cuts)
      if (!has_factor(rule.outputs[o], factor)) at.spread.partial |= bit_of(cut.axis);
    result_.graph.set_value_name(at.id, source_.value(node.outputs[o]).name);
    const TensorType expected = sharding_of(source_.type(node.outputs[o]), {at.spread.cuts, 1, 1, 0}).local();
    if (result_.graph.type(at.id) != expected)
      internal_error("SpreadGraph", signature.text() + " on a shard gives " + result_.graph.type(at.id).text() +
                                        " where " + expected.text() + " was expected");
  }
}

/// Rows of other devices' clusters: what goes to each device, the exchange, and what came beside the own rows.
bool SpreadGraph::fetch_rows(NodeId id) {
  const Node& node = source_.node(id);
  const Spread& spread = place(node.inputs[0]).spread;
  if (spread.cuts.size() != 1 || spread.cuts[0].dim != 0 || spread.cuts[0].axis != MeshAxis::kTensor1 || deal_.empty())
    return false;
  const Cut cut = spread.cuts[0];
  const TensorData& rows = node.attributes.get_tensor("rows");
  if (rows.type().shape[0] != std::ssize(deal_)) return false;
  const HaloPlan plan = plan_halo(rows.tensor(), source_.type(node.inputs[0]).shape[1], deal_, cut.parts);
  const std::vector<int64_t> cuts{0, static_cast<int64_t>(cut.axis), cut.parts, 1, cut.stride};
  const ValueId x = place(node.inputs[0]).id;
  const auto add = [&](const char* op, std::vector<ValueId> inputs, Attributes attributes) {
    const NodeId made =
        result_.graph.add_node(OpRegistry::instance().get(op), std::move(inputs), std::move(attributes), node);
    return result_.graph.node(made).outputs[0];
  };
  const ValueId goes = add("halo_pack", {x}, {{"send", TensorData(plan.send)}, {"cuts", cuts}});
  const ValueId comes = add("all_to_all", {goes},
                            {{"axis", static_cast<int64_t>(cut.axis)},
                             {"parts", cut.parts},
                             {"stride", cut.stride},
                             {"split", int64_t{0}},
                             {"concat", int64_t{0}}});
  Place& at = place(node.outputs[0]);
  at.id = add("halo_unpack", {x, comes},
              {{"place", TensorData(plan.place)}, {"rows", rows}, {"deal", deal_}, {"cuts", cuts}});
  at.spread = {{cut}, 1, 1, 0};
  result_.graph.set_value_name(at.id, source_.value(node.outputs[0]).name);
  return true;
}

/// Whether the node works on the elements of `flat`, and of tensors of its shape, one by one or sums over them, so that
/// it may see any range of them.
bool SpreadGraph::treats_elements_alike(NodeId id, ValueId flat) const {
  const Node& node = source_.node(id);
  const NodeSignature signature = source_.signature(id);
  const ShardingRule rule = node.op->sharding(signature);
  const size_t first =
      static_cast<size_t>(std::find(node.inputs.begin(), node.inputs.end(), flat) - node.inputs.begin());
  const auto& dims = rule.inputs[first];
  for (const auto& dim : dims)
    if (dim.size() != 1 || rule.factors[static_cast<size_t>(dim[0])].whole) return false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool alike = signature.inputs[i].shape == signature.inputs[first].shape && rule.inputs[i] == dims;
    for (const auto& dim : dims)
      if (!alike && has_factor(rule.inputs[i], dim[0])) return false;
  }
  for (size_t o = 0; o < node.outputs.size(); ++o) {
    const bool alike = signature.outputs[o].shape == signature.inputs[first].shape && rule.outputs[o] == dims;
    for (const auto& dim : dims)
      if (!alike && (has_factor(rule.outputs[o], dim[0]) || !is_index(signature.outputs[o].dtype))) return false;
  }
  return true;
}

/// Gathers the replicas' parts of a value.
void SpreadGraph::leave_flat(ValueId source) {
  const Spread to{place(source).spread.cuts, 1, 1, 0};
  place(source) = {fetch(source, to), to};
}

/// A node that treats each element of equally long tensors alike, on the elements that this replica holds.
void SpreadGraph::visit_flat(NodeId id, const Place& flat) {
  const Node& node = source_.node(id);
  const NodeSignature signature = source_.signature(id);
  const ShardingRule rule = node.op->sharding(signature);
  const Spread spread = flat.spread;
  const size_t first = static_cast<size_t>(
      std::find_if(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return place(input).spread.flat(); }) -
      node.inputs.begin());
  const Shape& shape = signature.inputs[first].shape;
  const auto& dims = rule.inputs[first];
  const auto alike = [&](const ShardingRule::Operand& operand, const TensorType& type) {
    return type.shape == shape && operand == dims;
  };
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool tensor = alike(rule.inputs[i], signature.inputs[i]) && shape.rank() > 0;
    inputs.push_back(
        fetch(node.inputs[i], tensor ? Spread{spread.cuts, spread.flat_parts, spread.flat_stride, 0} : Spread{}));
  }
  Attributes attributes = node.attributes;
  const TensorType local = sharding_of(signature.inputs[first], spread).local();
  if (attributes.has("shape")) attributes.set("shape", local.shape.dims());
  if (node.op->positional != OpDef::kNotPositional && shape.rank() > 0) {
    std::vector<int64_t> cuts, range{static_cast<int64_t>(MeshAxis::kReplica), spread.flat_parts, spread.flat_stride};
    for (const Cut& cut : spread.cuts)
      cuts.insert(cuts.end(), {int64_t{cut.dim}, static_cast<int64_t>(cut.axis), cut.parts, cut.blocks, cut.stride});
    if (!cuts.empty()) attributes.set("cuts", cuts);
    const TensorType left = sharding_of(signature.inputs[first], {spread.cuts, 1, 1, 0}).local();
    range.insert(range.end(), left.shape.dims().begin(), left.shape.dims().end());
    attributes.set("flat", range);
  }
  const NodeId made = result_.graph.add_node(*node.op, std::move(inputs), std::move(attributes), node);
  for (size_t o = 0; o < node.outputs.size(); ++o) {
    Place& at = place(node.outputs[o]);
    at.id = result_.graph.node(made).outputs[o];
    if (alike(rule.outputs[o], signature.outputs[o]) && shape.rank() > 0) {
      at.spread = {spread.cuts, spread.flat_parts, spread.flat_stride, 0};
    } else {
      at.spread.partial = bit_of(MeshAxis::kReplica);
      for (const Cut& cut : spread.cuts) at.spread.partial |= bit_of(cut.axis);
      if (!is_index(source_.type(node.outputs[o]).dtype))
        internal_error("SpreadGraph", signature.text() + " sums floats over replicas");
      // A group of the replicas holds all of it: the sum must count it once.
      if (spread.flat_parts < mesh_.r) {
        const NodeId sum = result_.graph.add_node(OpRegistry::instance().get("all_reduce"), {at.id},
                                                  {{"axis", static_cast<int64_t>(MeshAxis::kReplica)},
                                                   {"parts", spread.flat_parts},
                                                   {"stride", spread.flat_stride}},
                                                  node.derived(node.pass, node.name + "/reshard"));
        at.id = result_.graph.node(sum).outputs[0];
        at.spread.partial &= ~bit_of(MeshAxis::kReplica);
      }
    }
  }
}

/// Exact sums may be grouped at will: terms that are partial in the same way are added first and meet in one
/// collective.
void SpreadGraph::visit_exact_sum(NodeId id) {
  const Node& node = source_.node(id);
  std::map<uint32_t, std::vector<ValueId>> groups;
  for (ValueId input : node.inputs) groups[place(input).spread.partial].push_back(place(input).id);
  std::vector<ValueId> terms;
  const auto sum = [&](const std::vector<ValueId>& values) {
    const NodeId made = result_.graph.add_node(*node.op, values, node.attributes, node);
    return result_.graph.node(made).outputs[0];
  };
  for (const auto& [partial, values] : groups) {
    Spread spread;
    spread.partial = partial;
    const ValueId added = partial != 0 || groups.size() == 1 ? sum(values) : kNoValue;
    if (added == kNoValue)
      terms.insert(terms.end(), values.begin(), values.end());
    else
      terms.push_back(resharder_.convert(added, source_.type(node.outputs[0]), spread, {}, node));
  }
  place(node.outputs[0]) = {groups.size() == 1 ? terms[0] : sum(terms), {}};
}

}  // namespace ramet::layout
