#include "ramet/layout/schedule_table.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/layout/schedule_search.h"

namespace ramet::layout {
namespace {

using Entries = std::vector<ScheduleEntry>;

/// All micro-batches through each of the parts in turn.
void append_whole(Entries& entries, Pass pass, const std::vector<int>& parts, int64_t micro_batches) {
  for (const int part : parts)
    for (int64_t micro = 0; micro < micro_batches; ++micro) entries.push_back({pass, part, micro});
}

/// Forward and backward passes in the orders given, `ahead` forward passes first, then one of each in turn.
Entries alternate(const Entries& forward, const Entries& backward, size_t ahead) {
  Entries entries;
  size_t f = 0;
  for (; f < std::min(ahead, forward.size()); ++f) entries.push_back(forward[f]);
  for (const auto& entry : backward) {
    if (f < forward.size()) entries.push_back(forward[f++]);
    entries.push_back(entry);
  }
  return entries;
}

/// 1F1B of one part: stage s of p runs p - 1 - s forward passes ahead. With ZB-H1's weight gradients: stage s keeps s
/// of them back, for the end, where it would wait.
Entries one_f_one_b(int part, int stage, int stages, int64_t micro_batches, bool split) {
  Entries forward, backward;
  append_whole(forward, Pass::kForward, {part}, micro_batches);
  append_whole(backward, Pass::kBackward, {part}, micro_batches);
  Entries both = alternate(forward, backward, static_cast<size_t>(stages - 1 - stage));
  if (!split) return both;
  Entries entries;
  int64_t weights = 0;
  for (const auto& entry : both) {
    entries.push_back(entry);
    if (entry.pass == Pass::kBackward && entry.micro >= stage)
      entries.push_back({Pass::kWeightGradient, part, weights++});
  }
  while (weights < micro_batches) entries.push_back({Pass::kWeightGradient, part, weights++});
  return entries;
}

/// First micro-batches of the groups that take turns on a device's parts, and the end: p each, the rest in the last.
std::vector<int64_t> groups_of(int64_t micro_batches, int64_t stages) {
  std::vector<int64_t> firsts = {0};
  for (int64_t next = stages; next + stages <= micro_batches; next += stages) firsts.push_back(next);
  firsts.push_back(micro_batches);
  return firsts;
}

Entries interleaved_order(Pass pass, const std::vector<int>& parts, int64_t micro_batches, int64_t stages) {
  const auto groups = groups_of(micro_batches, stages);
  Entries entries;
  for (size_t g = 0; g + 1 < groups.size(); ++g)
    for (const int part : parts)
      for (int64_t micro = groups[g]; micro < groups[g + 1]; ++micro) entries.push_back({pass, part, micro});
  return entries;
}

std::vector<int> reversed(std::vector<int> values) {
  std::reverse(values.begin(), values.end());
  return values;
}

/// Parts of a stage among [first, last).
std::vector<int> parts_on(const ScheduleTable& table, int stage, int first, int last) {
  std::vector<int> parts;
  for (int part = first; part < last; ++part)
    if (table.stage_of[static_cast<size_t>(part)] == stage) parts.push_back(part);
  return parts;
}

/// Megatron-LM's interleaved 1F1B. Its lead of 2 (p - 1 - s) + (v - 1) p forward passes is enough when groups are
/// equal; a larger last one may need more.
void fill_interleaved(ScheduleTable& table) {
  const int p = table.stages(), parts = table.parts();
  for (int64_t more = 0;; ++more) {
    for (int stage = 0; stage < p; ++stage) {
      const auto own = parts_on(table, stage, 0, parts);
      const int64_t group = std::min<int64_t>(p, table.micro_batches);
      const int64_t ahead = 2 * (p - 1 - stage) + (static_cast<int64_t>(own.size()) - 1) * group + more;
      table.entries[static_cast<size_t>(stage)] = alternate(
          interleaved_order(Pass::kForward, own, table.micro_batches, p),
          interleaved_order(Pass::kBackward, reversed(own), table.micro_batches, p), static_cast<size_t>(ahead));
    }
    // All forward passes first can always run; so this ends.
    if (can_run(table) || more > table.micro_batches * parts) return;
  }
}

/// Parts before `first` run all micro-batches before and after the others do.
void fill_around(ScheduleTable& table, int first, const ScheduleTable& inner) {
  for (int stage = 0; stage < table.stages(); ++stage) {
    Entries& entries = table.entries[static_cast<size_t>(stage)];
    const auto outer = parts_on(table, stage, 0, first);
    append_whole(entries, Pass::kForward, outer, table.micro_batches);
    for (ScheduleEntry entry : inner.entries[static_cast<size_t>(stage)]) {
      entry.part += first;
      entries.push_back(entry);
    }
    append_whole(entries, Pass::kBackward, reversed(outer), table.micro_batches);
  }
}

void fill_gpipe(ScheduleTable& table) {
  for (int stage = 0; stage < table.stages(); ++stage) {
    const auto own = parts_on(table, stage, 0, table.parts());
    append_whole(table.entries[static_cast<size_t>(stage)], Pass::kForward, own, table.micro_batches);
    append_whole(table.entries[static_cast<size_t>(stage)], Pass::kBackward, reversed(own), table.micro_batches);
  }
}

ScheduleTable empty_table(PipelineSchedule kind, int stages, int parts, int64_t micro_batches) {
  ScheduleTable table{.kind = kind,
                      .micro_batches = micro_batches,
                      .split_backward = kind == PipelineSchedule::kZeroBubble,
                      .stage_of = {},
                      .entries = std::vector<Entries>(static_cast<size_t>(stages))};
  for (int part = 0; part < parts; ++part) table.stage_of.push_back(part % stages);
  return table;
}

/// A table of parts that are all in device memory at once.
ScheduleTable make_resident(PipelineSchedule kind, int stages, int parts, int64_t micro_batches,
                            const PassTimes& times) {
  ScheduleTable table = empty_table(kind, stages, parts, micro_batches);
  if (parts % stages != 0) return search_schedule(table, times);
  if (kind == PipelineSchedule::kInterleaved)
    fill_interleaved(table);
  else
    for (int stage = 0; stage < stages; ++stage)
      table.entries[static_cast<size_t>(stage)] =
          one_f_one_b(stage, stage, stages, micro_batches, table.split_backward);
  return table;
}

}  // namespace

char letter_of(Pass pass) { return "FBW"[static_cast<size_t>(pass)]; }

ScheduleTable make_schedule(const Layout& layout, int64_t micro_batches, const PassTimes* times) {
  const int parts = layout.model_parts(), p = layout.p;
  if (micro_batches < 1) internal_error("make_schedule", "no micro-batch");
  ScheduleTable table = empty_table(layout.schedule, p, parts, micro_batches);
  if (layout.schedule == PipelineSchedule::kGpipe) {
    fill_gpipe(table);
    return table;
  }
  const PassTimes given = times ? *times : unit_times(parts, table.split_backward);
  const int outer = layout.phases > 1 ? p * (layout.phases - 1) : 0;
  const PassTimes inner{.of_part = {given.of_part.begin() + outer, given.of_part.end()}, .transfer = given.transfer};
  ScheduleTable resident = make_resident(layout.schedule, p, parts - outer, micro_batches, inner);
  if (outer == 0) return resident;
  fill_around(table, outer, resident);
  return table;
}

}  // namespace ramet::layout
