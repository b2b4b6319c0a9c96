#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "ramet/base/file.h"
#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/sweep/run_sweep.h"

namespace ramet::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

StopRequest sweep_stop;

/// The first Ctrl-C has runs save checkpoints; the second ends the program, and with it the runs.
void catch_sweep_signals() {
  struct sigaction action{};
  action.sa_handler = [](int) { sweep_stop.ask(); };
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

struct SweepArguments {
  std::string file, resume, name, runs = "runs", shown;
  bool dry_run = false;
};

std::string score_text(std::optional<double> score) { return score ? number_text(*score) : "-"; }

std::string value_text(const RecipeValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return number_text(*number);
  const auto* text = std::get_if<std::string>(&value);
  return text ? *text : toml_of(value);
}

/// "learning_rate" where no other parameter ends so, else the whole key.
std::vector<std::string> short_keys(const SweepOptions& options) {
  const auto leaf = [](const std::string& key) { return key.substr(key.rfind('.') + 1); };
  std::vector<std::string> names;
  for (const Parameter& parameter : options.parameters) {
    int64_t same = 0;
    for (const Parameter& other : options.parameters) same += leaf(other.key) == leaf(parameter.key);
    names.push_back(same > 1 ? parameter.key : leaf(parameter.key));
  }
  return names;
}

/// The points, best first: those of the highest rung before the others, then those without a score.
std::vector<int64_t> by_score(const SweepOptions& options, const SweepState& state) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < std::ssize(state.points); ++i) order.push_back(i);
  const auto point = [&](int64_t i) -> const SweepPoint& { return state.points[static_cast<size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    if (point(a).scores.size() != point(b).scores.size()) return point(a).scores.size() > point(b).scores.size();
    return is_better(options, point(a).last_score(), point(b).last_score());
  });
  return order;
}

void print_table(const SweepOptions& options, const SweepState& state) {
  std::vector<std::vector<std::string>> rows = {{"point", options.metric}};
  if (options.seeds > 1) rows[0].push_back("spread");
  if (options.halves()) rows[0].push_back("steps");
  for (const std::string& key : short_keys(options)) rows[0].push_back(key);
  rows[0].insert(rows[0].end(), {"memory", "status"});
  std::vector<std::string> reasons;
  for (const int64_t i : by_score(options, state)) {
    const SweepPoint& point = state.points[static_cast<size_t>(i)];
    std::vector<std::string> row = {std::to_string(i), score_text(point.last_score())};
    if (options.seeds > 1) row.push_back(point.spreads.empty() ? "-" : number_text(point.spreads.back()));
    if (options.halves())
      row.push_back(
          point.scores.empty() ? "-" : std::to_string(rung_steps(options, std::ssize(point.scores) - 1, point.steps)));
    for (const RecipeValue& value : point.values) row.push_back(value_text(value));
    row.push_back(point.process_bytes > 0 ? format_size(point.process_bytes) : "-");
    row.push_back(sweep::status_of(options, state, i));
    rows.push_back(std::move(row));
    std::string reason = point.refusal;
    for (const SweepRun& run : point.runs)
      if (reason.empty()) reason = run.error;
    if (!reason.empty()) reasons.push_back("point " + std::to_string(i) + ": " + reason);
  }
  std::fputs(table_text(rows).c_str(), stdout);
  for (const std::string& reason : reasons) std::printf("%s\n", reason.c_str());
}

/// What a person sees of a sweep while it runs: a line a run, and below them how far it is.
class SweepConsole {
 public:
  explicit SweepConsole(const SweepOptions& options) : options_(options) {}

  void event(const std::string& text) {
    const json event = json::parse(text, nullptr, false);
    const std::string kind = event.value("event", "");
    if (kind == "point_planned")
      values_[event["point"]] = event["values"];
    else if (kind == "point_refused")
      line("point " + event["point"].dump() + " refused: " + values_text(event["values"]) + ": " +
           event.value("reason", ""));
    else if (kind == "run_ended")
      line(run_text(event));
    else if (kind == "point_scored" && options_.seeds > 1)
      line("point " + event["point"].dump() + ": " + options_.metric + " " + number_of(event["score"]) +
           ", the mean of " + std::to_string(options_.seeds) + " seeds");
  }

