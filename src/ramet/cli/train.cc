#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>

#include "ramet/base/file.h"
#include "ramet/base/version.h"
#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/cli/layout_search.h"
#include "ramet/cli/task.h"
#include "ramet/report/memory.h"
#include "ramet/report/numerics.h"
#include "ramet/track/catalogue.h"
#include "ramet/track/run_directory.h"
#include "ramet/track/run_log.h"
#include "ramet/train/plan_recipe.h"
#include "ramet/transport/process.h"

namespace ramet::cli {
namespace {

using train::train;  // the function, not its folder
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

/// Shows what comes before the first step, once it has taken longer than anyone waits without a word.
class StartProgress {
 public:
  void operator()(std::string_view what, int64_t done, int64_t total) {
    constexpr std::chrono::seconds kPatience(3);
    const bool late = std::chrono::steady_clock::now() - started_ > kPatience;
    if (!shown_ && (!late || done >= total)) return;
    shown_ = true;
    bar_.show(what, done, total);
  }

 private:
  ByteProgress bar_;
  bool shown_ = false;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

struct TrainArguments : ModelOptions {
  std::string recipe, resume, exactly;
  int64_t steps = 0, seeds = 0, check_numerics = 0;
  bool profile = false;
};

/// Runs of several seeds are told apart by their names.
std::string seed_name(const std::string& name, int64_t seed) { return name + "-seed" + std::to_string(seed); }

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
  Reporter(const Recipe& recipe, int64_t begin, int64_t end, RunLogWriter& log, fs::path numerics, bool json)
      : progress_(json ? nullptr : std::make_unique<StepProgress>(recipe.name, begin, end)),
        log_(log),
        numerics_(std::move(numerics)),
        shares_(!recipe.is_task()) {}

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
      progress_->line("  held out, after " + std::to_string(done) + " steps: " + numbers_text(metrics, shares_));
    else
      JsonLine().set("event", "evaluation").set("step", done).set(held_out).print();
  }
  void on_checkpoint(int64_t done, const fs::path& path) override {
    log_.event(JsonLine().set("event", "checkpoint").set("step", done).set("path", path.string()).text());
    if (!progress_) JsonLine().set("event", "checkpoint").set("step", done).set("path", path.string()).print();
  }
  void on_numerics(const NumericsReport& report) override {
    char name[40];
    std::snprintf(name, sizeof name, "step-%08lld.json", static_cast<long long>(report.step));
    fs::create_directories(numerics_);
    write_file_atomic(numerics_ / name, json_of(report) + "\n");
    const NumericsFinding* first = report.first_out_of_range();
    JsonLine event;
    event.set("event", "numerics")
        .set("step", report.step)
        .set("tensors", static_cast<int64_t>(report.findings.size()))
        .set("path", (numerics_ / name).string());
    if (first)
      event.set("first_out_of_range", std::string(name_of(first->record.row.kind)) + " " + first->record.row.name)
          .set("overflow", first->overflow)
          .set("underflow", first->underflow);
    log_.event(event.text());
    if (progress_)
      progress_->line(text_of(report) + "  all of them: " + (numerics_ / name).string());
    else
      event.print();
  }
  void finish() { progress_.reset(); }

 private:
  std::unique_ptr<StepProgress> progress_;
  RunLogWriter& log_;
  fs::path numerics_;
  const bool shares_;
};

/// A rank that does not lead trains and says nothing.
class Silence : public TrainingObserver {
 public:
  void on_step(int64_t, const Numbers&) override {}
  void on_evaluation(int64_t, const Numbers&) override {}
  void on_checkpoint(int64_t, const fs::path&) override {}
};

/// What was planned for every device, and the arena that it has.
std::string devices_json(const Cluster& cluster) {
  std::string text;
  const std::vector<int64_t>& arenas = cluster.arena_bytes();
  for (size_t device = 0; device < arenas.size(); ++device) {
    const Executable& exe =
        cluster.stages()[static_cast<size_t>(cluster.mesh().position(static_cast<int>(device)).stage)];
    text += std::string(text.empty() ? "[" : ",") + JsonLine()
                                                        .set("device", static_cast<int64_t>(device))
                                                        .set("planned_bytes", exe.planned_bytes())
                                                        .set("streaming_bytes", exe.streaming_bytes)
                                                        .set("arena_bytes", arenas[device])
                                                        .text();
  }
  return text + "]";
}

/// One `ramet train`, from its arguments to its last line. Under MPI all ranks train, and the leading one keeps the
/// run.
class TrainCommand {
 public:
  TrainCommand(TrainArguments arguments, const Session& session)
      : arguments_(std::move(arguments)), session_(session) {}

