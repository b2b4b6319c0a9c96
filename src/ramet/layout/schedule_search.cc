#include "ramet/layout/schedule_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace ramet::layout {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kMostBeyond = 2;  // more in flight than this costs more memory than the time is worth

/// Fills a table by running it, with at most `limits[stage]` micro-batches in flight in a stage's parts (the last
/// part not counted: its backward pass follows at once).
class GreedyRun {
 public:
  GreedyRun(const ScheduleTable& table, const PassTimes& times, const std::vector<int64_t>& limits)
      : table_(table),
        times_(times),
        limits_(limits),
        free_(limits.size(), 0),
        held_(limits.size(), 0),
        forward_done_(limits.size(), 0) {
    table_.entries.assign(limits.size(), {});
    for (auto& finished : finished_) finished.resize(table.stage_of.size());
    for (int stage = 0; stage < table_.stages(); ++stage) order_.push_back(forward_order(stage));
  }

  /// The table and the time it takes, or nothing when these limits let no stage go on.
  std::optional<std::pair<ScheduleTable, double>> run() {
    const int64_t passes = table_.split_backward ? 3 : 2;
    for (int64_t left = passes * table_.parts() * table_.micro_batches; left > 0; --left) {
      int best = -1;
      double best_start = kNever;
      for (int stage = 0; stage < table_.stages(); ++stage)
        if (const double start = earliest(stage); start < best_start) best = stage, best_start = start;
      if (best < 0) return {};
      take(best, best_start);
    }
    return std::pair(std::move(table_), *std::max_element(free_.begin(), free_.end()));
  }

 private:
  bool is_last(int part) const { return part + 1 == table_.parts(); }

  /// Groups of as many micro-batches as there are stages take turns on a stage's parts.
  std::vector<ScheduleEntry> forward_order(int stage) const {
    std::vector<ScheduleEntry> order;
    const int64_t group = table_.stages();
    for (int64_t first = 0; first < table_.micro_batches; first += group)
      for (int part = stage; part < table_.parts(); part += table_.stages())
        for (int64_t micro = first; micro < std::min(first + group, table_.micro_batches) && !is_last(part); ++micro)
          order.push_back({Pass::kForward, part, micro});
    return order;
  }

  int64_t done(Pass pass, int part) const {
    return static_cast<int64_t>(finished_[static_cast<size_t>(pass)][static_cast<size_t>(part)].size());
  }
  /// When what part `from` made in this pass for the micro-batch is at part `to`.
  double arrival(Pass pass, int from, int to, int64_t micro) const {
    if (micro >= done(pass, from)) return kNever;
    const bool moves = table_.stage_of[static_cast<size_t>(from)] != table_.stage_of[static_cast<size_t>(to)];
    return finished_[static_cast<size_t>(pass)][static_cast<size_t>(from)][static_cast<size_t>(micro)] +
           (moves ? times_.transfer : 0);
  }
  double ready(const ScheduleEntry& entry) const {
    if (entry.micro >= table_.micro_batches) return kNever;
    if (entry.pass == Pass::kWeightGradient) return arrival(Pass::kBackward, entry.part, entry.part, entry.micro);
    if (entry.pass == Pass::kForward)
      return entry.part == 0 ? 0 : arrival(Pass::kForward, entry.part - 1, entry.part, entry.micro);
    const double own = arrival(Pass::kForward, entry.part, entry.part, entry.micro);
    return is_last(entry.part) ? own : std::max(own, arrival(Pass::kBackward, entry.part + 1, entry.part, entry.micro));
  }

  /// Calls `use(entry, ready)` for the entries that the stage could do next, in order of preference.
  template <typename Use>
  void for_candidates(int stage, const Use& use) const {
    const auto offer = [&](const ScheduleEntry& entry) {
      if (const double at = ready(entry); at < kNever) use(entry, at);
    };
    const int last = table_.parts() - 1, p = table_.stages();
    const int top = last - ((last - stage) % p + p) % p;  // the stage's last part
    for (int part = top; part >= 0; part -= p) offer({Pass::kBackward, part, done(Pass::kBackward, part)});
    if (top == last) offer({Pass::kForward, last, done(Pass::kForward, last)});
    const auto& order = order_[static_cast<size_t>(stage)];
    const size_t next = forward_done_[static_cast<size_t>(stage)];
    if (next < order.size() && held_[static_cast<size_t>(stage)] < limits_[static_cast<size_t>(stage)])
      offer(order[next]);
    if (!table_.split_backward) return;
    for (int part = top; part >= 0; part -= p) offer({Pass::kWeightGradient, part, done(Pass::kWeightGradient, part)});
  }

  double earliest(int stage) const {
    double start = kNever;
    for_candidates(stage, [&](const ScheduleEntry&, double at) {
      start = std::min(start, std::max(at, free_[static_cast<size_t>(stage)]));
    });
    return start;
  }

  void take(int stage, double start) {
    const auto s = static_cast<size_t>(stage);
    std::optional<ScheduleEntry> chosen;
    for_candidates(stage, [&](const ScheduleEntry& entry, double at) {
      if (!chosen && at <= start) chosen = entry;
    });
    if (!is_last(chosen->part)) {
      if (chosen->pass == Pass::kForward) ++held_[s], ++forward_done_[s];
      if (chosen->pass == (table_.split_backward ? Pass::kWeightGradient : Pass::kBackward)) --held_[s];
    }
    free_[s] = start + times_.of(*chosen);
    finished_[static_cast<size_t>(chosen->pass)][static_cast<size_t>(chosen->part)].push_back(free_[s]);
    table_.entries[s].push_back(*chosen);
  }

