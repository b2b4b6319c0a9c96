#include "ramet/cli/runs_catalogue.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "ramet/base/file.h"
#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"

namespace ramet::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// Tells how far indexing is, once it has taken too long to stay silent.
class IndexingProgress {
 public:
  void operator()(int64_t done, int64_t total) {
    constexpr std::chrono::milliseconds kPatience(1000), kEvery(100);
    const auto now = Clock::now();
    if (now - started_ < kPatience || now - shown_ < kEvery) return;
    shown_ = now;
    line_.show("indexing runs: " + std::to_string(done) + " of " + std::to_string(total));
  }

 private:
  StatusLine line_;
  const Clock::time_point started_ = Clock::now();
  Clock::time_point shown_{};
};

IndexProgress progress_of(IndexingProgress& progress) {
  return [&progress](int64_t done, int64_t total) { progress(done, total); };
}

void tell_problems(const IndexReport& report, const Catalogue& catalogue) {
  constexpr size_t kMost = 5;
  for (size_t i = 0; i < report.problems.size() && i < kMost; ++i) warn(report.problems[i]);
  if (report.problems.size() > kMost) warn("and " + std::to_string(report.problems.size() - kMost) + " more");
  if (report.busy) warn("another process is indexing the runs: this is what it has by now");
  if (!catalogue.remark().empty()) warn(catalogue.remark());
}

struct ListArguments {
  std::string filter, sort, columns, query, metric, axis = "step";
  int64_t limit = 0, buckets = 50;
  bool all = false;
  std::vector<std::string> names;
  std::string run;
};

std::string cell_of(const FieldValue& value) {
  if (const double* real = std::get_if<double>(&value)) return number_text(*real);
  const std::string text = field_text(value);
  return text.empty() ? "-" : text;
}
std::string number_or_dash(double value) { return std::isnan(value) ? "-" : number_text(value); }

std::vector<std::string> split_columns(const std::string& text) {
  std::vector<std::string> columns;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    if (end > at) columns.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return columns;
}

/// Names of speeds that runs log, as "tokens_per_second".
std::vector<std::string> speeds_of(const Catalogue& catalogue) {
  std::vector<std::string> speeds;
  for (const auto& metric : catalogue.keys().metrics)
    if (metric.name.ends_with("_per_second") && !metric.name.starts_with("real_") &&
        metric.name.find('/') == std::string::npos)
      speeds.push_back(metric.name);
  return speeds;
}

class RunLister {
 public:
  RunLister(const Catalogue& catalogue, const ListArguments& arguments)
      : chosen_(split_columns(arguments.columns)), speeds_(speeds_of(catalogue)) {
    query_.filter = arguments.filter;
    if (!arguments.all)
      query_.filter = query_.filter.empty() ? "not archived" : "(" + query_.filter + ") and not archived";
    if (!arguments.filter.empty()) (void)catalogue.runs({.filter = arguments.filter, .limit = 0});
    query_.sort = !arguments.sort.empty() ? arguments.sort : arguments.limit > 0 ? "-started" : "started";
    query_.limit = arguments.limit > 0 ? arguments.limit : -1;
    query_.columns = {"loss", "held_out_loss"};
    query_.columns.insert(query_.columns.end(), speeds_.begin(), speeds_.end());
    query_.columns.insert(query_.columns.end(), chosen_.begin(), chosen_.end());
    page_ = catalogue.runs(query_);
  }

  void print_json() const {
    for (const auto& run : page_.runs) {
      const std::string speed = run.units.empty() ? "units_per_second" : run.units + "_per_second";
      JsonLine line;
      line.set("id", run.id)
          .set("name", run.name)
          .set("status", run.status)
          .set("started", run.started)
          .set("steps", run.steps)
          .set_json("loss", field_json(run.columns[0]))
          .set_json("held_out_loss", field_json(run.columns[1]))
          .set_json(speed, field_json(speed_of(run)))
          .set("path", std::filesystem::absolute(run.path).lexically_normal().string())
          .set("ended", run.ended)
          .set("group", run.group)
          .set("tags", run.tags)
          .set("pinned", run.pinned)
          .set("archived", run.archived);
      for (size_t i = 0; i < chosen_.size(); ++i) line.set_json(chosen_[i], field_json(run.columns[own(i)]));
      line.print();
    }
  }

