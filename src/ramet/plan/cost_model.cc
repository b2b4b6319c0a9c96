#include "ramet/plan/cost_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "ramet/base/error.h"
#include "ramet/base/file.h"

namespace ramet::plan {
namespace {

double& of(StateBytes& bytes, StateKind kind) { return bytes[static_cast<size_t>(kind)]; }
double of(const StateBytes& bytes, StateKind kind) { return bytes[static_cast<size_t>(kind)]; }

void add(StateBytes& sum, const StateBytes& bytes) {
  for (size_t kind = 0; kind < sum.size(); ++kind) sum[kind] += bytes[kind];
}

RecomputeOptions::Mode mode_of(const Candidate& candidate) {
  return candidate.layout.recompute ? candidate.layout.recompute->mode : RecomputeOptions::Mode::kNone;
}

/// Whether layers are computed again as a whole.
bool repeats_layers(const Candidate& candidate) {
  using Mode = RecomputeOptions::Mode;
  return mode_of(candidate) == Mode::kLayers || mode_of(candidate) == Mode::kAll || mode_of(candidate) == Mode::kFit;
}

double parts_of(int group) { return std::max(group, 1); }

}  // namespace

double bound_margin(const Machine& machine) { return machine.measured_calls.empty() && machine.processors == 0 ? 1 : 0.7; }

std::string LowerBound::holds() const {
  std::string text;
  for (const auto& [kind, name] :
       {std::pair{StateKind::kWeight, "weights"}, std::pair{StateKind::kOptimizer, "optimizer"},
        std::pair{StateKind::kAccumulator, "gradients"}})
    if (const double part = of(held, kind); part >= 1)
      text += (text.empty() ? "" : ", ") + std::string(name) + " " + format_size(static_cast<int64_t>(part));
  return text;
}

CostModel::CostModel(const SearchSpace& space, std::vector<ModelProfile> profiles, const Machine& machine)
    : space_(space), profiles_(std::move(profiles)), machine_(machine), network_(machine) {}

int64_t CostModel::micro_batches(const Candidate& candidate) const {
  return std::max<int64_t>(space_.batch_of(candidate).accumulation / candidate.layout.r, 1);
}

/// Sums of gradients that a device has open at once: a balanced tree over its lanes.
double CostModel::open_sums(const Candidate& candidate) const {
  const int64_t lanes = space_.batch_of(candidate).facts.lanes / candidate.layout.r;
  return static_cast<double>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(lanes, 1))));
}

/// Of one device against the machine's, where devices of one machine share its cores.
double CostModel::speed(const Layout& layout) const {
  if (machine_.processors == 0) return 1;
  const int threads = layout.threads > 0 ? layout.threads : std::max(machine_.processors / layout.devices(), 1);
  return static_cast<double>(threads) / machine_.device.units;
}

double CostModel::collective_seconds(Exchange exchange, double bytes, const Layout& layout, MeshAxis axis, int parts) {
  if (parts <= 1 || bytes <= 0 || machine_.links.empty()) return 0;
  const Mesh mesh = layout.mesh();
  const std::string key = std::to_string(static_cast<int>(exchange)) + " " + std::to_string(mesh.distance(axis)) + " " +
                          std::to_string(parts) + " " + std::to_string(std::llround(bytes)) + " " +
                          std::to_string(mesh.devices());
  const auto known = collectives_.find(key);
  if (known != collectives_.end()) return known->second;
  std::vector<std::vector<int>> groups;
  for (int device = 0; device < mesh.devices(); ++device)
    if (mesh.index_in_group(device, axis, 1, parts) == 0) groups.push_back(mesh.group(device, axis, 1, parts));
  return collectives_[key] = collective(network_, exchange, bytes, groups).seconds;
}

