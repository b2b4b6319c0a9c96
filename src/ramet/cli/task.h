#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ramet/cli/commands.h"

namespace ramet::cli {

/// Arguments of eval and predict for a task's run.
struct TaskArguments {
  std::string split;              ///< "train", "dev" or "test"; empty: the command's own
  std::string file;               ///< to take instead of the split's file
  std::vector<std::string> with;  ///< further runs of the same task: an ensemble
  std::string out;                ///< predictions are written here
};

/// --split, --file and --with.
void add_task_options(CLI::App& command, TaskArguments& task);

/// Whether the runs of these arguments are answered for without a layout: a task's run with a checkpoint.
bool is_task_run(const Subject& subject);
/// Metrics of a task's run, or of an ensemble of runs, on a labelled split.
int eval_task(const Subject& subject, const TaskArguments& task, const ModelOptions& options, const Session& session);
/// Writes predictions in the task's public format, and prints the metrics if the split is labelled.
int predict_task(const Subject& subject, const TaskArguments& task, const ModelOptions& options,
                 const Session& session);

/// Results of runs that differ only in their seed: each number's mean, deviation (of a sample), least and greatest.
struct SeedResult {
  int64_t seed = 0;
  std::string run;
  Numbers numbers;
};
void tell_seeds(const std::string& name, const std::vector<SeedResult>& results, bool json);

}  // namespace ramet::cli