  void print_table(const std::string& folder) const {
    if (page_.runs.empty()) {
      std::printf("no runs in %s%s\n", folder.c_str(),
                  query_.filter == "not archived" ? "" : " that the filter lets through");
      return;
    }
    std::vector<std::vector<std::string>> rows = {{"run", "status", "steps"}};
    if (chosen_.empty())
      for (const char* const head : {"loss", "held out", "a second"}) rows[0].push_back(head);
    rows[0].insert(rows[0].end(), chosen_.begin(), chosen_.end());
    rows[0].push_back("started");
    for (const auto& run : page_.runs) {
      auto& row = rows.emplace_back(std::vector<std::string>{run.id, run.status, std::to_string(run.steps)});
      if (chosen_.empty()) {
        const FieldValue speed = speed_of(run);
        const double* const number = std::get_if<double>(&speed);
        row.push_back(cell_of(run.columns[0]));
        row.push_back(cell_of(run.columns[1]));
        row.push_back(number ? number_text(std::round(*number)) + (run.units.empty() ? "" : " " + run.units) : "-");
      }
      for (size_t i = 0; i < chosen_.size(); ++i) row.push_back(cell_of(run.columns[own(i)]));
      row.push_back(run.started.substr(0, 19));
    }
    std::fputs(table_text(rows).c_str(), stdout);
    if (static_cast<int64_t>(page_.runs.size()) < page_.total)
      std::printf("%zu of %lld runs\n", page_.runs.size(), static_cast<long long>(page_.total));
  }

 private:
  size_t own(size_t column) const { return 2 + speeds_.size() + column; }
  FieldValue speed_of(const RunRow& run) const {
    for (size_t i = 0; i < speeds_.size(); ++i)
      if (speeds_[i] == run.units + "_per_second") return run.columns[2 + i];
    return {};
  }

  std::vector<std::string> chosen_, speeds_;
  RunQuery query_;
  RunPage page_;
};

int list(const std::string& folder, const ListArguments& arguments, bool json) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    if (!json) std::printf("no runs in %s\n", folder.c_str());
    return 0;
  }
  const Catalogue catalogue = open_catalogue(folder);
  const RunLister lister(catalogue, arguments);
  if (json)
    lister.print_json();
  else
    lister.print_table(folder);
  return 0;
}

