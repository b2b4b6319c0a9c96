#include "ramet/sweep/sweep_folder.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/lock_file.h"
#include "ramet/track/annotations.h"
#include "ramet/track/run_log.h"

namespace ramet::sweep {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

json json_of(const RecipeValue& value) {
  return std::visit([](const auto& given) { return json(given); }, value);
}

json json_of(std::optional<double> value) { return value && std::isfinite(*value) ? json(*value) : json(nullptr); }

json json_of(const Parameter& parameter) {
  json line = {{"key", parameter.key}};
  if (parameter.is_choice()) {
    line["kind"] = "choice";
    for (const RecipeValue& value : parameter.values) line["values"].push_back(json_of(value));
    return line;
  }
  line["kind"] = parameter.kind == Parameter::Kind::kInteger ? "integer" : "number";
  line["low"] = parameter.low, line["high"] = parameter.high;
  line["scale"] = parameter.log ? "log" : "linear";
  if (parameter.step > 0) line["step"] = parameter.step;
  return line;
}

json json_of(const SweepRun& run) {
  json line = {{"id", run.id},
               {"seed", run.seed},
               {"status", run.status},
               {"steps", run.steps},
               {"score", json_of(run.score)},
               {"seconds", run.seconds}};
  if (!run.error.empty()) line["error"] = run.error;
  return line;
}

json json_of(const SweepOptions& options, const SweepState& state, int64_t number) {
  const SweepPoint& point = state.points[static_cast<size_t>(number)];
  json values = json::object(), runs = json::array();
  for (size_t i = 0; i < point.values.size(); ++i) values[options.parameters[i].key] = json_of(point.values[i]);
  for (const SweepRun& run : point.runs)
    if (!run.id.empty()) runs.push_back(json_of(run));
  json line = {{"point", number},
               {"status", status_of(options, state, number)},
               {"values", values},
               {"score", json_of(point.last_score())},
               {"spread", point.spreads.empty() ? 0.0 : point.spreads.back()},
               {"rung", point.rung},
               {"steps", point.scores.empty() ? 0 : rung_steps(options, std::ssize(point.scores) - 1, point.steps)},
               {"planned_bytes", point.planned_bytes},
               {"process_bytes", point.process_bytes},
               {"runs", runs}};
  if (point.refused()) line["reason"] = point.refusal;
  for (const SweepRun& run : point.runs)
    if (!line.contains("reason") && !run.error.empty()) line["reason"] = run.error;
  return line;
}

bool is_sweep(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path / "sweep.toml", error);
}

}  // namespace

SweepFolder SweepFolder::create(const fs::path& runs, SweepOptions options) {
  const std::string recipe = print_recipe(base_recipe(options));
  std::error_code error;
  const fs::path parent = runs / "sweeps", path = parent / options.name;
  fs::create_directories(parent, error);
  if (error)
    throw Error({.what = "cannot make the folder of sweeps (" + error.message() + ")", .where = parent.string()},
                ErrorKind::kFailure);
  if (is_sweep(path))
    throw Error({.what = "there is a sweep of this name",
                 .where = path.string(),
                 .remedy = "Go on with it by `ramet sweep --resume " + options.name + "`, or choose another name"});
  fs::create_directories(path / "output", error);
  const SweepFolder folder(fs::canonical(path));
  write_file_atomic(folder.recipe(), recipe);
  options.recipe = folder.recipe().filename().string();
  options.recipe_text.clear(), options.settings.clear();
  write_file_atomic(folder.options_file(), print_sweep(options));  // last: it makes the folder a sweep
  return folder;
}

SweepFolder SweepFolder::find(const std::string& text, const fs::path& runs) {
  fs::path path = fs::path(text).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  if (is_sweep(path)) return SweepFolder(fs::canonical(path));
  if (const fs::path named = runs / "sweeps" / text; !text.empty() && is_sweep(named))
    return SweepFolder(fs::canonical(named));
  const std::string near = nearest_name(text, list_sweeps(runs));
  throw Error({.what = "no such sweep",
               .where = (runs / "sweeps").string(),
               .found = "'" + text.substr(0, 200) + "'",
               .expected = near.empty() ? "a sweep's folder or name" : "perhaps '" + near + "'",
               .remedy = "`ramet sweep list` shows sweeps"});
}

SweepState SweepFolder::state(const SweepOptions& options) const {
  SweepState state;
  std::error_code error;
  if (fs::exists(log(), error))
    for (const std::string& event : read_run_log(log()).events) state.apply(event, options);
  const bool held = LockFile::is_held(lock());
  if (held) state.status = "running";
  if (!held && state.status == "running") state.status = "killed";
  return state;
}

std::vector<std::string> list_sweeps(const fs::path& runs) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(runs / "sweeps", error))
    if (is_sweep(entry.path())) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> point_settings(const SweepOptions& options, const PointValues& values) {
  std::vector<std::string> settings;
  for (size_t i = 0; i < values.size(); ++i) settings.push_back(setting_of(options.parameters[i].key, values[i]));
  return settings;
}

std::string text_of(const SweepOptions& options, const PointValues& values) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i)
    text += (i > 0 ? ", " : "") + options.parameters[i].key + " = " + toml_of(values[i]);
  return text;
}

void annotate_group(const fs::path& run, const std::string& group) {
  std::error_code error;
  fs::create_directories(run, error);
  AnnotationChanges changes;
  changes.group = group;
  if (read_annotations(run).group.empty()) annotate_run(run, changes);
}

std::string status_of(const SweepOptions& options, const SweepState& state, int64_t number) {
  const SweepPoint& point = state.points[static_cast<size_t>(number)];
  if (point.refused()) return "refused";
  if (!point.settled(point.rung)) return "running";
  if (!point.last_score()) return "failed";
  if (rung_steps(options, point.rung, point.steps) >= point.steps) return "scored";
  const std::vector<int64_t> next = promoted(options, state, point.rung + 1);
  if (next.empty()) return "running";
  return std::binary_search(next.begin(), next.end(), number) ? "running" : "stopped";
}

std::string summary_json(const fs::path& path) {
  if (!is_sweep(path)) throw Error({.what = "not a sweep: it has no sweep.toml", .where = path.string()});
  const SweepFolder folder(path);
  const SweepOptions options = folder.options();
  return summary_json(folder, options, folder.state(options));
}

std::string summary_json(const SweepFolder& folder, const SweepOptions& options, const SweepState& state) {
  json parameters = json::array(), points = json::array();
  for (const Parameter& parameter : options.parameters) parameters.push_back(json_of(parameter));
  for (int64_t i = 0; i < std::ssize(state.points); ++i) points.push_back(json_of(options, state, i));
  const int64_t best = best_point(options, state);
  const json whole = {
      {"name", folder.name()},
      {"status", state.status},
      {"reason", state.reason},
      {"method", options.method},
      {"metric", options.metric},
      {"goal", options.goal},
      {"of", options.of},
      {"seeds", options.seeds},
      {"count", options.points},
      {"started", state.started},
      {"seconds", state.active_seconds()},
      {"parameters", parameters},
      {"points", points},
      {"best", best < 0 ? json(nullptr) : json(best)},
      {"best_score", best < 0 ? json(nullptr) : json_of(state.points[static_cast<size_t>(best)].last_score())}};
  return whole.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace ramet::sweep
