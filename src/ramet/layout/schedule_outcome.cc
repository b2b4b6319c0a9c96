#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/layout/schedule_search.h"

namespace ramet::layout {
namespace {

std::string text_of(const ScheduleEntry& entry) {
  return letter_of(entry.pass) + std::to_string(entry.micro) + " of part " + std::to_string(entry.part);
}

/// Runs a table: every stage does its entries in order, each as soon as its inputs are there.
class TableRun {
 public:
  TableRun(const ScheduleTable& table, const PassTimes& times)
      : table_(table), times_(times), next_(table.entries.size(), 0), free_(table.entries.size(), 0) {
    for (auto& finished : finished_) finished.resize(table.stage_of.size());
    outcome_.starts.resize(table.entries.size());
    outcome_.busy.resize(table.entries.size(), 0);
    for (size_t stage = 0; stage < table.entries.size(); ++stage)
      outcome_.starts[stage].reserve(table.entries[stage].size());
  }

  /// Whether all entries ran.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t stage = 0; stage < table_.entries.size(); ++stage)
        while (advance(stage)) moved = true;
    }
    for (size_t stage = 0; stage < table_.entries.size(); ++stage)
      if (next_[stage] < table_.entries[stage].size()) return false;
    outcome_.makespan = *std::max_element(free_.begin(), free_.end());
    double busy = 0;
    for (const double stage : outcome_.busy) busy += stage;
    if (outcome_.makespan > 0) outcome_.bubble = 1 - busy / (outcome_.makespan * table_.stages());
    return true;
  }

  /// What every stage that has not ended waits for.
  std::string blocked() const {
    std::string text;
    for (size_t stage = 0; stage < table_.entries.size(); ++stage)
      if (next_[stage] < table_.entries[stage].size())
        text += (text.empty() ? "" : ", ") + ("stage " + std::to_string(stage)) + " cannot begin " +
                text_of(table_.entries[stage][next_[stage]]);
    return text;
  }
  ScheduleOutcome& outcome() { return outcome_; }

 private:
  const std::vector<double>& finished(Pass pass, int part) const {
    return finished_[static_cast<size_t>(pass)][static_cast<size_t>(part)];
  }

  /// Raises `start` to when a value is there; false when it was not made yet.
  bool wait_for(Pass pass, int from, const ScheduleEntry& reader, double& start) const {
    const auto& times = finished(pass, from);
    if (reader.micro >= static_cast<int64_t>(times.size())) return false;
    const bool moves = table_.stage_of[static_cast<size_t>(from)] != table_.stage_of[static_cast<size_t>(reader.part)];
    start = std::max(start, times[static_cast<size_t>(reader.micro)] + (moves ? times_.transfer : 0));
    return true;
  }

  bool is_ready(const ScheduleEntry& entry, double& start) const {
    if (entry.micro != static_cast<int64_t>(finished(entry.pass, entry.part).size())) return false;  // out of order
    switch (entry.pass) {
      case Pass::kForward: return entry.part == 0 || wait_for(Pass::kForward, entry.part - 1, entry, start);
      case Pass::kBackward:
        return wait_for(Pass::kForward, entry.part, entry, start) &&
               (entry.part + 1 == table_.parts() || wait_for(Pass::kBackward, entry.part + 1, entry, start));
      case Pass::kWeightGradient: return wait_for(Pass::kBackward, entry.part, entry, start);
    }
    return false;
  }

  bool advance(size_t stage) {
    if (next_[stage] == table_.entries[stage].size()) return false;
    const ScheduleEntry& entry = table_.entries[stage][next_[stage]];
    double start = free_[stage];
    if (!is_ready(entry, start)) return false;
    const double seconds = times_.of(entry);
    free_[stage] = start + seconds;
    outcome_.busy[stage] += seconds;
    outcome_.starts[stage].push_back(start);
    finished_[static_cast<size_t>(entry.pass)][static_cast<size_t>(entry.part)].push_back(free_[stage]);
    ++next_[stage];
    return true;
  }

  const ScheduleTable& table_;
  const PassTimes& times_;
  std::vector<size_t> next_;
  std::vector<double> free_;
  std::array<std::vector<std::vector<double>>, kPassCount> finished_;  ///< by pass and part, one a micro-batch
  ScheduleOutcome outcome_;
};

/// That every part has every pass of every micro-batch once, on its own stage, is a matter of counting: the table_run
/// sees to the order.
void check_whole(const ScheduleTable& table) {
  std::vector<std::array<int64_t, kPassCount>> counts(table.stage_of.size());
  for (size_t stage = 0; stage < table.entries.size(); ++stage)
    for (const auto& entry : table.entries[stage]) {
      if (entry.part < 0 || entry.part >= table.parts() ||
          table.stage_of[static_cast<size_t>(entry.part)] != static_cast<int>(stage))
        internal_error("outcome_of", text_of(entry) + " is not at home on stage " + std::to_string(stage));
      ++counts[static_cast<size_t>(entry.part)][static_cast<size_t>(entry.pass)];
    }
  for (const auto& count : counts)
    for (size_t pass = 0; pass < kPassCount; ++pass) {
      const bool present = pass != static_cast<size_t>(Pass::kWeightGradient) || table.split_backward;
      if (count[pass] != (present ? table.micro_batches : 0))
        internal_error("outcome_of", "a part has " + std::to_string(count[pass]) + " passes for " +
                                         std::to_string(table.micro_batches) + " micro-batches");
    }
}

/// Follows from the order alone: the passes of a part are all on one stage.
std::vector<int64_t> most_in_flight(const ScheduleTable& table) {
  std::vector<int64_t> held(table.stage_of.size(), 0), most = held;
  const Pass end = table.split_backward ? Pass::kWeightGradient : Pass::kBackward;
  for (const auto& entries : table.entries)
    for (const auto& entry : entries) {
      const auto part = static_cast<size_t>(entry.part);
      if (entry.pass == Pass::kForward) most[part] = std::max(most[part], ++held[part]);
      if (entry.pass == end) --held[part];
    }
  return most;
}

}  // namespace

PassTimes unit_times(int parts, bool split_backward) {
  const double backward = split_backward ? 1 : 2, weights = split_backward ? 1 : 0;
  return {.of_part = std::vector<std::array<double, kPassCount>>(static_cast<size_t>(parts), {1, backward, weights})};
}

bool can_run(const ScheduleTable& table) {
  const PassTimes times = unit_times(table.parts(), table.split_backward);
  return TableRun(table, times).run();
}

ScheduleOutcome outcome_of(const ScheduleTable& table, const PassTimes& times) {
  check_whole(table);
  TableRun table_run(table, times);
  if (!table_run.run()) internal_error("outcome_of", "the schedule waits for ever: " + table_run.blocked());
  table_run.outcome().in_flight = most_in_flight(table);
  return std::move(table_run.outcome());
}

}  // namespace ramet::layout