  ScheduleTable table_;
  const PassTimes& times_;
  const std::vector<int64_t>& limits_;
  std::vector<double> free_;
  std::vector<int64_t> held_;
  std::vector<size_t> forward_done_;
  std::vector<std::vector<ScheduleEntry>> order_;
  std::array<std::vector<std::vector<double>>, kPassCount> finished_;  ///< by pass and part, one a micro-batch
};

/// Modulo scheduling: one micro-batch's passes are given times such that the next one can follow a period later, all of
/// them the same, without two passes of a stage at once; the period is what the busiest stage needs for a micro-batch.
/// A stage's passes form one block in the period, so that its free time stays in one piece too.
class Periodic {
 public:
  Periodic(const ScheduleTable& table, const PassTimes& times) : table_(table), times_(times) {
    std::vector<double> load(table.entries.size(), 0);
    for (int part = 0; part < table.parts(); ++part)
      for (const Pass pass : {Pass::kForward, Pass::kBackward, Pass::kWeightGradient})
        load[stage_of(part)] += times.of({pass, part, 0});
    period_ = *std::max_element(load.begin(), load.end());
    blocks_.resize(load.size());
  }

  ScheduleTable run() {
    const int last = table_.parts() - 1;
    double ready = 0;
    std::vector<double> backward_ends(table_.stage_of.size());
    for (int part = 0; part <= last; ++part) ready = place({Pass::kForward, part, 0}, ready) + transfer(part, part + 1);
    for (int part = last; part >= 0; --part) {
      const double end = place({Pass::kBackward, part, 0}, ready);
      backward_ends[static_cast<size_t>(part)] = end;
      ready = end + transfer(part, part - 1);
    }
    for (int part = last; part >= 0 && table_.split_backward; --part)
      place({Pass::kWeightGradient, part, 0}, backward_ends[static_cast<size_t>(part)]);
    for (size_t stage = 0; stage < blocks_.size(); ++stage) table_.entries[stage] = in_order(blocks_[stage]);
    return std::move(table_);
  }

 private:
  struct Block {
    double begin = 0, end = 0;  ///< of the passes, in any period
    std::vector<std::pair<double, ScheduleEntry>> passes;
  };
  size_t stage_of(int part) const { return static_cast<size_t>(table_.stage_of[static_cast<size_t>(part)]); }
  double transfer(int from, int to) const {
    return to < 0 || to >= table_.parts() || stage_of(from) == stage_of(to) ? 0 : times_.transfer;
  }

  /// The first time from `ready` on that is a whole number of periods away from `time`.
  double first_like(double time, double ready) const {
    return time + period_ * std::ceil((ready - time) / period_ - 1e-9);
  }

  /// Gives the pass the first time from `ready` on that is beside its stage's block; returns its end.
  double place(const ScheduleEntry& entry, double ready) {
    Block& block = blocks_[stage_of(entry.part)];
    const double seconds = times_.of(entry);
    double start = ready;
    if (block.passes.empty()) {
      block.begin = start, block.end = start + seconds;
    } else {
      const double behind = first_like(block.end, ready), before = first_like(block.begin - seconds, ready);
      start = std::min(behind, before);
      (behind <= before ? block.end : block.begin) += behind <= before ? seconds : -seconds;
    }
    block.passes.emplace_back(start, entry);
    return start + seconds;
  }

  std::vector<ScheduleEntry> in_order(const Block& block) const {
    std::vector<std::pair<double, ScheduleEntry>> timed;
    for (int64_t micro = 0; micro < table_.micro_batches; ++micro)
      for (const auto& [start, entry] : block.passes)
        timed.emplace_back(start + static_cast<double>(micro) * period_, ScheduleEntry{entry.pass, entry.part, micro});
    std::stable_sort(timed.begin(), timed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<ScheduleEntry> entries;
    for (const auto& [start, entry] : timed) entries.push_back(entry);
    return entries;
  }

  ScheduleTable table_;
  const PassTimes& times_;
  double period_ = 0;
  std::vector<Block> blocks_;
};

/// Times without zeros, which would leave the order of two passes open.
PassTimes positive(PassTimes times, bool split_backward) {
  double most = 0;
  for (const auto& part : times.of_part) most = std::max({most, part[0], part[1], part[2]});
  for (auto& part : times.of_part)
    for (int pass = 0; pass < (split_backward ? 3 : 2); ++pass)
      part[static_cast<size_t>(pass)] = std::max({part[static_cast<size_t>(pass)], 1e-6 * most, 1e-300});
  return times;
}

/// Micro-batches in flight that the known schedules of as many stages as there are hops would keep.
std::vector<int64_t> least_limits(const ScheduleTable& table) {
  const int64_t p = table.stages(), per_stage = table.parts() / p, hops = p + 1;
  std::vector<int64_t> limits;
  for (int64_t stage = 0; stage < p; ++stage) {
    int64_t limit = table.split_backward ? hops : hops - stage;
    if (per_stage > 1) limit = 2 * (hops - 1 - stage) + (per_stage - 1) * std::min(p, table.micro_batches) + 1;
    limits.push_back(limit);
  }
  return limits;
}

}  // namespace

ScheduleTable search_schedule(const ScheduleTable& table, const PassTimes& given) {
  const PassTimes times = positive(given, table.split_backward);
  ScheduleTable best = Periodic(table, times).run();
  double best_time = outcome_of(best, times).makespan;
  std::vector<int64_t> limits = least_limits(table);
  for (int beyond = 0; beyond <= kMostBeyond; ++beyond) {
    auto trial = GreedyRun(table, times, limits).run();
    if (trial && trial->second < best_time * (1 - 1e-9)) best_time = trial->second, best = std::move(trial->first);
    for (auto& limit : limits) ++limit;
  }
  return best;
}

}  // namespace ramet::layout