  void progress(const SweepProgress& progress) {
    std::string text = options_.name + "  point " + std::to_string(progress.settled) + "/" +
                       std::to_string(options_.points) + "  " + std::to_string(progress.running) + " running";
    if (progress.best >= 0) text += "  best: point " + std::to_string(progress.best);
    if (!progress.doing.empty()) text += "  " + progress.doing;
    if (text == shown_ || !is_terminal()) return;
    status_.show(shown_ = text);
  }

  void line(const std::string& text) {
    status_.clear();
    shown_.clear();
    std::fprintf(stderr, "%s\n", text.c_str());
  }
  void clear() { status_.clear(); }

 private:
  static std::string number_of(const json& value) { return value.is_number() ? number_text(value.get<double>()) : "-"; }

  std::string values_text(const json& values) const {
    std::string text;
    const std::vector<std::string> names = short_keys(options_);
    for (size_t i = 0; i < names.size(); ++i) {
      const json value = values.value(options_.parameters[i].key, json());
      text += (i > 0 ? "  " : "") + names[i] + " " +
              (value.is_number()   ? number_text(value.get<double>())
               : value.is_string() ? value.get<std::string>()
                                   : value.dump());
    }
    return text;
  }

  std::string run_text(const json& event) {
    std::string text = "point " + event["point"].dump();
    if (options_.seeds > 1) text += " seed " + event["seed"].dump();
    text += " " + event.value("status", "") + " after " + event["steps"].dump() + " steps in " +
            duration_text(event.value("seconds", 0.0));
    if (event.value("status", "") == "done") text += ": " + options_.metric + " " + number_of(event["score"]);
    if (const std::string error = event.value("error", ""); !error.empty()) text += ": " + error;
    return text + "  (" + values_text(values_[event["point"]]) + ")";
  }

  const SweepOptions& options_;
  std::map<int64_t, json> values_;
  StatusLine status_;
  std::string shown_;
};

int dry_run(const SweepOptions& options, bool as_json) {
  const Recipe base = base_recipe(options);
  const std::string recipe = print_recipe(base);
  sweep::PointLimits limits = sweep::limits_of(options);
  limits.time = true;
  std::vector<std::vector<std::string>> rows = {{"point"}};
  for (const std::string& key : short_keys(options)) rows[0].push_back(key);
  rows[0].insert(rows[0].end(), {"memory", "steps", "time"});
  std::vector<std::string> reasons;
  double seconds = 0;
  int64_t shown = 0;
  std::optional<StatusLine> status;
  if (!as_json) status.emplace();
  for (int64_t i = 0; i < options.points && !sweep_stop.asked(); ++i, ++shown) {
    const bool learns = options.drawing() == "tpe" && i >= options.tpe.first;
    if (learns) break;
    if (status) status->show("planning point " + std::to_string(i) + " of " + std::to_string(options.points));
    const sweep::PointValues values = sweep::draw_point(options, i, {});
    sweep::PointPlan plan;
    try {
      plan = sweep::plan_point(parse_recipe(recipe, options.name, ".", sweep::point_settings(options, values)), limits);
    } catch (const Error& error) {
      plan.refusal = error.what();
    }
    const double time = plan.step_seconds * static_cast<double>(plan.steps * options.seeds);
    seconds += time;
    if (as_json) {
      json drawn = json::object();
      for (size_t k = 0; k < values.size(); ++k)
        std::visit([&](const auto& value) { drawn[options.parameters[k].key] = value; }, values[k]);
      JsonLine line;
      line.set("event", plan.refusal.empty() ? "point_planned" : "point_refused")
          .set("point", i)
          .set_json("values", drawn.dump())
          .set("steps", plan.steps)
          .set("planned_bytes", plan.planned_bytes)
          .set("process_bytes", plan.process_bytes)
          .set("step_seconds", plan.step_seconds)
          .set("seconds", time);
      if (!plan.refusal.empty()) line.set("reason", plan.refusal);
      line.print();
      continue;
    }
    std::vector<std::string> row = {std::to_string(i)};
    for (const RecipeValue& value : values) row.push_back(value_text(value));
    row.push_back(plan.process_bytes > 0 ? format_size(plan.process_bytes) : "-");
    row.push_back(std::to_string(plan.steps));
    row.push_back(plan.refusal.empty() ? duration_text(time) : "refused");
    rows.push_back(std::move(row));
    if (!plan.refusal.empty()) reasons.push_back("point " + std::to_string(i) + ": " + plan.refusal);
  }
  status.reset();
  if (as_json) {
    JsonLine().set("event", "end").set("points", shown).set("seconds", seconds).print();
    return 0;
  }
  std::fputs(table_text(rows).c_str(), stdout);
  for (const std::string& reason : reasons) std::printf("%s\n", reason.c_str());
  if (shown < options.points && !sweep_stop.asked())
    std::printf("%lld more points are drawn from the results of these\n",
                static_cast<long long>(options.points - shown));
  if (options.halves()) std::printf("times are of whole runs; successive halving ends most of them early\n");
  std::printf("%lld points: about %s of training, %lld runs at a time; %s for all\n", static_cast<long long>(shown),
              duration_text(seconds).c_str(), static_cast<long long>(options.use.parallel),
              format_size(limits.memory).c_str());
  return 0;
}

