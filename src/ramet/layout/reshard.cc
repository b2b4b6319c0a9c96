#include "ramet/layout/reshard.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/base/host_tensor.h"

namespace ramet::layout {
namespace {

int64_t axis_number(MeshAxis axis) { return static_cast<int64_t>(axis); }

Attributes group_of(MeshAxis axis, int64_t parts, int64_t stride) {
  Attributes attributes{{"axis", axis_number(axis)}, {"parts", parts}};
  if (stride != 1) attributes.set("stride", stride);
  return attributes;
}

Attributes group_of(const Cut& cut) {
  Attributes attributes = group_of(cut.axis, cut.parts, cut.stride);
  attributes.set("dim", static_cast<int64_t>(cut.dim));
  if (cut.blocks != 1) attributes.set("blocks", cut.blocks);
  return attributes;
}

std::string key_of(const Spread& spread) {
  std::string key = std::to_string(spread.partial) + "|" + std::to_string(spread.flat_parts) + "/" +
                    std::to_string(spread.flat_stride);
  for (const Cut& cut : spread.cuts)
    for (int64_t number :
         {int64_t{cut.dim}, axis_number(cut.axis), cut.parts, cut.blocks, cut.stride, int64_t{cut.dealt}})
      key += "," + std::to_string(number);
  return key;
}

/// Whether the replicas of each flat group are a whole branch of the tree along which all of them sum.
bool is_branch(const Spread& flat, int64_t replicas) {
  const int64_t parts = flat.flat_parts;
  return parts == replicas || (flat.flat_stride == 1 && (parts & (parts - 1)) == 0);
}

}  // namespace

const Cut* Spread::cut_of(int dim) const {
  for (const Cut& cut : cuts)
    if (cut.dim == dim) return &cut;
  return nullptr;
}

Sharding sharding_of(const TensorType& logical, const Spread& spread) {
  return {logical, spread.cuts, spread.flat_parts, spread.flat_stride};
}

struct Resharder::State {
  ValueId value;
  const TensorType& logical;
  Spread spread;
  NodeInfo info;
};

ValueId Resharder::add(const std::string& op, ValueId input, Attributes attributes, const State& state) {
  const NodeId node = graph_.add_node(OpRegistry::instance().get(op), {input}, std::move(attributes), state.info);
  return graph_.node(node).outputs[0];
}

/// The value as a row whose length is a multiple of `parts`.
ValueId Resharder::flatten(const State& state, int64_t parts) {
  ValueId value = state.value;
  const int64_t elements = graph_.type(value).elements(), padded = (elements + parts - 1) / parts * parts;
  if (graph_.type(value).shape.rank() != 1)
    value = add("reshape", value, {{"shape", std::vector<int64_t>{elements}}}, state);
  if (padded != elements)
    value = add("pad", value,
                {{"low", std::vector<int64_t>{0}}, {"high", std::vector<int64_t>{padded - elements}}, {"value", 0.0}},
                state);
  return value;
}

void Resharder::finish_sums(State& state, const Spread& to) {
  for (MeshAxis axis : {MeshAxis::kTensor2, MeshAxis::kTensor1, MeshAxis::kReplica, MeshAxis::kStage}) {
    if (!(state.spread.partial & bit_of(axis)) || (to.partial & bit_of(axis))) continue;
    const int64_t extent = mesh_.extent(axis);
    state.spread.partial &= ~bit_of(axis);
    // Where flat groups are no branches, all sum all, and each takes its part of that.
    if (axis == MeshAxis::kReplica && to.flat() && !state.spread.flat() && is_branch(to, extent)) {
      if (state.spread.partial & ~to.partial) internal_error("reshard", "a sum over replicas comes last");
      change_cuts(state, to);
      Attributes group = group_of(axis, to.flat_parts, to.flat_stride);
      state.value = add("reduce_scatter", flatten(state, to.flat_parts), group.set("dim", int64_t{0}), state);
      state.spread.flat_parts = to.flat_parts, state.spread.flat_stride = to.flat_stride;
      if (const int64_t groups = extent / to.flat_parts; groups > 1)
        state.value = add("all_reduce", state.value, group_of(axis, groups, to.flat_parts * to.flat_stride), state);
      continue;
    }
    // The sum goes straight into a cut along the same axis where one is wanted.
    const auto cut = std::find_if(to.cuts.begin(), to.cuts.end(), [&](const Cut& each) {
      return each.axis == axis && each.parts == extent && !each.dealt && !state.spread.cut_of(each.dim);
    });
    if (cut != to.cuts.end() && !state.spread.flat()) {
      state.value = add("reduce_scatter", state.value, group_of(*cut), state);
      state.spread.cuts.push_back(*cut);
    } else {
      state.value = add("all_reduce", state.value, group_of(axis, extent, 1), state);
    }
  }
}

void Resharder::leave_flat(State& state) {
  Attributes group = group_of(MeshAxis::kReplica, state.spread.flat_parts, state.spread.flat_stride);
  state.value = add("all_gather", state.value, group.set("dim", int64_t{0}), state);
  state.spread.flat_parts = state.spread.flat_stride = 1;
  const TensorType cut = sharding_of(state.logical, state.spread).local();
  if (const int64_t elements = cut.elements(); graph_.type(state.value).elements() != elements)
    state.value = add("slice", state.value,
                      {{"start", std::vector<int64_t>{0}}, {"stop", std::vector<int64_t>{elements}}}, state);
  if (graph_.type(state.value).shape != cut.shape)
    state.value = add("reshape", state.value, {{"shape", cut.shape.dims()}}, state);
}

/// The cut of `to` to which each device may send its part of what `cut` gave it: another dimension, the same devices.
static const Cut* moved_cut(const Spread& from, const Cut& cut, const Spread& to, const TensorType& logical) {
  for (const Cut& other : to.cuts)
    if (other.dim != cut.dim && other.axis == cut.axis && other.parts == cut.parts && other.stride == cut.stride &&
        other.blocks == 1 && cut.blocks == 1 && !other.dealt && !cut.dealt && !from.cut_of(other.dim) &&
        !to.cut_of(cut.dim) && logical.shape[other.dim] % other.parts == 0)
      return &other;
  return nullptr;
}

void Resharder::change_cuts(State& state, const Spread& to) {
  const std::vector<Cut> had = state.spread.cuts;
  for (const Cut& cut : had) {
    const Cut* wanted = to.cut_of(cut.dim);
    if (wanted && *wanted == cut) continue;
    if (const Cut* moved = moved_cut(state.spread, cut, to, state.logical)) {
      Attributes group = group_of(cut.axis, cut.parts, cut.stride);
      group.set("split", static_cast<int64_t>(moved->dim)).set("concat", static_cast<int64_t>(cut.dim));
      state.value = add("all_to_all", state.value, group, state);
      std::erase_if(state.spread.cuts, [&](const Cut& each) { return each.dim == cut.dim; });
      state.spread.cuts.push_back(*moved);
      continue;
    }
    state.value = add("all_gather", state.value, group_of(cut), state);
    if (cut.dealt) state.value = in_order_of_clusters(state, cut.dim);
    std::erase_if(state.spread.cuts, [&](const Cut& each) { return each.dim == cut.dim; });
  }
  std::vector<int64_t> missing;
  bool dealt = false;
  for (const Cut& cut : to.cuts) {
    if (state.spread.cut_of(cut.dim)) continue;
    missing.insert(missing.end(), {int64_t{cut.dim}, axis_number(cut.axis), cut.parts, cut.blocks, cut.stride});
    state.spread.cuts.push_back(cut);
    dealt = dealt || cut.dealt;
  }
  if (missing.empty()) return;
  Attributes cuts{{"cuts", missing}};
  if (dealt) cuts.set("deal", deal_);
  state.value = add("shard", state.value, std::move(cuts), state);
}

/// What all devices together hold, whose clusters lie in the order of the devices, in the order of the clusters.
ValueId Resharder::in_order_of_clusters(const State& state, int dim) {
  const Shape whole = graph_.type(state.value).shape;
  const auto clusters = std::ssize(deal_);
  int64_t outer = 1;
  for (int i = 0; i < dim; ++i) outer *= whole[i];
  const int64_t inner = whole.elements() / std::max<int64_t>(1, outer * clusters);
  ValueId value = add("reshape", state.value, {{"shape", std::vector<int64_t>{outer, clusters, inner}}}, state);
  HostTensor rows(TensorType{DType::kI32, Shape{outer, clusters}});
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < clusters; ++i)
      rows.set(o * clusters + deal_[static_cast<size_t>(i)], static_cast<double>(o * clusters + i));
  value = add("halo_rows", value, {{"rows", TensorData(std::move(rows))}}, state);
  return add("reshape", value, {{"shape", whole.dims()}}, state);
}