const CostModel::MeshCost& CostModel::mesh_of(const Candidate& candidate) {
  const Layout& layout = candidate.layout;
  const auto key = std::make_tuple(candidate.batch, layout.p, layout.t1, layout.t2, layout.r, layout.sequence);
  if (const auto known = meshes_.find(key); known != meshes_.end()) return known->second;
  const ModelProfile& profile = profiles_[static_cast<size_t>(candidate.batch)];
  MeshCost cost;
  cost.states = profile.states(layout.mesh());
  for (const StateBytes& part : cost.states) add(cost.total, part);
  if (profile.layers() > 0) cost.layer = cost.states[0];
  for (int i = 0; i < profile.layers(); ++i)
    for (size_t kind = 0; kind < cost.layer.size(); ++kind)
      cost.layer[kind] = std::min(cost.layer[kind], cost.states[static_cast<size_t>(i)][kind]);
  // Two sums a layer and direction over t1, as Megatron-LM has them, and as many more over t2, of t1's shards.
  const double entering = profile.layers() > 0 ? profile.part(0).entering : 0;
  const double one =
      collective_seconds(Exchange::kAllReduce, entering, layout, MeshAxis::kTensor1, layout.t1) +
      2 * collective_seconds(Exchange::kAllReduce, 2 * entering / layout.t1, layout, MeshAxis::kTensor2, layout.t2);
  cost.forward_exchange = cost.backward_exchange = 2 * one;
  return meshes_.emplace(key, std::move(cost)).first->second;
}

/// The part of each layer.
std::vector<int> CostModel::cut_layers(int batch, const Layout& layout) {
  const ModelProfile& profile = profiles_[static_cast<size_t>(batch)];
  const auto cut = [&] {
    if (layout.layer_parts() <= 1 || profile.layers() < layout.layer_parts())
      return std::vector<int>(static_cast<size_t>(profile.layers()), 0);
    return parts_of_layers(layout, profile.costs().layers, profile.costs().before, profile.costs().after);
  };
  if (!layout.layers.empty()) return cut();
  const bool own_head = layout.model_parts() > layout.layer_parts();
  const auto key = std::make_tuple(batch, layout.p, layout.parts_per_stage(), own_head);
  const auto known = parts_.find(key);
  return known != parts_.end() ? known->second : parts_.emplace(key, cut()).first->second;
}

const CostModel::Cut& CostModel::cut_of(const Candidate& candidate) {
  const Layout layout = settled(space_, candidate);
  const ModelProfile& profile = profiles_[static_cast<size_t>(candidate.batch)];
  std::string name;
  for (const int n : {candidate.batch, layout.p, layout.t1, layout.t2, layout.r, layout.parts_per_stage(),
                      static_cast<int>(layout.sequence)})
    name += std::to_string(n) + " ";
  for (const int64_t n : layout.layers) name += "+" + std::to_string(n);
  if (last_name_ == name && !last_cut_.empty()) return last_cut_[0];
  const MeshCost& mesh = mesh_of(candidate);
  const std::vector<int> part_of_layer = cut_layers(candidate.batch, layout);
  const double shards = layout.t1 * layout.t2;
  Cut cut;
  cut.stages.resize(static_cast<size_t>(layout.p));
  std::vector<StateBytes> of_part(static_cast<size_t>(layout.model_parts()), StateBytes{});
  for (size_t i = 0; i < profile.parts().size(); ++i) {
    const bool is_layer = i < profile.before();
    const int part = is_layer ? part_of_layer[i] : i == profile.before() ? 0 : layout.model_parts() - 1;
    Cut::Stage& stage = cut.stages[static_cast<size_t>(layout.stage_of(part))];
    const PartWork& work = profile.part(i);
    const double pace = shards * speed(layout);
    add(stage.states, mesh.states[i]);
    add(of_part[static_cast<size_t>(part)], mesh.states[i]);
    stage.forward += work.forward / pace + (is_layer ? mesh.forward_exchange : 0);
    stage.backward += work.backward / pace + (is_layer ? mesh.backward_exchange : 0);
    stage.cheap += work.cheap / pace;
    stage.kept += work.kept / shards;
    stage.kept_cheap += work.kept_cheap / shards;
    stage.entering += work.entering / (layout.sequence ? shards : layout.t2);
    stage.layers += is_layer;
    stage.largest_node = std::max(stage.largest_node, work.largest_node / shards);
    if (is_layer) stage.largest_kept = std::max(stage.largest_kept, work.kept / shards);
  }
  for (size_t part = 0; part < of_part.size(); ++part) {
    Cut::Stage& stage = cut.stages[static_cast<size_t>(layout.stage_of(static_cast<int>(part)))];
    for (size_t kind = 0; kind < stage.largest_part.size(); ++kind)
      stage.largest_part[kind] = std::max(stage.largest_part[kind], of_part[part][kind]);
  }
  last_name_ = std::move(name);
  last_cut_.clear();
  return last_cut_.emplace_back(std::move(cut));
}

