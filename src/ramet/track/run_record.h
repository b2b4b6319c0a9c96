#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "ramet/track/run_log.h"

namespace ramet::track {

/// How a run ended, or that it has not, or that it was only planned (`ramet plan --keep`).
enum class RunStatus { kRunning, kDone, kInterrupted, kFailed, kKilled, kPlanned };
/// "running", "done", "interrupted", "failed", "killed", "planned"
std::string_view name_of(RunStatus status);

/// The facts in the folder of a run. Damage leaves fields empty; reading never fails.
struct RunRecord {
  std::filesystem::path path;
  std::string id, name, started, version, command, git, kernel_class, machine, problem;
  RunStatus status = RunStatus::kKilled;
  std::vector<std::pair<std::string, std::string>> recipe;  ///< "train.steps" and its value, in the file's order
  RunLog log;
  std::vector<std::string> checkpoints;  ///< names, oldest first
  std::vector<std::pair<std::string, std::string>>
      facts;  ///< of the last "start" and "end" events: planned_bytes, weights_hash, ...

  int64_t steps() const { return log.steps.empty() ? 0 : log.steps.rbegin()->first; }
  /// A value of the recipe as text, or "".
  std::string recipe_value(const std::string& key) const;
};

/// The lines of a recipe that Ramet printed, as keys and values. Not a parser of TOML: only what print_recipe writes.
std::vector<std::pair<std::string, std::string>> recipe_lines(const std::string& text);

/// Reads what stands beside the log of a run: no metrics, no events, no status.
RunRecord read_run_facts(const std::filesystem::path& path);
/// Reads one run.
RunRecord read_run(const std::filesystem::path& path);
/// All runs below `folder`, oldest first.
std::vector<RunRecord> list_runs(const std::filesystem::path& folder);
/// Whether a run came from another tracker (track/imported_run.h): it has metrics, but neither a recipe nor weights.
bool is_imported(const std::filesystem::path& run);
/// Throws Error for an imported run, which `doing` ("train --resume") cannot use.
void refuse_imported(const std::filesystem::path& run, const std::string& doing);
/// The run that a person means: a run's folder, one of its checkpoints, its id below `folder`, the end of its id, or
/// "latest" (of those that were not imported). Throws Error naming the nearest.
std::filesystem::path find_run(const std::string& text, const std::filesystem::path& folder);

/// Metrics by step as CSV: one row a step, a column for each metric.
std::string export_csv(const RunRecord& run);
/// The whole run as JSON: recipe, facts, metrics by name as lists of [step, value].
std::string export_json(const RunRecord& run);

}  // namespace ramet::track
