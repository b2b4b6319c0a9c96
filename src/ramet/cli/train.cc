#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>

#include "ramet/base/file.h"
#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/cli/layout_search.h"
#include "ramet/cli/task.h"
#include "ramet/front/open_model.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/plan_recipe.h"
#include "ramet/report/memory.h"
#include "ramet/report/numerics.h"
#include "ramet/track/export.h"
#include "ramet/track/run_directory.h"
#include "ramet/track/run_record.h"
#include "ramet/track/system_metrics.h"
#include "ramet/train/alerts.h"
#include "ramet/train/event_file_observer.h"
#include "ramet/train/run_recorder.h"
#include "ramet/transport/process.h"

namespace ramet::cli {
namespace {

using train::train;  // the function, not its folder
namespace fs = std::filesystem;

StopRequest stop_request;

/// The first Ctrl-C asks the loop to end well; the second ends the program.
void catch_stop_signals() {
  struct sigaction action{};
  action.sa_handler = [](int) { stop_request.ask(); };
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

/// Shows the work before the first step, once it has taken too long to stay silent.
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
  std::string recipe, resume, exactly, exported;
  int64_t steps = 0, seeds = 0, check_numerics = 0;
  bool profile = false;
};

/// Where `--export` wants a run's event files: in the run's folder, or in a folder of the run's below the one named.
/// Nothing where it wants none.
std::optional<fs::path> event_folder(const std::string& exported, const fs::path& run) {
  constexpr std::string_view kKind = "tensorboard";
  if (exported.empty()) return std::nullopt;
  if (exported == kKind) return run / kKind;
  if (exported.starts_with(std::string(kKind) + ":") && exported.size() > kKind.size() + 1)
    return fs::path(exported.substr(kKind.size() + 1)) / run.filename();
  throw Error({.what = "unknown kind of export",
               .where = "--export",
               .found = "'" + exported + "'",
               .expected = "tensorboard or tensorboard:DIR"});
}

/// The alerts of a recipe without what only the command line may ask for. A recipe may come from anywhere, and so may
/// the folder of a run that is resumed: neither may run a command here, nor have this machine speak to a server.
AlertOptions allowed_alerts(const Recipe& recipe) {
  AlertOptions alerts = recipe.track.alerts;
  for (const auto& [key, value] :
       {std::pair("track.alerts.command", &alerts.command), std::pair("track.alerts.webhook", &alerts.webhook)}) {
    const auto place = recipe.places.find(key);
    if (value->empty() || (place != recipe.places.end() && place->second == "--set")) continue;
    warn(std::string(key) + " stands in a file and is left out: give it with --set " + key + "=...");
    value->clear();
  }
  return alerts;
}

/// Runs of several seeds have different names.
std::string seed_name(const std::string& name, int64_t seed) { return name + "-seed" + std::to_string(seed); }

/// Losses and accuracies: what a person wants to know of a step.
Numbers results_of(const Numbers& metrics) {
  Numbers results;
  for (const auto& number : metrics)
    if (number.first.ends_with("loss") || number.first.ends_with("accuracy")) results.push_back(number);
  return results;
}

/// What a person sees of a run on the console.
class ConsoleObserver final : public TrainingObserver {
 public:
  ConsoleObserver(const Recipe& recipe, const std::string& units, int64_t begin, int64_t end,
                  const RunDirectory& directory)
      : progress_(std::make_unique<StepProgress>(recipe.name, units, begin, end)),
        directory_(directory),
        shares_(!recipe.is_task()) {}

  /// Prints a line above the bar.
  void line(const std::string& text) { progress_->line(text); }

  void on_step(int64_t done, const Numbers& metrics) override { progress_->step(done, metrics); }
  void on_evaluation(int64_t done, const Numbers& metrics) override {
    progress_->line("  held out, after " + std::to_string(done) + " steps: " + numbers_text(metrics, shares_));
  }
  void on_numerics(const NumericsReport& report) override {
    progress_->line(text_of(report) + "  all of them: " + directory_.numerics(report.step).string());
  }
  void on_end(const Training&, const TrainingResult&) override { progress_.reset(); }
  void on_failure(const Training&, const std::string&) override { progress_.reset(); }

