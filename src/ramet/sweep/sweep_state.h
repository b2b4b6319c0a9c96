#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/sweep/draw.h"

namespace ramet::sweep {

/// One run of a point: of one seed, on all rungs that the point has reached.
struct SweepRun {
  int64_t seed = 0;      ///< number of the seed: train.seed + seed
  std::string id{};      ///< the run's folder in RUNS; "": not begun
  std::string status{};  ///< "running", "done", "interrupted", "failed", "killed"
  std::string error{};
  int64_t steps = 0;
  int64_t kills = 0;   ///< ends by a signal that was not the sweep's
  double seconds = 0;  ///< of all its processes, as far as their ends are known
  std::optional<double> score{};
};

/// One point, as the events of the sweep tell it.
struct SweepPoint {
  PointValues values;
  std::string refusal{};
  int64_t planned_bytes = 0, host_bytes = 0, process_bytes = 0, device_memory = 0, steps = 0;
  double compile_seconds = 0;
  int64_t rung = 0;                             ///< that it has reached
  std::vector<SweepRun> runs{};                 ///< by seed
  std::vector<std::optional<double>> scores{};  ///< by rung, of those that have ended
  std::vector<double> spreads{};                ///< standard deviation over the seeds, by rung

  bool refused() const { return !refusal.empty(); }
  /// Whether the point has ended on a rung: with a score, without one, or refused.
  bool settled(int64_t on_rung) const { return refused() || std::ssize(scores) > on_rung; }
  std::optional<double> score(int64_t on_rung) const {
    return std::ssize(scores) > on_rung ? scores[static_cast<size_t>(on_rung)] : std::nullopt;
  }
  /// On the last rung that has ended.
  std::optional<double> last_score() const { return scores.empty() ? std::nullopt : scores.back(); }
};

/// What the events of a sweep's log add up to. The log is the truth: a sweep that goes on reads its state from it.
struct SweepState {
  std::string id, prefix;  ///< of the sweep; what its runs' folders begin with
  std::vector<SweepPoint> points;
  std::string status = "running";  ///< "done", "interrupted", or "running" for a log without an end
  std::string reason{};            ///< why it ended
  double started = 0, seen = 0;    ///< times of the first and the last event, seconds since 1970
  double seconds = 0;              ///< that all sessions before the current one worked
  double session_started = 0;

  double active_seconds() const { return seconds + (seen - session_started); }
  /// Takes one event. What contradicts the events before it is left out: a log may be damaged.
  void apply(std::string_view event, const SweepOptions& options);
};

/// Whether score a is better than b; no score is the worst.
bool is_better(const SweepOptions& options, std::optional<double> a, std::optional<double> b);
/// Steps of a rung, for a point whose recipe has `steps`. Rung r has halving.steps x factor^r, the last one all; every
/// point has as many rungs as that takes, and one where the sweep does not halve.
int64_t rung_steps(const SweepOptions& options, int64_t rung, int64_t steps);
/// Rungs of the sweep: of its longest point.
int64_t rungs_of(const SweepOptions& options, const SweepState& state);
/// Points that go on to a rung: of those on the rung before, the best points / factor^rung, at least one; equal scores
/// by their numbers. In ascending order of number. Empty until all of the rung before have ended.
std::vector<int64_t> promoted(const SweepOptions& options, const SweepState& state, int64_t rung);
/// The best point: the best score on the highest rung; -1 without any score.
int64_t best_point(const SweepOptions& options, const SweepState& state);
/// How the first `needed` points were tried, for draw_point.
std::vector<TriedPoint> tried_points(const SweepState& state, int64_t needed);

}  // namespace ramet::sweep