LowerBound CostModel::bound(const Candidate& candidate) {
  const Layout& layout = candidate.layout;
  const ModelProfile& profile = profiles_[static_cast<size_t>(candidate.batch)];
  const MeshCost& mesh = mesh_of(candidate);
  LowerBound bound;
  const double fullest = profile.layers() == 0 ? 0 : std::ceil(static_cast<double>(profile.layers()) / layout.p);
  const auto hold = [&](StateKind kind, double parts) {
    const double bytes = std::max(of(mesh.total, kind) / layout.p, fullest * of(mesh.layer, kind)) / parts;
    bound.bytes += bytes;
    of(bound.held, kind) = bytes;
  };
  if (!layout.offload.weights) hold(StateKind::kWeight, parts_of(layout.rts.weights));
  if (!layout.offload.optimizer) hold(StateKind::kOptimizer, parts_of(layout.rts.optimizer));
  // A step of one micro-batch on one device keeps no sums of gradients.
  if (!layout.offload.grads && layout.phases == 1 && (!layout.is_single() || micro_batches(candidate) > 1))
    hold(StateKind::kAccumulator, 1);

  const auto m = static_cast<double>(micro_batches(candidate));
  const double shards = layout.t1 * layout.t2 * speed(layout), work = profile.products() / shards;
  const double rest = layout.p - 1, others = work - profile.part(profile.behind()).products / shards;
  bound.seconds = m * work / layout.p;
  if (layout.p > 1 && layout.phases == 1 && layout.interleave == 1) {
    // x: work of the last stage. m x + c (others - x) falls where m (work - x) / rest rises; the best x is where they
    // meet.
    const double c = layout.schedule == PipelineSchedule::kZeroBubble ? 2.0 / 3 : 1;
    const double x = std::clamp((m * work / rest - c * others) / (m + m / rest - c), 0.0, others);
    bound.seconds = std::max(bound.seconds, std::max(m * x + c * (others - x), m * (work - x) / rest));
  }
  bound.seconds *= bound_margin(machine_);
  return bound;
}

double CostModel::pipeline_seconds(const Candidate& candidate, const Cut& cut) const {
  const Layout& layout = candidate.layout;
  const auto m = static_cast<double>(micro_batches(candidate));
  double most = 0, sum = 0;
  for (const Cut::Stage& stage : cut.stages) {
    double work = stage.forward + stage.backward;
    if (repeats_layers(candidate))
      work += stage.forward;
    else if (mode_of(candidate) == RecomputeOptions::Mode::kCheap)
      work += stage.cheap;
    most = std::max(most, work), sum += work;
  }
  double fill = layout.p > 1 ? sum - most : 0;
  if (layout.schedule == PipelineSchedule::kZeroBubble) fill /= 3;
  return m * most + fill / (layout.parts_per_stage());
}

