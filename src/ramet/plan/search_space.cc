#include "ramet/plan/search_space.h"

#include <algorithm>
#include <array>

#include "ramet/base/error.h"

namespace ramet::plan {
namespace {

using Mode = RecomputeOptions::Mode;

constexpr int kAnyNumber = 16;  ///< of devices or stages: up to here every number is tried

bool is_valid(const Layout& layout, const LayoutFacts& facts) {
  try {
    validate(layout, facts);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// 1, 2, ... `most`, of which those above kAnyNumber only where they leave a part fewer of the layers.
std::vector<int> part_counts(int64_t layers, int64_t most, int64_t any) {
  std::vector<int> counts;
  if (layers == 0) layers = most;
  for (int64_t n = 1; n <= std::min(most, layers); ++n)
    if (n <= any || (layers + n - 1) / n < (layers + n - 2) / (n - 1)) counts.push_back(static_cast<int>(n));
  return counts;
}

const std::array<Layout::Offload, 6>& offload_choices() {
  static const std::array<Layout::Offload, 6> choices = {{{},
                                                          {.optimizer = true},
                                                          {.activations = true},
                                                          {.optimizer = true, .activations = true},
                                                          {.weights = true, .grads = true, .optimizer = true},
                                                          {true, true, true, true}}};
  return choices;
}

std::vector<Layout::Offload> offloads(const SearchSpace& space) {
  if (space.fixed.count("offload")) return {space.base.offload};
  if (!space.streaming) return {{}};
  return {offload_choices().begin(), offload_choices().end()};
}

std::vector<Layout::Sharding> shardings(const SearchSpace& space, const Layout& mesh, const LayoutFacts& facts) {
  std::vector<Layout::Sharding> result;
  const auto add = [&](int weights, int grads, int optimizer) {
    Layout layout = mesh;
    layout.rts = {weights, grads, optimizer};
    if (is_valid(layout, facts)) result.push_back(layout.rts);
  };
  if (space.fixed.count("rts")) {
    // Groups of all replicas, as "rts=weights" says without a number, are those of each candidate.
    const auto group = [&](int fixed) { return fixed > 0 && fixed == space.base.r ? mesh.r : fixed; };
    add(group(space.base.rts.weights), group(space.base.rts.grads), group(space.base.rts.optimizer));
    return result;
  }
  add(0, 0, 0);
  for (int all = mesh.r; all > 1; --all) {
    if (mesh.r % all != 0) continue;
    add(0, 0, all), add(0, all, all), add(all, all, all);
    for (int some = all - 1; some > 1 && all == mesh.r; --some)
      if (all % some == 0) add(some, all, all);
  }
  return result;
}

std::vector<std::optional<RecomputeOptions>> recomputations(const SearchSpace& space, const Layout& layout) {
  if (space.fixed.count("recompute")) return {space.base.recompute};
  std::vector<std::optional<RecomputeOptions>> result;
  for (const Mode mode : {Mode::kNone, Mode::kCheap, Mode::kLayers, Mode::kAll}) {
    if (mode == Mode::kAll && layout.layer_parts() > 1) continue;  // the same as every layer, where the model is cut
    if (mode == Mode::kNone && !space.recomputes)
      result.emplace_back(std::nullopt);
    else
      result.emplace_back(RecomputeOptions{.mode = mode, .layers = {}});
  }
  return result;
}

/// Valid pairs of schedule and phases.
std::vector<Layout> orders(const SearchSpace& space, const Layout& mesh, const LayoutFacts& facts) {
  std::vector<Layout> result;
  const auto add = [&](PipelineSchedule schedule, int interleave, int phases) {
    Layout layout = mesh;
    layout.schedule = schedule, layout.interleave = interleave, layout.phases = phases;
    if (is_valid(layout, facts)) result.push_back(layout);
  };
  const int64_t most = facts.layers > 0 ? facts.layers / mesh.p : 1;
  const std::vector<int> phases =
      space.fixed.count("phases") ? std::vector<int>{space.base.phases} : part_counts(facts.layers / mesh.p, most, 1);
  for (const int each : phases) {
    if (space.fixed.count("schedule")) {
      add(space.base.schedule, space.base.interleave, each);
      continue;
    }
    add(PipelineSchedule::kOneFOneB, 1, each);
    if (mesh.p == 1) continue;
    add(PipelineSchedule::kGpipe, 1, each);
    if (each > 1) continue;
    add(PipelineSchedule::kZeroBubble, 1, 1);
    for (const int parts : part_counts(facts.layers / mesh.p, std::min<int64_t>(most, 4), 4))
      if (parts > 1) add(PipelineSchedule::kInterleaved, parts, 1);
  }
  return result;
}

/// Devices that t, p and r may make together.
bool uses_devices_well(const SearchSpace& space, int devices) {
  const bool by_hand = space.fixed.count("p") || space.fixed.count("t") || space.fixed.count("r");
  return devices <= space.devices && (by_hand || space.devices <= kAnyNumber || space.devices % devices == 0);
}

/// Tensor shards along one dimension that fit the model.
std::vector<int> shard_counts(const SearchSpace& space, const LayoutFacts& facts, int Layout::* side) {
  if (space.fixed.count("t")) return {space.base.*side};
  std::vector<int> counts;
  for (int n = 1; n <= space.devices; ++n) {
    Layout layout;
    layout.*side = n;
    if (is_valid(layout, facts)) counts.push_back(n);
  }
  return counts;
}

}  // namespace

std::vector<Candidate> mesh_candidates(const SearchSpace& space) {
  std::vector<Candidate> result;
  for (size_t b = 0; b < space.batches.size(); ++b) {
    const LayoutFacts& facts = space.batches[b].facts;
    const std::vector<int> t1 = shard_counts(space, facts, &Layout::t1), t2 = shard_counts(space, facts, &Layout::t2);
    std::vector<int> stages = part_counts(facts.layers, space.devices, kAnyNumber);
    if (space.fixed.count("p")) stages = {space.base.p};
    std::vector<int> replicas;
    for (int r = 1; r <= space.devices; ++r) replicas.push_back(r);
    if (space.fixed.count("r")) replicas = {space.base.r};
    for (const int p : stages)
      for (const int first : t1)
        for (const int second : t2)
          for (const int r : replicas) {
            Layout layout = space.base;
            if (static_cast<int64_t>(p) * first * second * r > space.devices) break;
            layout.p = p, layout.t1 = first, layout.t2 = second, layout.r = r;
            if (!uses_devices_well(space, layout.devices())) continue;
            Layout bare;
            bare.p = p, bare.t1 = first, bare.t2 = second, bare.r = r;
            for (const bool sequence : {false, true}) {
              if (space.fixed.count("sequence") ? sequence != space.base.sequence : sequence && first == 1) continue;
              layout.sequence = bare.sequence = sequence;
              if (is_valid(bare, facts)) result.push_back({static_cast<int>(b), layout});
            }
          }
  }
  return result;
}

std::vector<Candidate> layout_candidates(const SearchSpace& space, const Candidate& mesh) {
  const LayoutFacts& facts = space.batch_of(mesh).facts;
  Layout bare;
  bare.p = mesh.layout.p, bare.t1 = mesh.layout.t1, bare.t2 = mesh.layout.t2, bare.r = mesh.layout.r;
  bare.sequence = mesh.layout.sequence;
  const auto sharded = shardings(space, bare, facts);
  const auto offloaded = offloads(space);
  std::vector<Candidate> result;
  for (const Layout& order : orders(space, bare, facts))
    for (const auto& recompute : recomputations(space, order))
      for (const Layout::Offload& offload : offloaded)
        for (const Layout::Sharding& rts : sharded) {
          if (order.phases > 1 && !offload.weights && rts.weights <= 1 && !space.fixed.count("phases")) continue;
          Candidate candidate = mesh;
          Layout& layout = candidate.layout;
          layout.phases = order.phases, layout.schedule = order.schedule, layout.interleave = order.interleave;
          layout.recompute = recompute, layout.offload = offload, layout.rts = rts;
          if (layout.device_memory > 0 || !layout.layers.empty() || layout.head != Layout::Head::kAuto)
            if (!is_valid(layout, facts)) continue;
          result.push_back(std::move(candidate));
        }
  return result;
}

Layout settled(const SearchSpace& space, const Candidate& candidate) {
  Layout layout = candidate.layout;
  if (layout.head == Layout::Head::kAuto)
    layout.head = layout.p > 1 && space.tied_head ? Layout::Head::kFirst : Layout::Head::kLast;
  return layout;
}

std::string why_invalid(const SearchSpace& space, const Candidate& candidate) {
  if (candidate.layout.devices() > space.devices)
    return std::to_string(candidate.layout.devices()) + " devices, and the machine has " +
           std::to_string(space.devices);
  try {
    validate(candidate.layout, space.batch_of(candidate).facts, "layout");
    return "";
  } catch (const Error& error) {
    return error.parts().what + ": " + error.parts().found + ". " + error.parts().remedy;
  }
}

std::vector<Candidate> neighbours(const SearchSpace& space, const Candidate& candidate) {
  std::vector<Candidate> result;
  std::set<std::string> seen = {print_layout(candidate.layout) + " " + std::to_string(candidate.batch)};
  const auto add = [&](const Layout& layout, int batch) {
    if (seen.insert(print_layout(layout) + " " + std::to_string(batch)).second) result.push_back({batch, layout});
  };
  const Layout& from = candidate.layout;
  // A cut that the search made is for so many parts.
  const std::vector<int64_t> cut_by_hand = space.fixed.count("layers") ? from.layers : std::vector<int64_t>{};
  for (const auto& [key, number] : {std::pair<const char*, int Layout::*>{"p", &Layout::p},
                                    {"t", &Layout::t1},
                                    {"t", &Layout::t2},
                                    {"r", &Layout::r},
                                    {"phases", &Layout::phases}}) {
    if (space.fixed.count(key)) continue;
    for (const int other : {from.*number / 2, from.*number * 2}) {
      if (other == 0) continue;
      Layout layout = from;
      layout.*number = other;
      for (int* group : {&layout.rts.weights, &layout.rts.grads, &layout.rts.optimizer})
        if (*group == from.r) *group = layout.r;
      if (layout.p == 1) layout.schedule = PipelineSchedule::kOneFOneB, layout.interleave = 1;
      if (layout.p != from.p || layout.phases != from.phases) layout.layers = cut_by_hand;
      if (layout.t1 == 1) layout.sequence = false;
      add(layout, candidate.batch);
    }
  }
  const LayoutFacts& facts = space.batch_of(candidate).facts;
  Layout layout = from;
  for (const auto& recompute : recomputations(space, from)) layout.recompute = recompute, add(layout, candidate.batch);
  layout = from;
  for (const auto& offload : offloads(space)) layout.offload = offload, add(layout, candidate.batch);
  layout = from;
  for (const auto& rts : shardings(space, from, facts)) layout.rts = rts, add(layout, candidate.batch);
  Layout bare;
  bare.p = from.p;
  for (const Layout& order : orders(space, bare, facts)) {
    if (order.phases != from.phases) continue;
    layout = from;
    layout.schedule = order.schedule, layout.interleave = order.interleave;
    if (layout.interleave != from.interleave) layout.layers = cut_by_hand;
    add(layout, candidate.batch);
  }
  if (!space.fixed.count("sequence") && from.t1 > 1)
    layout = from, layout.sequence = !from.sequence, add(layout, candidate.batch);
  const int64_t own = space.batch_of(candidate).micro_batch;
  for (size_t b = 0; b < space.batches.size(); ++b)
    if (space.batches[b].micro_batch == 2 * own || 2 * space.batches[b].micro_batch == own)
      add(from, static_cast<int>(b));
  return result;
}

}  // namespace ramet::plan
