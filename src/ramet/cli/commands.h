#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ramet/recipe/prepare.h"
#include "ramet/train/checkpoint.h"

namespace CLI {
class App;
}
namespace ramet::transport {
class MpiSession;
}  // namespace ramet::transport

namespace ramet::cli {

/// The command that was asked for: its parser sets `action`, which `main` runs. The result of `action` is the exit
/// status.
struct Session {
  std::function<int()> action;
  std::vector<std::string> command;  ///< as it was typed
  bool json = false;
  std::shared_ptr<MpiSession> mpi{};  ///< the job of which this process is a rank; made by `join_job`

  /// Whether this process prints messages: rank 0, or the only process.
  bool leads() const;
};
/// Meets the other ranks, if this process was started by mpirun: for the commands that run a layout. Null when it was
/// not.
MpiSession* join_job(Session& session);

void add_train(CLI::App& app, Session& session);
void add_sweep(CLI::App& app, Session& session);
void add_probe(CLI::App& app, Session& session);
void add_plan(CLI::App& app, Session& session);
void add_eval(CLI::App& app, Session& session);
void add_predict(CLI::App& app, Session& session);
void add_bench(CLI::App& app, Session& session);
void add_vocab(CLI::App& app, Session& session);
void add_corpus(CLI::App& app, Session& session);
void add_pack(CLI::App& app, Session& session);
void add_graphs(CLI::App& app, Session& session);
void add_molecules(CLI::App& app, Session& session);
void add_runs(CLI::App& app, Session& session);
void add_inspect(CLI::App& app, Session& session);
void add_export(CLI::App& app, Session& session);
void add_recipe(CLI::App& app, Session& session);
void add_simulate(CLI::App& app, Session& session);
void add_score(CLI::App& app, Session& session);
void add_serve(CLI::App& app, Session& session);
/// `ramet help`: the pages of --help, or all of them as one page of Markdown.
void add_help(CLI::App& app, Session& session);
/// `ramet completion`, and the hidden `ramet complete` that its scripts call.
void add_completion(CLI::App& app, Session& session);

/// Options that several commands share, and what they mean.
struct ModelOptions {
  std::vector<std::string> settings;
  int threads = 0;
  double time_limit = 0;
  std::string device_memory, layout;
  std::string runs = "runs";

  Where where(MpiSession* mpi = nullptr) const;
};
void add_model_options(CLI::App& command, ModelOptions& options);
/// --device, for the commands that compile or run programs; it is chosen for the whole process when it is parsed.
void add_device_option(CLI::App& command);
/// --layout, for the commands that run or plan a whole recipe.
void add_layout_option(CLI::App& command, ModelOptions& options);
/// --time-limit, for the commands that run it.
void add_time_limit_option(CLI::App& command, ModelOptions& options);
/// The recipe of a file, with the command line's settings and layout; of a model's file (*.ramet) the defaults with it.
Recipe open_recipe(const std::string& path, const ModelOptions& options);
/// Prints what a workload says before its run: warnings and notes.
void tell_before(const Workload& workload);
/// The layout that --layout asks for, of a recipe that was opened with these options; without it one device, whatever
/// the recipe trains on.
Layout prediction_layout(const Recipe& recipe, const ModelOptions& options);
void add_runs_option(CLI::App& command, std::string& folder);
void add_json_option(CLI::App& command, Session& session);

/// A recipe's file, a run, or one of a run's checkpoints, as the argument of a command: the recipe, and the weights to
/// take.
struct Subject {
  Recipe recipe;
  std::filesystem::path run;                        ///< empty for a recipe's file
  std::optional<std::filesystem::path> checkpoint;  ///< absent: fresh weights
};
/// Replaces paths by the copies that a run keeps of the files it began with: its tokenizer and, once there is a
/// checkpoint, the weights.
void begin_from_run(Recipe& recipe, const std::filesystem::path& run, bool has_weights);
/// Throws Error when the text names nothing. A run's weights are those of its best evaluation, where it kept them, or
/// of its newest checkpoint.
Subject find_subject(const std::string& text, const ModelOptions& options);

}  // namespace ramet::cli