  int run() {
    if (!arguments_.resume.empty()) return run_one({});
    const Recipe recipe = opened_recipe();
    const int64_t seeds = arguments_.seeds > 0 ? arguments_.seeds : recipe.train.seeds;
    return seeds > 1 ? run_seeds(recipe, seeds) : run_one(recipe);
  }

 private:
  /// One run after another, and then what they have in common.
  int run_seeds(const Recipe& recipe, int64_t seeds) {
    std::vector<SeedResult> results;
    const std::string exactly = arguments_.exactly;
    for (int64_t i = 0; i < seeds && !stop_asked.load(); ++i) {
      Recipe its = recipe;
      its.train.seeds = 1;
      its.train.seed = recipe.train.seed + i;
      its.name = seed_name(recipe.name, its.train.seed);
      if (!exactly.empty()) arguments_.exactly = (fs::path(exactly) / its.name).string();
      run_one(its);
      if (!interrupted_) results.push_back({its.train.seed, run_path_, results_});
    }
    if (session_.leads()) tell_seeds(recipe.name, results, session_.json);
    return 0;
  }

  int run_one(const std::optional<Recipe>& given) {
    std::optional<RunDirectory> directory;
    if (!arguments_.resume.empty()) find_resumed();
    if (!arguments_.resume.empty() && session_.leads()) directory.emplace(RunDirectory::reopen(resumed_));
    const Recipe recipe = given ? *given : opened_recipe();
    TrainerOptions options = arguments_.trainer(session_.mpi.get());
    options.profile = arguments_.profile;
    Preparation preparation = prepare(recipe);
    for (const auto& remark : preparation.remarks) tell(remark);
    std::optional<StartProgress> start(std::in_place);
    if (session_.leads() && !session_.json)
      options.progress = [&start](std::string_view what, int64_t done, int64_t total) {
        if (start) (*start)(what, done, total);
      };
    Trainer trainer(std::move(preparation), options);
    const Recipe& complete = trainer.preparation().recipe;
    if (checkpoint_) {
      const std::string warnings = trainer.restore(Checkpoint(*checkpoint_));
      for (size_t at = 0; at < warnings.size();) {
        const size_t end = warnings.find('\n', at);
        tell(warnings.substr(at, end - at));
        at = end + 1;
      }
    } else {
      if (!resumed_.empty()) tell("the run has no checkpoint yet: it begins again");
      trainer.initialize();
    }
    start.reset();  // ends the bar
    if (!session_.leads()) return follow(trainer);
    if (!directory) {
      const RunFacts facts{complete.name, print_recipe(complete), session_.command, trainer.kernel_class(),
                           trainer.threads()};
      directory.emplace(arguments_.exactly.empty() ? RunDirectory::create(arguments_.runs, facts)
                                                   : RunDirectory::create_at(arguments_.exactly, facts));
      if (trainer.preparation().tokenizer) trainer.preparation().tokenizer->save(directory->tokenizer());
    }
    return train_in(*directory, trainer);
  }

  void find_resumed() {
    resumed_ = find_run(arguments_.resume, arguments_.runs);
    const fs::path named = fs::path(arguments_.resume).lexically_normal();
    if (const auto all = list_checkpoints(resumed_ / "checkpoints"); !all.empty()) checkpoint_ = all.back();
    std::error_code error;
    if (!is_run(named) && fs::is_directory(named, error)) checkpoint_ = named;  // one of its checkpoints
  }

  void tell(const std::string& text) const {
    if (session_.leads()) warn(text);
  }

  Recipe opened_recipe() const {
    const bool search = RecipePlanner::is_automatic(arguments_.layout);
    if (search && session_.mpi)
      throw Error({.what = "every rank would search for a layout of its own",
                   .where = "--layout",
                   .found = "'auto' under mpirun",
                   .remedy = "Give the layout that `ramet plan RECIPE --layout auto` prints"});
    ModelOptions plain = arguments_;
    if (search) plain.layout.clear();
    const Recipe recipe = resumed_.empty() ? open_recipe(arguments_.recipe, plain) : resumed_recipe(plain.layout);
    return search ? with_best_layout(recipe, arguments_, session_.json) : recipe;
  }

  Recipe resumed_recipe(const std::string& layout) const {
    Recipe recipe = load_recipe(resumed_ / "recipe.toml");
    change_resumed_recipe(recipe, arguments_.settings);
    begin_from_run(recipe, resumed_, checkpoint_.has_value());
    if (!layout.empty()) set_layout(recipe, layout);
    return recipe;
  }