 private:
  std::unique_ptr<StepProgress> progress_;
  const RunDirectory& directory_;
  const bool shares_;
};

void print_line(const std::string& text) {
  std::fputs((text + "\n").c_str(), stdout);
  std::fflush(stdout);
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
  /// One run after another, and then statistics over all of them.
  int run_seeds(const Recipe& recipe, int64_t seeds) {
    std::vector<SeedResult> results;
    const std::string exactly = arguments_.exactly;
    for (int64_t i = 0; i < seeds && !stop_request.asked(); ++i) {
      Recipe seeded = recipe;
      seeded.train.seeds = 1;
      seeded.train.seed = recipe.train.seed + i;
      seeded.name = seed_name(recipe.name, seeded.train.seed);
      if (!exactly.empty()) arguments_.exactly = (fs::path(exactly) / seeded.name).string();
      run_one(seeded);
      if (!interrupted_) results.push_back({seeded.train.seed, run_path_, results_});
    }
    if (session_.leads()) tell_seeds(recipe.name, results, session_.json);
    return 0;
  }

  int run_one(const std::optional<Recipe>& given) {
    std::optional<RunDirectory> directory;
    if (!arguments_.resume.empty()) find_resumed();
    if (!arguments_.resume.empty() && session_.leads()) directory.emplace(RunDirectory::reopen(resumed_));
    const Recipe recipe = given ? *given : opened_recipe();
    Where where = arguments_.where(session_.mpi.get());
    where.profile = arguments_.profile;
    Preparation preparation = prepare(recipe);
    if (session_.leads()) tell_before(preparation.workload);
    if (!preparation.workload.train) throw kind_of(recipe).without_samples(recipe, false);
    const Recipe complete = preparation.recipe;
    const std::shared_ptr<const Tokenizer> tokenizer = preparation.tokenizer;
    const fs::path model_file = preparation.model_file;
    std::optional<StartProgress> start(std::in_place);
    if (session_.leads() && !session_.json)
      where.progress = [&start](std::string_view what, int64_t done, int64_t total) {
        if (start) (*start)(what, done, total);
      };
    Training trainer = make_training(std::move(preparation), where);
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
    if (!session_.leads()) return follow(trainer, complete);
    if (!directory) {
      const RunFacts facts{complete.name, print_recipe(complete), session_.command, trainer.kernel_class(),
                           trainer.threads()};
      directory.emplace(arguments_.exactly.empty() ? RunDirectory::create(arguments_.runs, facts)
                                                   : RunDirectory::create_at(arguments_.exactly, facts));
      if (tokenizer) tokenizer->save(directory->tokenizer());
      if (!model_file.empty()) keep_model(model_file, directory->model());
    }
    return train_in(*directory, complete, trainer);
  }

  void find_resumed() {
    resumed_ = find_run(arguments_.resume, arguments_.runs);
    refuse_imported(resumed_, "train --resume");
    const fs::path named = fs::path(arguments_.resume).lexically_normal();
    if (const auto all = list_checkpoints(resumed_ / "checkpoints"); !all.empty()) checkpoint_ = all.back();
    std::error_code error;
    if (!is_run(named) && fs::is_directory(named, error)) checkpoint_ = named;  // one of its checkpoints
  }

  void tell(const std::string& text) const {
    if (session_.leads()) warn(text);
  }

  Recipe opened_recipe() const {
    const bool search = is_automatic_layout(arguments_.layout);
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
  int follow(Training& trainer, const Recipe& recipe) {
    const fs::path run = trainer.cluster().share_text("");
    const SystemSampler sampler(run, trainer.cluster().rank(), recipe.system_every);
    catch_stop_signals();
    train(trainer, {.stop_at = arguments_.steps, .stop = &stop_request, .check_every = arguments_.check_numerics},
          std::span<TrainingObserver* const>());
    trainer.weights_hash();
    return 0;
  }

  int train_in(const RunDirectory& directory, const Recipe& recipe, Training& trainer) {
    const int64_t begin = trainer.steps_done(), end = arguments_.steps > 0 ? arguments_.steps : recipe.train.steps;
    RunRecorder recorder(directory, session_.json ? print_line : std::function<void(const std::string&)>());
    tell_origin(recorder, recipe);
    trainer.cluster().share_text(directory.path().string());
    const SystemSampler sampler(directory.path(), trainer.cluster().rank(), recipe.system_every);
    std::optional<ConsoleObserver> console;
    // Before the others: the console still shows alerts of a run that fails, and the log has them before its end.
    const AlertOptions allowed = allowed_alerts(recipe);
    AlertObserver alerts(
        allowed, {.id = directory.path().filename().string(), .name = recipe.name, .folder = directory.path()},
        [&](const Alert& alert) {
          recorder.event(json_of(alert));
          if (console) console->line("alert: " + alert.title + ": " + alert.text);
        },
        warn);
    std::vector<TrainingObserver*> observers = {&alerts, &recorder};
    if (!session_.json) {
      std::fprintf(stderr, "%s: %s planned, compiled in %s, %d threads; run %s\n", recipe.name.c_str(),
                   format_size(trainer.planned_bytes()).c_str(), duration_text(trainer.compiled().seconds).c_str(),
                   trainer.threads(), directory.path().c_str());
      observers.push_back(&console.emplace(recipe, trainer.workload().units.name, begin, end, directory));
    }
    std::optional<EventFileObserver> events;
    if (const auto folder = event_folder(arguments_.exported, directory.path()))
      observers.push_back(&events.emplace(*folder, config_of(read_run(directory.path())), warn));
    catch_stop_signals();
    try {
      const TrainingResult result = train(trainer,
                                          {.stop_at = arguments_.steps,
                                           .checkpoints = directory.checkpoints(),
                                           .best = directory.best(),
                                           .stop = &stop_request,
                                           .check_every = arguments_.check_numerics,
                                           .on_observer_error = [](const std::string& error) { warn(error); }},
                                          observers);
      finish(result, directory, recipe, trainer, recorder);
      return 0;
    } catch (const Error& error) {
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

  /// The run and the checkpoint that this one goes on from, or whose weights it begins with.
  void tell_origin(RunRecorder& recorder, const Recipe& recipe) const {
    const auto origin =
        checkpoint_ ? origin_of(*checkpoint_, "resumed") : origin_of(recipe.model.init_from, "fine_tuned");
    if (origin) recorder.began_with(*origin);
  }

  void finish(const TrainingResult& result, const RunDirectory& directory, const Recipe& recipe, Training& trainer,
              RunRecorder& recorder) {
    samples_per_step_ = static_cast<double>(trainer.samples_per_step());
    const std::string weights_hash = trainer.weights_hash();
    keep_results(result, directory);
    if (arguments_.profile) print_profile(trainer.cluster(), result.steps);
    const std::string warnings = recorder.finish(trainer, result, weights_hash);
    if (!warnings.empty()) warn(warnings.substr(0, warnings.size() - 1));
    if (session_.json) return;
    const bool scales = recipe.train.loss_scale.automatic;
    std::printf("%s after %lld steps: %s\n", result.interrupted ? "stopped" : "done",
                static_cast<long long>(result.steps), numbers_text(results_of(result.last_step)).c_str());
    if (!result.last_evaluation.empty())
      std::printf("held out: %s\n", numbers_text(result.last_evaluation, !recipe.is_task()).c_str());
    if (!result.best_evaluation.empty() && result.best_steps < result.steps)
      std::printf("best, after %lld steps: %s\n", static_cast<long long>(result.best_steps),
                  numbers_text(result.best_evaluation, false).c_str());
    if (scales)
      std::printf("loss scale: %s, %s steps skipped\n", number_text(trainer.loss_scale().scale).c_str(),
                  number_text(static_cast<double>(trainer.loss_scale().skipped)).c_str());
    std::printf("memory: %s planned and %s on the host, %s at the peak of the process\n",
                format_size(trainer.planned_bytes()).c_str(), format_size(trainer.host_memory().total()).c_str(),
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
                   "train.seeds), and print their mean and spread")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}))
      ->excludes(resume);
  add_runs_option(*command, arguments->runs);
  command
      ->add_option(
          "--run", arguments->exactly,
          "make the run in exactly this folder instead of a new one below --run-dir; with several seeds, below it")
      ->type_name("DIR")
      ->excludes(resume);
  command
      ->add_option("--export", arguments->exported,
                   "write event files of TensorBoard beside the log as training goes, into the run's folder or into "
                   "DIR/RUN; changes no bit")
      ->type_name("tensorboard|tensorboard:DIR");
  command->add_flag("--profile", arguments->profile, "time every kernel, and print at the end where the time went");
  command
      ->add_option(
          "--check-numerics", arguments->check_numerics,
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
      event_folder(arguments->exported, "");  // an error before anything is compiled
      join_job(session);
      return TrainCommand(*arguments, session).run();
    };
  });
}

}  // namespace ramet::cli