int run(const SweepArguments& arguments, bool as_json) {
  std::optional<sweep::SweepFolder> folder;
  if (!arguments.resume.empty()) {
    folder = sweep::SweepFolder::find(arguments.resume, arguments.runs);
  } else {
    SweepOptions options = sweep::load_sweep(arguments.file);
    if (!arguments.name.empty()) options.name = arguments.name;
    options = sweep::settle_resources(std::move(options));
    catch_sweep_signals();
    if (arguments.dry_run) return dry_run(options, as_json);
    folder = sweep::SweepFolder::create(arguments.runs, std::move(options));
  }
  const SweepOptions options = folder->options();
  SweepConsole console(options);
  if (!as_json)
    console.line(options.name + ": " + std::to_string(options.points) + " points by " + options.method + ", " +
                 std::to_string(options.use.parallel) + " at a time with " + std::to_string(options.use.threads) +
                 " threads each; " + folder->path().string());
  catch_sweep_signals();
  sweep::RunSweepOptions how{.program = fs::read_symlink("/proc/self/exe").string(), .stop = &sweep_stop};
  how.on_event = [&](const std::string& text) {
    if (as_json) {
      std::fputs((text + "\n").c_str(), stdout);
      std::fflush(stdout);
    } else {
      console.event(text);
    }
  };
  if (!as_json) how.on_progress = [&](const SweepProgress& progress) { console.progress(progress); };
  const SweepState state = sweep::run_sweep(*folder, how);
  console.clear();
  const int64_t best = sweep::best_point(options, state);
  if (!as_json) {
    print_table(options, state);
    std::printf("%s (%s): %lld of %lld points", state.status.c_str(), state.reason.c_str(),
                static_cast<long long>(std::ssize(state.points)), static_cast<long long>(options.points));
    if (best >= 0)
      std::printf("; best: point %lld, %s %s", static_cast<long long>(best), options.metric.c_str(),
                  score_text(state.points[static_cast<size_t>(best)].last_score()).c_str());
    std::printf("\n%s\n", folder->path().c_str());
    if (state.status == "interrupted") std::printf("continue with: ramet sweep --resume %s\n", folder->path().c_str());
  }
  if (best >= 0 || state.status == "interrupted") return 0;
  std::string reason;
  for (const SweepPoint& point : state.points) {
    if (reason.empty()) reason = point.refusal;
    for (const SweepRun& each : point.runs)
      if (reason.empty()) reason = each.error;
  }
  throw Error({.what = "no point of the sweep has a score",
               .where = folder->path().string(),
               .found = reason,
               .remedy = "`ramet sweep show " + folder->name() + "` tells why of each point"},
              ErrorKind::kFailure);
}