  /// What a rank that does not lead does beside the leading one: the same calls.
  int follow(Trainer& trainer) {
    catch_stop_signals();
    Silence silence;
    train(trainer,
          {.stop_at = arguments_.steps,
           .checkpoints = {},
           .best = {},
           .stop = &stop_asked,
           .check_every = arguments_.check_numerics},
          silence);
    trainer.weights_hash();
    return 0;
  }

  int train_in(const RunDirectory& directory, Trainer& trainer) {
    RunLogWriter log(directory.log());
    const Recipe& recipe = trainer.preparation().recipe;
    const int64_t begin = trainer.steps_done(), end = arguments_.steps > 0 ? arguments_.steps : recipe.train.steps;
    JsonLine start;
    start.set("event", "start")
        .set("from_step", begin)
        .set("to_step", end)
        .set("planned_bytes", trainer.planned_bytes())
        .set("compile_seconds", trainer.compiled().seconds)
        .set("kernel_class", trainer.kernel_class())
        .set("threads", static_cast<int64_t>(trainer.threads()))
        .set("layout", recipe.layout)
        .set("devices", static_cast<int64_t>(trainer.cluster().mesh().devices()))
        .set("ranks", static_cast<int64_t>(trainer.cluster().ranks()))
        .set("version", version())
        .set("run_directory", directory.path().string());
    log.event(start.text());
    if (session_.json)
      start.print();
    else
      std::fprintf(stderr, "%s: %s planned, compiled in %s, %d threads; run %s\n", recipe.name.c_str(),
                   format_size(trainer.planned_bytes()).c_str(), duration_text(trainer.compiled().seconds).c_str(),
                   trainer.threads(), directory.path().c_str());
    catch_stop_signals();
    Reporter reporter(recipe, begin, end, log, directory.numerics(), session_.json);
    try {
      const TrainingResult result =
          train(trainer,
                {.stop_at = arguments_.steps,
                 .checkpoints = directory.checkpoints(),
                 .best = directory.best(),
                 .stop = &stop_asked,
                 .check_every = arguments_.check_numerics},
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
      if (!trainer.cluster().stopped()) throw;
      ErrorParts parts = error.parts();
      parts.remedy +=
          (parts.remedy.empty() ? "" : ". ") +
          (list_checkpoints(directory.checkpoints()).empty()
               ? std::string("No checkpoint had been saved yet")
               : "Go on from the last checkpoint with `ramet train --resume " + directory.path().string() + "`");
      throw Error(std::move(parts), ErrorKind::kFailure);
    }
  }

  void finish(const TrainingResult& result, const RunDirectory& directory, Trainer& trainer, RunLogWriter& log) {
    samples_per_step_ = static_cast<double>(trainer.preparation().samples_per_step());
    const Recipe& recipe = trainer.preparation().recipe;
    const std::string weights_hash = trainer.weights_hash();
    JsonLine end;
    end.set("event", "end")
        .set("status", result.interrupted ? "interrupted" : "done")
        .set("steps", result.steps)
        .set("loss", number_of(result.last_step, "loss"))
        .set("weights_hash", weights_hash)
        .set("tokens_per_second", result.tokens_per_second)
        .set("step_seconds", result.step_seconds)
        .set("samples_per_second", result.step_seconds > 0 ? samples_per_step_ / result.step_seconds : 0)
        .set("planned_bytes", trainer.planned_bytes())
        .set("measured_peak_bytes", measured_peak_bytes())
        .set("compile_seconds", trainer.compiled().seconds)
        .set_json("devices", devices_json(trainer.cluster()))
        .set("run_directory", directory.path().string())
        .set("checkpoint", result.checkpoint.string());
    const bool scales = recipe.train.loss_scale.automatic;
    if (scales)
      end.set("loss_scale", trainer.loss_scale().scale).set("skipped_steps", trainer.loss_scale().skipped);
    for (const auto& [name, value] : result.last_evaluation) end.set("held_out_" + name, value);
    for (const auto& [name, value] : result.best_evaluation) end.set("best_" + name, value);
    if (!result.best_evaluation.empty()) end.set("best_steps", result.best_steps);
    keep_results(result, directory);
    log.event(end.text());
    const bool written = log.flush();
    if (log.dropped() > 0) warn(std::to_string(log.dropped()) + " metrics were not logged: the disk was too slow");
    if (!written) warn("the end of the run's log could not be written (" + log.problem() + ")");
    if (arguments_.profile) tell_profile(trainer, result.steps);
    if (session_.json) {
      end.print();
      return;
    }
    std::printf("%s after %lld steps: %s\n", result.interrupted ? "stopped" : "done",
                static_cast<long long>(result.steps), numbers_text(results_of(result.last_step)).c_str());
    if (!result.last_evaluation.empty()) std::printf("held out: %s\n", numbers_text(result.last_evaluation, !recipe.is_task()).c_str());
    if (!result.best_evaluation.empty() && result.best_steps < result.steps)
      std::printf("best, after %lld steps: %s\n", static_cast<long long>(result.best_steps),
                  numbers_text(result.best_evaluation, false).c_str());
    if (scales)
      std::printf("loss scale: %s, %s steps skipped\n", number_text(trainer.loss_scale().scale).c_str(),
                  number_text(static_cast<double>(trainer.loss_scale().skipped)).c_str());
    std::printf("memory: %s planned, %s at the peak of the process\n", format_size(trainer.planned_bytes()).c_str(),
                format_size(measured_peak_bytes()).c_str());
    std::printf("weights %s\nrun %s\n", weights_hash.c_str(), directory.path().c_str());
    if (result.interrupted) std::printf("continue with: ramet train --resume %s\n", directory.path().c_str());
  }

  /// For the summary of several seeds: the last evaluation, and of a task the best one as well.
  void keep_results(const TrainingResult& result, const RunDirectory& directory) {
    run_path_ = directory.path().string();
    interrupted_ = result.interrupted;
    results_ = result.last_evaluation.empty() ? results_of(result.last_step) : result.last_evaluation;
    for (const auto& [name, value] : result.best_evaluation)
      if (name != "loss") results_.emplace_back("best_" + name, value);
    results_.emplace_back("samples_per_second", result.step_seconds > 0 ? samples_per_step_ / result.step_seconds : 0);
  }

  void tell_profile(const Trainer& trainer, int64_t steps) const {
    for (const int device : trainer.cluster().local_devices()) {
      if (trainer.cluster().mesh().devices() > 1) std::fprintf(stderr, "device %d:\n", device);
      std::fputs(profile_text(trainer.cluster().profile_by_kernel(device), steps).c_str(), stderr);
    }
  }

  TrainArguments arguments_;
  const Session& session_;
  fs::path resumed_;  ///< the run to go on with; empty for a new one
  std::optional<fs::path> checkpoint_;
  Numbers results_;  ///< of the run that ended last
  std::string run_path_;
  bool interrupted_ = false;
  double samples_per_step_ = 0;
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
  add_time_limit_option(*command, *arguments);
  command
      ->add_option("--steps", arguments->steps,
                   "end after so many steps in all (default: train.steps); the schedule stays the recipe's")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}));
  command
      ->add_option("--seeds", arguments->seeds,
                   "make so many runs one after another, with the recipe's seed and those that follow it (default: "
                   "train.seeds), and tell their mean and spread")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}))
      ->excludes(resume);
  add_runs_option(*command, arguments->runs);
  command
      ->add_option("--run", arguments->exactly,
                   "make the run in exactly this folder instead of a new one below --run-dir; with several seeds, below it")
      ->type_name("DIR")
      ->excludes(resume);
  command->add_flag("--profile", arguments->profile, "time every kernel, and print at the end where the time went");
  command
      ->add_option("--check-numerics", arguments->check_numerics,
                   "before the first step and every EVERY steps (default: 100) count the exponents of weights, optimizer "
                   "states, gradients and activations, write them into the run's folder, and name the first tensor that "
                   "leaves its type's range. Changes no bit; a check takes about as long as a step")
      ->type_name("EVERY")
      ->expected(0, 1)
      ->default_str("100")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}));
  add_json_option(*command, session);
  command->footer(
      "Under `mpirun -n N ramet train ...` every rank runs an equal share of the layout's devices.\n"
      "The run's folder keeps the complete recipe, the machine, a log of all metrics and the checkpoints.\n"
      "Ctrl-C ends the step, saves a checkpoint and stops; a second one stops at once.");
  command->callback([arguments, &session] {
    session.action = [arguments, &session] {
      if (arguments->recipe.empty() && arguments->resume.empty())
        throw Error({.what = "needs a recipe, or a run to go on with",
                     .where = "train",
                     .remedy = "`ramet train RECIPE` or `ramet train --resume RUN`"});
      join_job(session);
      return TrainCommand(*arguments, session).run();
    };
  });
}

}  // namespace ramet::cli
