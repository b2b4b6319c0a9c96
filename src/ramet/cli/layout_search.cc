#include "ramet/cli/layout_search.h"

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>

#include "ramet/base/file.h"
#include "ramet/cli/console.h"
#include "ramet/machine/machine_toml.h"
#include "ramet/recipe/plan_recipe.h"
#include "ramet/report/search.h"

namespace ramet::cli {
namespace {

std::atomic<bool> stop_asked{false};

/// While it lives, the first Ctrl-C ends the search and the second the program.
class StopOnSignal {
 public:
  StopOnSignal() {
    struct sigaction action{};
    action.sa_handler = [](int) { stop_asked.store(true); };
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    ::sigaction(SIGINT, &action, &before_);
  }
  ~StopOnSignal() { ::sigaction(SIGINT, &before_, nullptr); }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

 private:
  struct sigaction before_{};
};

/// How far the search is; elsewhere than on a terminal, a line a layout.
class SearchProgressLine {
 public:
  explicit SearchProgressLine(bool quiet) : quiet_(quiet) {}

  void show(const SearchProgress& progress) {
    if (quiet_ || (!progress.now && !is_terminal())) return;
    std::string text = std::to_string(progress.evaluated);
    if (progress.of > 0) text += " of at most " + std::to_string(progress.of);
    text += " layouts simulated, " + std::to_string(progress.considered) + " considered";
    if (progress.best) text += "; best " + duration_of(progress.best->outcome.seconds);
    if (progress.now) text += "; now " + print_layout(progress.now->layout);
    if (stop_asked.load()) text += "; stopping";
    line_.show(text);
  }

 private:
  static std::string duration_of(double seconds) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g s", seconds);
    return text;
  }
  bool quiet_;
  StatusLine line_;
};

SearchResult run_search(RecipePlanner& planner, const SearchOptions& how, bool json) {
  stop_asked = false;
  const StopOnSignal signals;
  SearchProgressLine line(json);
  return planner.search(
      how, [&](const SearchProgress& progress) { line.show(progress); }, [] { return stop_asked.load(); });
}

SearchReport report_of(const RecipePlanner& planner, const SearchResult& result) {
  SearchReport report;
  const Preparation& preparation = planner.preparation();
  report.name = preparation.recipe.name;
  report.machine = &planner.machine();
  report.space = &planner.space();
  report.result = &result;
  report.samples = preparation.samples_per_step();
  report.tokens = preparation.units_per_step();
  report.units = preparation.workload.units.name;
  report.parameters = preparation.workload.model.parameters();
  report.device_memory = planner.device_memory();
  if (!result.fitting.empty()) report.command = planner.command_of(result.fitting.front().candidate);
  return report;
}

/// The recipe without a layout of its own: the search has all to say.
Recipe open_plain(const std::string& path, const ModelOptions& options) {
  ModelOptions plain = options;
  plain.layout.clear();
  return open_recipe(path, plain);
}

}  // namespace

void add_search_options(CLI::App& command, SearchArguments& arguments) {
  command
      .add_option("--machine", arguments.machine,
                  "plan for this machine, a preset (ipu-pod16, ...) or a TOML file (docs/machines.md), instead of the "
                  "one at hand")
      ->type_name("MACHINE");
  command
      .add_option("--candidates", arguments.candidates,
                  "with --layout auto: compile and simulate at most so many layouts; 0: until bounds rule out the rest")
      ->type_name("N")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command
      .add_option("--samples", arguments.samples,
                  "with --layout auto: say what time and energy so many samples take on the best layout")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, INT64_MAX));
  command.add_flag("--explain", arguments.explain,
                   "with --layout auto: compile every layout beside the best one too, and say why it is not");
}

int plan_search(const std::string& path, const ModelOptions& options, const SearchArguments& arguments, bool json) {
  std::optional<Machine> machine;
  if (!arguments.machine.empty()) machine = load_machine(arguments.machine);
  RecipePlanner planner(open_plain(path, options), std::move(machine), options.layout, options.where());
  const SearchResult result =
      run_search(planner, {.evaluations = arguments.candidates, .explain = arguments.explain}, json);
  SearchReport report = report_of(planner, result);
  report.to_samples = arguments.samples;
  report.explain = arguments.explain;
  if (result.fitting.empty()) refuse_machine(report);
  if (json)
    std::printf("%s\n", json_of(report).c_str());
  else
    std::fputs(text_of(report).c_str(), stdout);
  return 0;
}

Recipe with_best_layout(const Recipe& recipe, const ModelOptions& options, bool json) {
  RecipePlanner planner(recipe, std::nullopt, options.layout, options.where(), false);
  const SearchResult result = run_search(planner, {.evaluations = 12}, json);
  if (result.fitting.empty()) refuse_machine(report_of(planner, result));
  if (result.stopped)
    throw Error({.what = "stopped while a layout was searched",
                 .where = recipe.name,
                 .remedy = "The best so far: " + planner.command_of(result.fitting.front().candidate)},
                ErrorKind::kFailure);
  const Evaluated& best = result.fitting.front();
  if (!json)
    std::fprintf(stderr, "layout %s: about %.3g s a step, the fastest of %zu simulated\n",
                 planner.command_of(best.candidate).c_str(), best.outcome.seconds,
                 result.fitting.size() + result.refused.size());
  return planner.recipe_of(best.candidate);
}

}  // namespace ramet::cli