double CostModel::streaming_seconds(const Candidate& candidate, const Cut::Stage& stage, double beside) const {
  const Layout& layout = candidate.layout;
  const MemoryKind* memory = machine_.memory(layout.streams_to_files() ? MemoryRole::kDisk : MemoryRole::kStreaming);
  const double read = memory ? std::max(memory->read, 1.0) : machine_.bandwidth() / 2,
               write = memory ? std::max(memory->write, 1.0) : machine_.bandwidth() / 2;
  const double way = 1 / read + 1 / write, passes = layout.phases > 1 ? 2 : 0;
  double in_step = 0, in_update = 0;
  const double weights = of(stage.states, StateKind::kWeight) / parts_of(layout.rts.weights);
  if (layout.offload.weights) in_step += passes * weights / read, in_update += weights * way;
  if (layout.offload.grads) in_update += of(stage.states, StateKind::kAccumulator) * way;
  if (layout.offload.optimizer)
    in_update += of(stage.states, StateKind::kOptimizer) / parts_of(layout.rts.optimizer) * way;
  if (layout.offload.activations) {
    const double kept = repeats_layers(candidate) ? stage.entering : stage.kept;
    in_step += static_cast<double>(micro_batches(candidate)) * kept * way;
  }
  if (machine_.processors > 0) return in_step + in_update;  // devices copy themselves
  return in_update + std::max(0.0, in_step - beside);
}

double CostModel::update_seconds(const Candidate& candidate, const Cut& cut) {
  const Layout& layout = candidate.layout;
  const ModelProfile& profile = profiles_[static_cast<size_t>(candidate.batch)];
  const MeshCost& mesh = mesh_of(candidate);
  StateBytes most{};
  for (const Cut::Stage& stage : cut.stages)
    for (size_t kind = 0; kind < most.size(); ++kind) most[kind] = std::max(most[kind], stage.states[kind]);
  double all = 0;
  for (const StateBytes& part : mesh.states) all += of(part, StateKind::kWeight);
  const double shards = layout.t1 * layout.t2 * speed(layout);
  double seconds = profile.update_seconds() / shards * of(most, StateKind::kWeight) / std::max(all, 1.0) /
                   parts_of(layout.rts.optimizer);
  if (layout.r == 1) return seconds;
  const double grads = of(most, StateKind::kAccumulator);
  const int sharded = std::max(layout.rts.optimizer, layout.rts.grads);
  if (sharded > 1) {
    seconds += collective_seconds(Exchange::kReduceScatter, grads, layout, MeshAxis::kReplica, sharded);
    seconds += collective_seconds(Exchange::kAllGather, of(most, StateKind::kWeight), layout, MeshAxis::kReplica,
                                  std::max(layout.rts.optimizer, 1));
    if (sharded < layout.r)
      seconds +=
          collective_seconds(Exchange::kAllReduce, grads / sharded, layout, MeshAxis::kReplica, layout.r / sharded);
  } else {
    seconds += collective_seconds(Exchange::kAllReduce, grads, layout, MeshAxis::kReplica, layout.r);
  }
  if (layout.rts.weights > 1)
    seconds += (layout.phases > 1 ? 2 : 0) * collective_seconds(Exchange::kAllGather, of(most, StateKind::kWeight),
                                                                layout, MeshAxis::kReplica, layout.rts.weights);
  return seconds;
}

