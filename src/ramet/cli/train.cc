#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>

#include "ramet/base/file.h"
#include "ramet/base/version.h"
#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/report/memory.h"
#include "ramet/runtime/process.h"
#include "ramet/track/catalogue.h"
#include "ramet/track/run_directory.h"
#include "ramet/track/run_log.h"

namespace ramet::cli {
namespace {

namespace fs = std::filesystem;

std::atomic<bool> stop_asked{false};

/// The first Ctrl-C asks the loop to end well; the second ends the program.
void catch_stop_signals() {
  struct sigaction action{};
  action.sa_handler = [](int) { stop_asked.store(true); };
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

struct TrainArguments : ModelOptions {
  std::string recipe, resume, exactly;
  int64_t steps = 0;
  bool profile = false;
};

/// Losses and accuracies: what a person wants to know of a step.
Numbers results_of(const Numbers& metrics) {
  Numbers results;
  for (const auto& number : metrics)
    if (number.first.ends_with("loss") || number.first.ends_with("accuracy")) results.push_back(number);
  return results;
}

/// What is told on the console and written into the run's log.
class Reporter : public TrainingObserver {
 public:
  Reporter(const std::string& name, int64_t begin, int64_t end, RunLogWriter& log, bool json)
      : progress_(json ? nullptr : std::make_unique<Progress>(name, begin, end)), log_(log) {}

  void on_step(int64_t done, const Numbers& metrics) override {
    log_.metrics(done, metrics);
    if (progress_)
      progress_->step(done, metrics);
    else
      JsonLine().set("event", "step").set("step", done).set(metrics).print();
  }
  void on_evaluation(int64_t done, const Numbers& metrics) override {
    Numbers held_out;
    for (const auto& [name, value] : metrics) held_out.emplace_back("held_out_" + name, value);
    log_.metrics(done, held_out);
    if (progress_)
      progress_->line("  held out, after " + std::to_string(done) + " steps: " + numbers_text(metrics));
    else
      JsonLine().set("event", "evaluation").set("step", done).set(held_out).print();
  }
  void on_checkpoint(int64_t done, const fs::path& path) override {
    log_.event(JsonLine().set("event", "checkpoint").set("step", done).set("path", path.string()).text());
    if (!progress_) JsonLine().set("event", "checkpoint").set("step", done).set("path", path.string()).print();
  }
  void finish() { progress_.reset(); }

 private:
  std::unique_ptr<Progress> progress_;
  RunLogWriter& log_;
};

/// One `ramet train`, from its arguments to its last line.
class TrainCommand {
 public:
  TrainCommand(TrainArguments arguments, const Session& session)
      : arguments_(std::move(arguments)), session_(session) {}

  int run() {
    std::optional<RunDirectory> directory;
    if (!arguments_.resume.empty()) directory.emplace(reopen());
    const Recipe recipe = directory ? resumed_recipe(*directory) : open_recipe(arguments_.recipe, arguments_);
    TrainerOptions options = arguments_.trainer();
    options.profile = arguments_.profile;
    Preparation preparation = prepare(recipe);
    for (const auto& remark : preparation.remarks) warn(remark);
    Trainer trainer(std::move(preparation), options);
    const Recipe& complete = trainer.preparation().recipe;
    if (checkpoint_) {
      const std::string warnings = trainer.restore(Checkpoint(*checkpoint_));
      for (size_t at = 0; at < warnings.size();) {
        const size_t end = warnings.find('\n', at);
        warn(warnings.substr(at, end - at));
        at = end + 1;
      }
    } else {
      if (directory) warn("the run has no checkpoint yet: it begins again");
      trainer.initialize();
    }
    if (!directory) {
      const RunFacts facts{complete.name, print_recipe(complete), session_.command, trainer.executable().kernel_class,
                           trainer.engine().threads()};
      directory.emplace(arguments_.exactly.empty() ? RunDirectory::create(arguments_.runs, facts)
                                                   : RunDirectory::create_at(arguments_.exactly, facts));
      if (trainer.preparation().tokenizer) trainer.preparation().tokenizer->save(directory->tokenizer());
    }
    return train_in(*directory, trainer);
  }

 private:
  RunDirectory reopen() {
    const fs::path path = find_run(arguments_.resume, arguments_.runs);
    RunDirectory directory = RunDirectory::reopen(path);
    const fs::path named = fs::path(arguments_.resume).lexically_normal();
    if (const auto all = list_checkpoints(directory.checkpoints()); !all.empty()) checkpoint_ = all.back();
    std::error_code error;
    if (!is_run(named) && fs::is_directory(named, error)) checkpoint_ = named;  // one of its checkpoints
    return directory;
  }

  Recipe resumed_recipe(const RunDirectory& directory) const {
    Recipe recipe = load_recipe(directory.recipe());
    change_resumed_recipe(recipe, arguments_.settings);
    if (!arguments_.layout.empty()) set_layout(recipe, arguments_.layout);
    return recipe;
  }

  int train_in(const RunDirectory& directory, Trainer& trainer) {
    RunLogWriter log(directory.log());
    const Recipe& recipe = trainer.preparation().recipe;
    const Executable& exe = trainer.executable();
    const int64_t begin = trainer.steps_done(), end = arguments_.steps > 0 ? arguments_.steps : recipe.train.steps;
    JsonLine start;
    start.set("event", "start")
        .set("from_step", begin)
        .set("to_step", end)
        .set("planned_bytes", exe.planned_bytes())
        .set("compile_seconds", trainer.compile_seconds())
        .set("kernel_class", exe.kernel_class)
        .set("threads", static_cast<int64_t>(trainer.engine().threads()))
        .set("layout", recipe.layout)
        .set("version", version())
        .set("run_directory", directory.path().string());
    log.event(start.text());
    if (session_.json)
      start.print();
    else
      std::fprintf(stderr, "%s: %s planned, compiled in %s, %d threads; run %s\n", recipe.name.c_str(),
                   format_size(exe.planned_bytes()).c_str(), duration_text(trainer.compile_seconds()).c_str(),
                   trainer.engine().threads(), directory.path().c_str());
    catch_stop_signals();
    Reporter reporter(recipe.name, begin, end, log, session_.json);
    try {
      const TrainingResult result =
          train(trainer, {.stop_at = arguments_.steps, .checkpoints = directory.checkpoints(), .stop = &stop_asked},
                reporter);
      reporter.finish();
      finish(result, directory, trainer, log);
      return 0;
    } catch (const Error& error) {
      log.event(JsonLine()
                    .set("event", "end")
                    .set("status", "failed")
                    .set("steps", trainer.steps_done())
                    .set("error", error.what())
                    .text());
      throw;
    }
  }

  void finish(const TrainingResult& result, const RunDirectory& directory, Trainer& trainer, RunLogWriter& log) {
    JsonLine end;
    end.set("event", "end")
        .set("status", result.interrupted ? "interrupted" : "done")
        .set("steps", result.steps)
        .set("loss", number_of(result.last_step, "loss"))
        .set("weights_hash", trainer.weights_hash())
        .set("tokens_per_second", result.tokens_per_second)
        .set("step_seconds", result.step_seconds)
        .set("planned_bytes", trainer.executable().planned_bytes())
        .set("measured_peak_bytes", measured_peak_bytes())
        .set("compile_seconds", trainer.compile_seconds())
        .set("run_directory", directory.path().string())
        .set("checkpoint", result.checkpoint.string());
    for (const auto& [name, value] : result.last_evaluation) end.set("held_out_" + name, value);
    log.event(end.text());
    const bool written = log.flush();
    if (log.dropped() > 0) warn(std::to_string(log.dropped()) + " metrics were not logged: the disk was too slow");
    if (!written) warn("the end of the run's log could not be written (" + log.problem() + ")");
    if (arguments_.profile)
      std::fputs(profile_text(trainer.engine().profile_by_kernel(), result.steps).c_str(), stderr);
    if (session_.json) {
      end.print();
      return;
    }
    std::printf("%s after %lld steps: %s\n", result.interrupted ? "stopped" : "done",
                static_cast<long long>(result.steps), numbers_text(results_of(result.last_step)).c_str());
    if (!result.last_evaluation.empty()) std::printf("held out: %s\n", numbers_text(result.last_evaluation).c_str());
    std::printf("memory: %s planned, %s at the peak of the process\n",
                format_size(trainer.executable().planned_bytes()).c_str(), format_size(measured_peak_bytes()).c_str());
    std::printf("weights %s\nrun %s\n", trainer.weights_hash().c_str(), directory.path().c_str());
    if (result.interrupted) std::printf("continue with: ramet train --resume %s\n", directory.path().c_str());
  }

  TrainArguments arguments_;
  const Session& session_;
  std::optional<fs::path> checkpoint_;
};

}  // namespace

void add_train(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand("train", "Train a recipe, or go on with a run");
  auto* recipe = command->add_option("recipe", arguments->recipe, "file of the recipe (see `ramet recipe --help`)")
                     ->type_name("RECIPE");
  auto* resume = command
                     ->add_option("--resume", arguments->resume,
                                  "go on with a run from its newest checkpoint, or from the checkpoint named; "
                                  "--set may then change only keys that decide no bit, and --layout all it says")
                     ->type_name("RUN");
  recipe->excludes(resume);
  add_model_options(*command, *arguments);
  add_layout_option(*command, *arguments);
  command
      ->add_option("--steps", arguments->steps,
                   "end after so many steps in all (default: train.steps); the schedule stays the recipe's")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}));
  add_runs_option(*command, arguments->runs);
  command
      ->add_option("--run", arguments->exactly,
                   "make the run in exactly this folder instead of a new one below --run-dir")
      ->type_name("DIR")
      ->excludes(resume);
  command->add_flag("--profile", arguments->profile, "time every kernel, and print at the end where the time went");
  add_json_option(*command, session);
  command->footer(
      "The run's folder keeps the complete recipe, the machine, a log of all metrics and the checkpoints.\n"
      "Ctrl-C ends the step, saves a checkpoint and stops; a second one stops at once.");
  command->callback([arguments, &session] {
    session.action = [arguments, &session] {
      if (arguments->recipe.empty() && arguments->resume.empty())
        throw Error({.what = "needs a recipe, or a run to go on with",
                     .where = "train",
                     .remedy = "`ramet train RECIPE` or `ramet train --resume RUN`"});
      return TrainCommand(*arguments, session).run();
    };
  });
}

}  // namespace ramet::cli