void Resharder::enter_flat(State& state, const Spread& to) {
  const ValueId row = flatten(state, to.flat_parts);
  state.value = add(
      "shard", row,
      {{"cuts", std::vector<int64_t>{0, axis_number(MeshAxis::kReplica), to.flat_parts, 1, to.flat_stride}}}, state);
  state.spread.flat_parts = to.flat_parts, state.spread.flat_stride = to.flat_stride;
}

ValueId Resharder::convert(ValueId value, const TensorType& logical, const Spread& from, const Spread& to,
                           const NodeInfo& maker) {
  if (from == to) return value;
  const auto key = std::make_pair(value, key_of(to));
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  State state{value, logical, from, maker.named(maker.name.empty() ? "reshard" : maker.name + "/reshard")};
  state.info.serial = 0;
  state.info.gradient.clear();
  finish_sums(state, to);
  const bool same_flat = state.spread.flat_parts == to.flat_parts && state.spread.flat_stride == to.flat_stride;
  if (state.spread.flat() && !same_flat) leave_flat(state);
  if (!state.spread.flat()) change_cuts(state, to);
  if (to.flat() && !state.spread.flat()) enter_flat(state, to);
  std::sort(state.spread.cuts.begin(), state.spread.cuts.end(),
            [](const Cut& a, const Cut& b) { return a.dim < b.dim; });
  if (!(state.spread == to)) internal_error("reshard", "no way from one spread of " + logical.text() + " to another");
  return known_[key] = state.value;
}

}  // namespace ramet::layout
