#include <algorithm>
#include <cmath>

#include "ramet/layout/schedule_table.h"

namespace ramet::layout {
namespace {

/// Work of the forward pass, in any unit: of a layer, and of the loss head.
struct ForwardCost {
  double layer = 1, head = 1;
};

ForwardCost cost_of(const LayoutFacts& facts) {
  if (facts.layer_work == 0) return {};
  return {.layer = facts.layer_work, .head = facts.head_work};
}

/// Forward cost of every part of the model.
std::vector<double> part_costs(const Layout& layout, const LayoutFacts& facts) {
  const ForwardCost cost = cost_of(facts);
  const int parts = layout.layer_parts(), each = layout.parts_per_stage();
  const bool own_head = layout.model_parts() > parts;
  std::vector<double> costs;
  if (!layout.layers.empty()) {
    for (const int64_t layers : layout.layers) costs.push_back(static_cast<double>(layers) * cost.layer);
    if (own_head)
      costs.push_back(cost.head);
    else
      costs.back() += cost.head;
    return costs;
  }
  // Cut by cost: every stage has an equal share, of which the head may be a part.
  const double layers = facts.layers > 0 ? static_cast<double>(facts.layers) : parts;
  const double share = (layers * cost.layer + cost.head) / layout.p;
  for (int part = 0; part < parts; ++part) {
    const double head = own_head && layout.stage_of(part) == 0 ? cost.head : 0;
    costs.push_back(std::max(share - head, 0.01 * share) / each);
  }
  if (own_head) costs.push_back(cost.head);
  return costs;
}

/// Whether the backward pass begins with the whole forward pass again.
bool recomputes_all(const Layout& layout) {
  using Mode = RecomputeOptions::Mode;
  return layout.recompute && (layout.recompute->mode == Mode::kAll ||
                              (layout.recompute->mode == Mode::kLayers && layout.recompute->layers.empty()));
}

ScheduleChoice choice_of(const Layout& layout, const LayoutFacts& facts, int64_t micro_batches) {
  const PassTimes times = estimated_times(layout, facts, layout.schedule == PipelineSchedule::kZeroBubble);
  const ScheduleTable table = make_schedule(layout, micro_batches, &times);
  const ScheduleOutcome outcome = outcome_of(table, times);
  std::vector<double> held(static_cast<size_t>(table.stages()), 0);
  for (int part = 0; part < table.parts(); ++part)
    held[static_cast<size_t>(table.stage_of[static_cast<size_t>(part)])] +=
        static_cast<double>(outcome.in_flight[static_cast<size_t>(part)]) * times.of({Pass::kForward, part, 0});
  return {.schedule = layout.schedule,
          .interleave = layout.interleave,
          .makespan = outcome.makespan,
          .bubble = outcome.bubble,
          .in_flight = static_cast<int64_t>(std::ceil(*std::max_element(held.begin(), held.end()) - 1e-6))};
}

}  // namespace

PassTimes estimated_times(const Layout& layout, const LayoutFacts& facts, bool split_backward) {
  const std::vector<double> costs = part_costs(layout, facts);
  double total = 0;
  for (const double cost : costs) total += cost;
  PassTimes times;
  for (const double cost : costs) {
    const double forward = cost * layout.p / total, again = recomputes_all(layout) ? forward : 0;
    times.of_part.push_back({forward, again + (split_backward ? forward : 2 * forward), split_backward ? forward : 0});
  }
  return times;
}

std::vector<ScheduleChoice> compare_schedules(const Layout& layout, const LayoutFacts& facts, int64_t micro_batches) {
  std::vector<ScheduleChoice> choices = {choice_of(layout, facts, micro_batches)};
  if (layout.p == 1) return choices;
  const auto consider = [&](PipelineSchedule schedule, int interleave) {
    if (schedule == layout.schedule && interleave == layout.interleave) return;
    Layout other = layout;
    other.schedule = schedule, other.interleave = interleave;
    if (interleave != layout.interleave) other.layers.clear();  // they were counted for another number of parts
    if (facts.layers > 0 && other.layers.empty() && other.layer_parts() > facts.layers) return;
    choices.push_back(choice_of(other, facts, micro_batches));
  };
  consider(PipelineSchedule::kGpipe, 1);
  consider(PipelineSchedule::kOneFOneB, 1);
  if (layout.phases > 1) return choices;
  consider(PipelineSchedule::kInterleaved, 2);
  consider(PipelineSchedule::kZeroBubble, 1);
  return choices;
}

}  // namespace ramet::layout