double CostModel::stage_bytes(const Candidate& candidate, const Cut& cut, size_t index) const {
  const Layout& layout = candidate.layout;
  const Cut::Stage& stage = cut.stages[index];
  const bool phased = layout.phases > 1;
  const auto m = static_cast<double>(micro_batches(candidate));
  const StateBytes& at_once = phased ? stage.largest_part : stage.states;
  const double layers = std::max(stage.layers, 1.0);
  // Streamed states pass in groups of about a layer's states; one group is loaded while another one is in use. States
  // derived from streamed weights stay in device memory, if there are any.
  const double weights = of(at_once, StateKind::kWeight);
  double bytes = !layout.offload.weights                           ? weights / parts_of(layout.rts.weights)
                 : !phased && of(at_once, StateKind::kDerived) > 0 ? 2 * weights / layers / parts_of(layout.rts.weights)
                                                                   : weights;
  bytes += (layout.offload.optimizer ? 2 * of(stage.states, StateKind::kOptimizer) / layers
                                     : of(stage.states, StateKind::kOptimizer)) /
           parts_of(layout.rts.optimizer);
  bytes += open_sums(candidate) *
           (layout.offload.grads ? of(at_once, StateKind::kAccumulator) : of(stage.states, StateKind::kAccumulator));
  bytes += of(at_once, StateKind::kDerived);
  double kept = stage.kept;
  if (repeats_layers(candidate))
    kept = stage.entering;
  else if (mode_of(candidate) == RecomputeOptions::Mode::kCheap)
    kept = stage.kept_cheap;
  double in_flight = std::min<double>(m, static_cast<double>(layout.p) - static_cast<double>(index));
  if (phased || layout.schedule == PipelineSchedule::kGpipe) in_flight = m;
  if (layout.schedule == PipelineSchedule::kInterleaved)
    in_flight = std::min<double>(
        m, layout.p + (static_cast<double>(layout.p) - static_cast<double>(index)) / layout.interleave);
  if (settled(space_, candidate).head == Layout::Head::kFirst) in_flight = std::min(m, in_flight + 1);
  bytes += kept * (layout.offload.activations ? std::min(in_flight, 2.0) / layout.phases : in_flight);
  // Values between phases wait for all micro-batches, whatever is streamed, and so do the gradients on the way back.
  if (phased) bytes += 2 * in_flight * stage.entering / layers;
  if (repeats_layers(candidate)) bytes += stage.largest_kept;
  return bytes + stage.largest_node;
}

CostEstimate CostModel::estimate(const Candidate& candidate) {
  const Cut& cut = cut_of(candidate);
  CostEstimate cost;
  cost.seconds = pipeline_seconds(candidate, cut);
  double streaming = 0;
  for (size_t s = 0; s < cut.stages.size(); ++s) {
    streaming = std::max(streaming, streaming_seconds(candidate, cut.stages[s], cost.seconds));
    cost.bytes = std::max(cost.bytes, stage_bytes(candidate, cut, s));
  }
  cost.seconds += streaming + update_seconds(candidate, cut);
  return cost;
}

std::optional<Candidate> CostModel::relieved(const Candidate& candidate, int stage) {
  const Layout& layout = candidate.layout;
  const auto at = static_cast<size_t>(stage);
  if (layout.p == 1 || layout.parts_per_stage() > 1 || stage < 0 || stage >= layout.p) return std::nullopt;
  Candidate moved = candidate;
  std::vector<int64_t>& layers = moved.layout.layers;
  if (layers.empty()) {
    layers.assign(static_cast<size_t>(layout.p), 0);
    for (const int part : cut_layers(candidate.batch, settled(space_, candidate))) ++layers[static_cast<size_t>(part)];
  }
  const bool may_be_empty = stage == 0 || stage == layout.p - 1;
  if (layers[at] <= (may_be_empty ? 0 : 1)) return std::nullopt;
  const Cut before = cut_of(moved);
  size_t to = at == 0 ? 1 : 0;
  const auto work = [&](size_t s) { return before.stages[s].forward + before.stages[s].backward; };
  for (size_t s = 0; s < before.stages.size(); ++s)
    if (s != at && std::make_pair(work(s), stage_bytes(moved, before, s)) <
                       std::make_pair(work(to), stage_bytes(moved, before, to)))
      to = s;
  --layers[at], ++layers[to];
  return moved;
}

double CostModel::least_estimate(const Candidate& mesh) {
  Candidate bare = mesh;
  bare.layout.phases = bare.layout.interleave = 1;
  bare.layout.recompute.reset();
  bare.layout.offload = {}, bare.layout.rts = {};
  const Cut& cut = cut_of(bare);
  double most = 0;
  for (const Cut::Stage& stage : cut.stages) most = std::max(most, stage.forward + stage.backward);
  return static_cast<double>(micro_batches(mesh)) * most;
}

}  // namespace ramet::plan
