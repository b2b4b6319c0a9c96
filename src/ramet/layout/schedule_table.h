#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/layout/layout.h"

namespace ramet::layout {

/// The work of a stage on one pipeline part for one micro-batch.
enum class Pass : uint8_t {
  kForward,
  kBackward,       ///< gradients of inputs and weights; of inputs alone in a table with `split_backward`
  kWeightGradient  ///< of weights, in such a table
};
inline constexpr int kPassCount = 3;
char letter_of(Pass pass);  ///< 'F', 'B', 'W'

struct ScheduleEntry {
  Pass pass = Pass::kForward;
  int part = 0;
  int64_t micro = 0;
  friend bool operator==(const ScheduleEntry&, const ScheduleEntry&) = default;
};

/// In which order every stage works on the micro-batches of a step. The model is cut into pipeline parts, numbered in
/// its order: part c reads what part c - 1 sent. Every part takes the micro-batches of each pass in order, so that sums
/// of gradients have one order, whatever the schedule.
struct ScheduleTable {
  PipelineSchedule kind = PipelineSchedule::kGpipe;
  int64_t micro_batches = 0;  ///< of one replica in one step
  bool split_backward = false;
  std::vector<int> stage_of;                        ///< of each part
  std::vector<std::vector<ScheduleEntry>> entries;  ///< of each stage

  int stages() const { return static_cast<int>(entries.size()); }
  int parts() const { return static_cast<int>(stage_of.size()); }
};

/// Seconds (or any unit) of each pass of each part, and of a transfer from one stage to another.
struct PassTimes {
  std::vector<std::array<double, kPassCount>> of_part;
  double transfer = 0;

  double of(const ScheduleEntry& entry) const {
    return of_part[static_cast<size_t>(entry.part)][static_cast<size_t>(entry.pass)];
  }
};
/// Every part alike: forward 1, backward 2; backward 1 and weight gradient 1 when split.
PassTimes unit_times(int parts, bool split_backward);
/// From the facts' work of layers and head, where it is known; a whole stage's forward
/// pass takes 1 on average. Recomputation of whole layers lengthens the backward pass by a forward pass.
PassTimes estimated_times(const Layout& layout, const LayoutFacts& facts, bool split_backward);

/// The table of a layout (its schedule, p, phases, interleave and head) for `micro_batches` of one replica.
///  - GPipe: all forward passes, then all backward passes; with phases, each stage's parts one after another.
///  - 1F1B: with phases, in the last of them; the others run as in GPipe, backward in reverse.
///  - Interleaved: Megatron-LM's order (groups of p micro-batches take turns on a device's parts); micro-batches that
///    do not fill a group join the last one.
///  - Zero-bubble: ZB-H1, which keeps no more micro-batches than 1F1B does on its first stage.
/// A loss head on the first stage (head=first) makes p + 1 hops of p stages. Such tables are searched for by running
/// them with `times` (unit times when null), backward passes first, with a limit on the micro-batches in flight.
ScheduleTable make_schedule(const Layout& layout, int64_t micro_batches, const PassTimes* times = nullptr);

/// How long a table takes when every stage waits for the messages that it receives and never for those that it sends.
struct ScheduleOutcome {
  double makespan = 0;
  double bubble = 0;                        ///< share of stages x makespan in which stages wait
  std::vector<double> busy;                 ///< of each stage
  std::vector<std::vector<double>> starts;  ///< of each entry of each stage
  /// Of each part, the most micro-batches at once between the start of their forward pass and the end of their last
  /// one: slots that its stash needs. No more than these can wait in the buffers of its boundaries to the next part,
  /// either.
  std::vector<int64_t> in_flight;
};
/// Runs the table. Internal error, naming what each stage waits for, when it is not whole, out of order, or would wait
/// for ever.
ScheduleOutcome outcome_of(const ScheduleTable& table, const PassTimes& times);

/// "stage 0  F0 F1 . . B0" in columns of equal time, one line a stage; with several parts a stage, F2/1 is micro-batch
/// 2 in part 1. Lines of more than `columns` columns are cut, and end with the number of columns left out; 0: never.
std::string text_of(const ScheduleTable& table, const PassTimes& times, int64_t columns = 0);
/// A picture: a row a stage, time from left to right, a colour a pass and a shade a part. Hovering over a cell shows
/// its text.
std::string svg_of(const ScheduleTable& table, const PassTimes& times);

/// One schedule that a layout could have, beside the others.
struct ScheduleChoice {
  PipelineSchedule schedule;
  int interleave = 1;
  double makespan = 0, bubble = 0;
  int64_t in_flight = 0;  ///< layer-weighted micro-batches in flight on the fullest stage, in whole stages, rounded up
};
/// Every schedule that fits the layout's p, phases and head, the layout's own first: how long each takes and keeps.
/// Zero-bubble pays where its makespan is the least.
std::vector<ScheduleChoice> compare_schedules(const Layout& layout, const LayoutFacts& facts, int64_t micro_batches);

}  // namespace ramet::layout
