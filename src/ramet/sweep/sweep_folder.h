#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ramet/sweep/sweep_state.h"

namespace ramet::sweep {

/// The folder of a sweep, RUNS/sweeps/NAME: sweep.toml (complete), recipe.toml (what points change), log.ramet (its
/// events), output/ (what its runs printed).
class SweepFolder {
 public:
  explicit SweepFolder(std::filesystem::path path) : path_(std::move(path)) {}
  /// Makes the folder of a new sweep. Throws Error when there is one of that name, or the recipe is faulty.
  static SweepFolder create(const std::filesystem::path& runs, SweepOptions options);
  /// The sweep that a person means: its folder, or its name below `runs`. Throws Error naming the nearest.
  static SweepFolder find(const std::string& text, const std::filesystem::path& runs);

  const std::filesystem::path& path() const { return path_; }
  std::string name() const { return path_.filename().string(); }
  std::filesystem::path runs() const { return path_.parent_path().parent_path(); }
  std::filesystem::path options_file() const { return path_ / "sweep.toml"; }
  std::filesystem::path recipe() const { return path_ / "recipe.toml"; }
  std::filesystem::path log() const { return path_ / "log.ramet"; }
  std::filesystem::path lock() const { return path_ / "lock"; }
  std::filesystem::path output(const std::string& run) const { return path_ / "output" / (run + ".txt"); }
  SweepOptions options() const { return load_sweep(options_file()); }
  /// What the log tells. A sweep whose process is gone without a word is "killed".
  SweepState state(const SweepOptions& options) const;

 private:
  std::filesystem::path path_;
};

/// Names of the sweeps below `runs`, in alphabetical order.
std::vector<std::string> list_sweeps(const std::filesystem::path& runs);

/// Settings of one run of a point: its values, its seed and its name.
std::vector<std::string> point_settings(const SweepOptions& options, const PointValues& values);
/// The complete text of these values: "train.schedule.learning_rate = 0.001, ..."
std::string text_of(const SweepOptions& options, const PointValues& values);

/// Writes the sweep as the group into a run's annotations.json, where nobody has named another one; the rest stays.
void annotate_group(const std::filesystem::path& run, const std::string& group);

/// A sweep as JSON, for the page: {name, status, reason, method, metric, goal, of, seeds, count, started, seconds,
/// parameters: [{key, kind, low, high, step, scale, values}], points: [{point, status, values, score, spread, rung,
/// steps, planned_bytes, process_bytes, reason, runs: [{id, seed, status, steps, score, seconds, error}]}], best,
/// best_score}. Statuses of points: refused, running, scored, stopped (not promoted), failed. Throws Error when the
/// folder is no sweep.
std::string summary_json(const std::filesystem::path& folder);
/// The same of a sweep that is open.
std::string summary_json(const SweepFolder& folder, const SweepOptions& options, const SweepState& state);
/// "refused", "running", "scored", "stopped", "failed"
std::string status_of(const SweepOptions& options, const SweepState& state, int64_t point);

}  // namespace ramet::sweep
