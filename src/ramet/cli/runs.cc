#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <set>

#include "ramet/base/file.h"
#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/cli/runs_catalogue.h"
#include "ramet/track/run_record.h"

namespace ramet::cli {
namespace {

struct RunsArguments {
  std::string folder = "runs";
  std::vector<std::string> runs;
};

/// The speed of a run with its units: {"tokens", 1234}; "" where the log has none.
std::pair<std::string, double> speed_of(const RunRecord& run) {
  constexpr std::string_view kEnd = "_per_second";
  for (const std::string& name : run.log.names())
    if (name.ends_with(kEnd) && !name.starts_with("real_"))
      return {name.substr(0, name.size() - kEnd.size()), run.log.last(name)};
  return {"", std::nan("")};
}

std::string or_dash(double value) { return std::isnan(value) ? "-" : number_text(value); }

void set_summary(JsonLine& line, const RunRecord& run) {
  const auto [units, speed] = speed_of(run);
  line.set("id", run.id)
      .set("name", run.name)
      .set("status", std::string(name_of(run.status)))
      .set("started", run.started)
      .set("steps", run.steps())
      .set("loss", run.log.last("loss"))
      .set("held_out_loss", run.log.last("held_out_loss"))
      .set((units.empty() ? "units" : units) + "_per_second", speed)
      .set("path", run.path.string());
}

int show(const RunsArguments& arguments, bool json) {
  for (const auto& text : arguments.runs) {
    const RunRecord run = read_run(find_run(text, arguments.folder));
    if (json) {
      JsonLine line;
      set_summary(line, run);
      line.set("version", run.version)
          .set("command", run.command)
          .set("git", run.git)
          .set("machine", run.machine)
          .set("kernel_class", run.kernel_class)
          .set("checkpoints", run.checkpoints)
          .set("skipped_bytes", run.log.skipped_bytes);
      for (const auto& name : run.log.names()) line.set("last_" + name, run.log.last(name));
      for (const auto& [key, value] : run.facts) line.set("fact_" + key, value);
      line.print();
      continue;
    }
    std::printf("%s: %s after %lld steps\n", run.id.c_str(), std::string(name_of(run.status)).c_str(),
                static_cast<long long>(run.steps()));
    if (!run.problem.empty()) std::printf("  %s\n", run.problem.c_str());
    std::vector<std::vector<std::string>> rows;
    const auto row = [&](const std::string& key, const std::string& value) {
      if (!value.empty()) rows.push_back({"  " + key, value});
    };
    row("started", run.started);
    row("command", run.command);
    row("version", run.version + (run.git.empty() ? "" : ", git " + run.git));
    row("machine", run.machine + (run.kernel_class.empty() ? "" : ", " + run.kernel_class));
    row("folder", run.path.string());
    for (const auto& name : run.checkpoints) row("checkpoint", name);
    if (run.log.skipped_bytes > 0)
      row("log", std::to_string(run.log.skipped_bytes) + " bytes are torn or damaged and were skipped");
    for (const auto& [key, value] : run.facts) {
      const bool bytes = key.ends_with("_bytes") && !value.empty() &&
                         value.find_first_not_of("0123456789") == std::string::npos && value.size() < 18;
      if (key == "planned_bytes" || key == "measured_peak_bytes" || key == "compile_seconds" || key == "weights_hash" ||
          key == "step_seconds")
        row(key, bytes ? format_size(std::stoll(value)) : value);
    }
    for (const auto& name : run.log.names()) {
      const auto points = run.log.series(name);
      row(name,
          number_text(points.front().second) + (points.size() > 1 ? " -> " + number_text(points.back().second) : ""));
    }
    std::fputs(table_text(rows).c_str(), stdout);
  }
  return 0;
}

int compare(const RunsArguments& arguments, bool json) {
  std::vector<RunRecord> runs;
  for (const auto& text : arguments.runs) runs.push_back(read_run(find_run(text, arguments.folder)));
  std::vector<std::vector<std::string>> rows = {{""}};
  for (const auto& run : runs) rows[0].push_back(run.id);
  std::vector<std::string> keys;
  std::set<std::string> seen, metrics;
  for (const auto& run : runs) {
    for (const auto& [key, value] : run.recipe)
      if (seen.insert(key).second) keys.push_back(key);
    for (const auto& name : run.log.names()) metrics.insert(name);
  }
  const auto add = [&](const std::string& label, const std::function<std::string(const RunRecord&)>& value,
                       bool only_if_different) {
    std::vector<std::string> row = {label};
    std::set<std::string> values;
    for (const auto& run : runs) row.push_back(value(run)), values.insert(row.back());
    if (!only_if_different || values.size() > 1) rows.push_back(row);
  };
  for (const auto& key : keys) add(key, [&](const RunRecord& run) { return run.recipe_value(key); }, true);
  add("status", [](const RunRecord& run) { return std::string(name_of(run.status)); }, false);
  add("steps", [](const RunRecord& run) { return std::to_string(run.steps()); }, false);
  for (const auto& name : metrics) add(name, [&](const RunRecord& run) { return or_dash(run.log.last(name)); }, false);
  // The first step at which the losses of the same step part: never, for runs of one recipe.
  std::string parts = "at no step";
  for (const auto& [step, loss] : runs[0].log.series("loss"))
    for (size_t i = 1; i < runs.size() && parts == "at no step"; ++i)
      for (const auto& [other_step, other] : runs[i].log.series("loss"))
        if (other_step == step && other != loss) parts = "at step " + std::to_string(step);
  if (json) {
    for (size_t i = 0; i < runs.size(); ++i) {
      JsonLine line;
      set_summary(line, runs[i]);
      for (size_t r = 1; r < rows.size(); ++r) line.set("compared_" + rows[r][0], rows[r][i + 1]);
      line.set("losses_part", parts).print();
    }
    return 0;
  }
  std::fputs(table_text(rows).c_str(), stdout);
  std::printf("losses part %s\n", parts.c_str());
  return 0;
}

}  // namespace

void add_runs(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<RunsArguments>();
  CLI::App* runs = app.add_subcommand("runs", "Look at runs, ask and annotate them, exchange them with other programs");
  runs->require_subcommand(1);
  const auto add = [&](const std::string& name, const std::string& help, int least, int most,
                       const std::function<int(bool)>& action) {
    CLI::App* command = runs->add_subcommand(name, help);
    if (most > 0)
      command->add_option("run", arguments->runs, "a run's folder, its id, the end of its id, or latest")
          ->type_name("RUN")
          ->required()
          ->expected(least, most);
    add_runs_option(*command, arguments->folder);
    add_json_option(*command, session);
    command->callback([action, &session] { session.action = [action, &session] { return action(session.json); }; });
    return command;
  };
  const AddRunsCommand add_without_run = [&](const std::string& name, const std::string& help,
                                             const std::function<int(bool)>& action) {
    return add(name, help, 0, 0, action);
  };
  add_catalogue_commands(add_without_run, arguments->folder);
  add("show", "What is known of a run", 1, 1000, [arguments](bool json) { return show(*arguments, json); });
  add("compare", "Where runs differ: recipes, last metrics, and the step at which their losses part", 2, 1000,
      [arguments](bool json) { return compare(*arguments, json); });
  add_exchange_commands(add_without_run, arguments->folder);
  add_annotation_commands(add_without_run, arguments->folder);
}

}  // namespace ramet::cli