int reindex(const std::string& folder, bool json) {
  const auto started = Clock::now();
  Catalogue catalogue = Catalogue::open(folder, Access::kIndex);
  IndexReport report;
  {
    IndexingProgress progress;
    report = catalogue.rebuild(progress_of(progress));
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
  tell_problems(report, catalogue);
  if (report.busy)
    throw Error(
        {.what = "another process is indexing these runs", .where = folder, .remedy = "Try again when it has ended"},
        ErrorKind::kFailure);
  if (json)
    JsonLine()
        .set("runs", report.runs)
        .set("points", report.points)
        .set("bytes", report.bytes)
        .set("seconds", seconds)
        .set("problems", report.problems)
        .print();
  else
    std::printf("%lld runs with %lld points, read from %s of logs in %.1f s\n", static_cast<long long>(report.runs),
                static_cast<long long>(report.points), format_size(report.bytes).c_str(), seconds);
  return report.problems.empty() ? 0 : 1;
}

int query(const std::string& folder, const ListArguments& arguments, bool json) {
  const Catalogue catalogue = open_catalogue(folder);
  const SqlResult result = catalogue.sql(arguments.query, arguments.limit);
  std::vector<std::vector<std::string>> rows = {result.columns};
  for (const auto& values : result.rows) {
    JsonLine line;
    auto& row = rows.emplace_back();
    for (size_t i = 0; i < values.size(); ++i) {
      line.set_json(result.columns[i], field_json(values[i]));
      row.push_back(field_text(values[i]));
    }
    if (json) line.print();
  }
  if (!json) std::fputs(table_text(rows).c_str(), stdout);
  if (result.truncated) warn("only the first " + std::to_string(result.rows.size()) + " rows: see --limit");
  return 0;
}

void print_summaries(const std::vector<MetricSummary>& metrics, bool json) {
  std::vector<std::vector<std::string>> rows = {
      {"metric", "points", "steps", "min", "max", "mean", "last", "not finite"}};
  for (const auto& metric : metrics) {
    rows.push_back({metric.name, std::to_string(metric.points),
                    std::to_string(metric.first_step) + ".." + std::to_string(metric.last_step),
                    number_or_dash(metric.min), number_or_dash(metric.max), number_or_dash(metric.mean),
                    number_or_dash(metric.last), std::to_string(metric.not_finite)});
    if (json)
      JsonLine()
          .set("name", metric.name)
          .set("points", metric.points)
          .set("first_step", metric.first_step)
          .set("last_step", metric.last_step)
          .set("first_time", metric.first_time)
          .set("last_time", metric.last_time)
          .set("min", metric.min)
          .set("max", metric.max)
          .set("mean", metric.mean)
          .set("last", metric.last)
          .set("not_finite", metric.not_finite)
          .print();
  }
  if (!json) std::fputs(table_text(rows).c_str(), stdout);
}

void print_series(const std::string& name, const Series& series, const std::string& axis, bool json) {
  std::vector<std::vector<std::string>> rows = {{axis, name}};
  if (!series.raw) rows[0] = {axis, name, "min", "max", "points", "not finite"};
  for (size_t i = 0; i < series.x.size(); ++i) {
    JsonLine line;
    line.set("metric", name).set(axis, series.x[i]).set("last", series.last[i]);
    auto& row = rows.emplace_back(std::vector<std::string>{field_text(series.x[i]), number_or_dash(series.last[i])});
    if (!series.raw) {
      line.set("min", series.min[i]).set("max", series.max[i]);
      line.set("count", int64_t{series.count[i]}).set("not_finite", int64_t{series.not_finite[i]});
      for (const auto& text : {number_or_dash(series.min[i]), number_or_dash(series.max[i]),
                               std::to_string(series.count[i]), std::to_string(series.not_finite[i])})
        row.push_back(text);
    }
    if (json) line.print();
  }
  if (!json) std::fputs(table_text(rows).c_str(), stdout);
}

int metrics(const std::string& folder, const ListArguments& arguments, bool json) {
  const Catalogue catalogue = open_catalogue(folder);
  if (arguments.names.empty()) {
    print_summaries(catalogue.metrics(arguments.run), json);
    return 0;
  }
  for (const auto& name : arguments.names)
    print_series(
        name,
        catalogue.series(
            {.run = arguments.run, .metric = name, .axis = parse_axis(arguments.axis), .buckets = arguments.buckets}),
        arguments.axis, json);
  return 0;
}

int importance(const std::string& folder, const ListArguments& arguments, bool json) {
  const Catalogue catalogue = open_catalogue(folder);
  const auto keys = catalogue.importance(arguments.metric, arguments.filter);
  if (keys.empty() && !json)
    std::printf("nothing to compare: at least four runs with '%s' are needed, of which some differ\n",
                arguments.metric.c_str());
  std::vector<std::vector<std::string>> rows = {{"key", "importance", "rank correlation", "runs"}};
  for (const auto& key : keys) {
    rows.push_back({key.key, number_text(key.importance), number_or_dash(key.correlation), std::to_string(key.runs)});
    if (json)
      JsonLine()
          .set("key", key.key)
          .set("importance", key.importance)
          .set("correlation", key.correlation)
          .set("runs", key.runs)
          .print();
  }
  if (!json && !keys.empty()) std::fputs(table_text(rows).c_str(), stdout);
  return 0;
}

void add_filter_option(CLI::App& command, ListArguments& arguments) {
  command
      .add_option("--filter", arguments.filter,
                  "only runs that this lets through, as 'config.train.seed = 3 and loss < 2.5 and tag = baseline'")
      ->type_name("FILTER");
}

}  // namespace