int show(const SweepArguments& arguments, bool as_json) {
  const sweep::SweepFolder folder = sweep::SweepFolder::find(arguments.shown, arguments.runs);
  const SweepOptions options = folder.options();
  const SweepState state = folder.state(options);
  if (as_json) {
    std::printf("%s\n", sweep::summary_json(folder, options, state).c_str());
    return 0;
  }
  std::printf("%s: %s%s, %lld of %lld points by %s in %s; the %s %s is best\n", folder.name().c_str(),
              state.status.c_str(), state.reason.empty() ? "" : (" (" + state.reason + ")").c_str(),
              static_cast<long long>(std::ssize(state.points)), static_cast<long long>(options.points),
              options.method.c_str(), duration_text(state.active_seconds()).c_str(),
              options.maximizes() ? "largest" : "smallest", options.metric.c_str());
  print_table(options, state);
  return 0;
}

int list(const SweepArguments& arguments, bool as_json) {
  std::vector<std::vector<std::string>> rows = {{"sweep", "status", "points", "method", "metric", "best"}};
  for (const std::string& name : sweep::list_sweeps(arguments.runs)) {
    const sweep::SweepFolder folder(fs::path(arguments.runs) / "sweeps" / name);
    const SweepOptions options = folder.options();
    const SweepState state = folder.state(options);
    if (as_json) {
      std::printf("%s\n", sweep::summary_json(folder, options, state).c_str());
      continue;
    }
    const int64_t best = sweep::best_point(options, state);
    rows.push_back({name, state.status, std::to_string(std::ssize(state.points)) + "/" + std::to_string(options.points),
                    options.method, options.metric,
                    best < 0 ? "-" : score_text(state.points[static_cast<size_t>(best)].last_score())});
  }
  if (!as_json) std::fputs(table_text(rows).c_str(), stdout);
  return 0;
}

}  // namespace

void add_sweep(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<SweepArguments>();
  CLI::App* command = app.add_subcommand("sweep", "Try many points of a space of recipes, or go on with a sweep");
  auto* file = command->add_option("sweep", arguments->file, "file of the sweep (docs/sweeps.md)")->type_name("FILE");
  auto* resume = command
                     ->add_option("--resume", arguments->resume,
                                  "go on with a sweep, by its name or folder: runs that were stopped or killed go on "
                                  "from their checkpoints, and the same points are drawn")
                     ->type_name("SWEEP");
  file->excludes(resume);
  add_device_option(*command);
  command->add_option("--name", arguments->name, "name of the sweep (default: `name` of the file)")
      ->type_name("NAME")
      ->excludes(resume);
  command
      ->add_flag("--dry-run", arguments->dry_run,
                 "print the points, their memory as it is planned and their time as it is predicted, and run nothing")
      ->excludes(resume);
  add_runs_option(*command, arguments->runs);
  add_json_option(*command, session);
  command->footer(
      "`ramet sweep keys` documents the file. Every point is planned first: one that does not fit the memory is\n"
      "refused, and recorded as such. Ctrl-C has all runs save a checkpoint and stop; --resume goes on.");
  const auto add = [&](const std::string& name, const std::string& help, int (*action)(const SweepArguments&, bool)) {
    CLI::App* sub = command->add_subcommand(name, help);
    add_runs_option(*sub, arguments->runs);
    add_json_option(*sub, session);
    sub->callback([arguments, action, &session] {
      session.action = [arguments, action, &session] { return action(*arguments, session.json); };
    });
    return sub;
  };
  add("show", "The points of a sweep, best first", show)
      ->add_option("sweep", arguments->shown, "its name or folder")
      ->type_name("SWEEP")
      ->required();
  add("list", "All sweeps", list);
  CLI::App* keys = command->add_subcommand("keys", "Every key of a sweep's file");
  keys->callback([&session] {
    session.action = [] {
      std::fputs(sweep::sweep_help().c_str(), stdout);
      return 0;
    };
  });
  command->callback([arguments, command, &session] {
    if (!command->get_subcommands().empty()) return;
    session.action = [arguments, &session] {
      if (arguments->file.empty() && arguments->resume.empty())
        throw Error({.what = "needs the file of a sweep, or a sweep to go on with",
                     .where = "sweep",
                     .remedy = "`ramet sweep FILE.toml` or `ramet sweep --resume NAME`"});
      return run(*arguments, session.json);
    };
  });
}

}  // namespace ramet::cli