Catalogue open_catalogue(const std::string& folder) {
  Catalogue catalogue = Catalogue::open(folder, Access::kIndex);
  IndexReport report;
  {
    IndexingProgress progress;
    report = catalogue.index(progress_of(progress));
  }
  tell_problems(report, catalogue);
  return catalogue;
}

void add_catalogue_commands(const AddRunsCommand& add, const std::string& folder) {
  const auto arguments = std::make_shared<ListArguments>();
  CLI::App* command =
      add("list", "All runs, oldest first", [arguments, &folder](bool json) { return list(folder, *arguments, json); });
  add_filter_option(*command, *arguments);
  command
      ->add_option(
          "--sort", arguments->sort,
          "names to sort by, separated by commas, '-' before one that falls (default: started, or with --limit "
          "-started)")
      ->type_name("NAMES");
  command
      ->add_option("--columns", arguments->columns, "names to show, separated by commas, as config.train.seed,min.loss")
      ->type_name("NAMES");
  command->add_option("--limit", arguments->limit, "so many runs at most")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}));
  command->add_flag("--all", arguments->all, "archived runs, too");
  command->footer(
      "Names are name, status, group, tag, started, ended, steps; config.KEY; METRIC, which is its last value,\n"
      "min.METRIC, max.METRIC, mean.METRIC, points.METRIC, not_finite.METRIC. Filters compare them by = != < <= > >=\n"
      "and ~ (contains), and join comparisons by and, or, not and parentheses.");

  add("reindex", "Make the catalogue of a folder of runs anew from the runs",
      [&folder](bool json) { return reindex(folder, json); });

  const auto asked = std::make_shared<ListArguments>();
  asked->limit = 1000;
  CLI::App* sql = add("sql", "Ask the catalogue by SQL; nothing can be changed",
                      [asked, &folder](bool json) { return query(folder, *asked, json); });
  sql->add_option("query", asked->query, "one SELECT, as 'SELECT run, last FROM run_metrics'")
      ->type_name("QUERY")
      ->required();
  sql->add_option("--limit", asked->limit, "so many rows at most")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{100'000'000}))
      ->capture_default_str();
  sql->footer("Tables and views: docs/runs.md. A query ends after ten seconds.");

  const auto chosen = std::make_shared<ListArguments>();
  CLI::App* shown = add("metrics", "The metrics of a run, or the course of some of them",
                        [chosen, &folder](bool json) { return metrics(folder, *chosen, json); });
  shown->add_option("run", chosen->run, "a run's folder, its id, the end of its id, or latest")
      ->type_name("RUN")
      ->required();
  shown->add_option("metric", chosen->names, "names of metrics")->type_name("METRIC")->expected(0, 1000);
  shown->add_option("--x", chosen->axis, "what the course goes over")
      ->check(CLI::IsMember({"step", "time", "relative_time", "samples", "units"}))
      ->capture_default_str();
  shown
      ->add_option("--buckets", chosen->buckets,
                   "equal parts of the course, each with its least, greatest and last value")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{100'000}))
      ->capture_default_str();

  const auto asked_for = std::make_shared<ListArguments>();
  CLI::App* important = add("importance", "Which keys of the configuration go together with a metric, over runs",
                            [asked_for, &folder](bool json) { return importance(folder, *asked_for, json); });
  important->add_option("metric", asked_for->metric, "name of the metric; its last values count")
      ->type_name("METRIC")
      ->required();
  add_filter_option(*important, *asked_for);
}

}  // namespace ramet::cli
