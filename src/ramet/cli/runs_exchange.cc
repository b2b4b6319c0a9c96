#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "ramet/base/clock.h"
#include "ramet/base/file.h"
#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/cli/runs_catalogue.h"
#include "ramet/track/export.h"
#include "ramet/track/import.h"
#include "ramet/track/run_record.h"

namespace ramet::cli {
namespace {

struct ExchangeArguments {
  std::string format = "csv", out, project = "ramet", mlflow, experiment = "ramet";
  std::vector<std::string> runs, paths;
  bool again = false;
  const std::string* folder;  ///< of --run-dir
};

/// A line about work that counts things, drawn as often as a person can read.
class CountProgress {
 public:
  void show(const std::string& text) {
    const double pause = is_terminal() ? 0.1 : 10;
    if (seconds_since(drawn_) < pause) return;
    drawn_ = Clock::now();
    line_.show(text);
  }
  void clear() { line_.clear(); }

 private:
  Clock::time_point drawn_ = Clock::now();
  StatusLine line_;
};

std::string counted(int64_t count, const std::string& one, const std::string& many) {
  return number_text(static_cast<double>(count)) + " " + (count == 1 ? one : many);
}

/// CSV and JSON: one run as one text.
int export_text(const ExchangeArguments& arguments) {
  if (arguments.runs.size() > 1)
    throw Error({.what = "csv and json take one run",
                 .where = "runs export",
                 .found = std::to_string(arguments.runs.size()) + " runs",
                 .remedy = "Export one after another; tensorboard and wandb take several"});
  const RunRecord run = read_run(find_run(arguments.runs.at(0), *arguments.folder));
  const std::string text = arguments.format == "csv" ? export_csv(run) : export_json(run);
  if (arguments.out.empty() || arguments.out == "-")
    std::fputs(text.c_str(), stdout);
  else
    write_file_atomic(arguments.out, text);
  return 0;
}

int export_runs(const ExchangeArguments& arguments, bool json) {
  if (arguments.format == "csv" || arguments.format == "json") return export_text(arguments);
  if (arguments.out.empty() || arguments.out == "-")
    throw Error({.what = "needs a folder to write into",
                 .where = "--out",
                 .expected = "a folder, as --out " + arguments.format});
  CountProgress progress;
  for (const std::string& text : arguments.runs) {
    progress.show("exporting " + text);
    const RunRecord run = read_run(find_run(text, *arguments.folder));
    const ExportReport report = arguments.format == "tensorboard" ? export_tensorboard(run, arguments.out)
                                                                  : export_wandb(run, arguments.out, arguments.project);
    progress.clear();
    if (json) {
      JsonLine()
          .set("event", "exported")
          .set("id", run.id)
          .set("format", arguments.format)
          .set("path", report.path.string())
          .set("points", report.points)
          .set("media", report.media)
          .set("remarks", report.remarks)
          .print();
      continue;
    }
    for (const std::string& remark : report.remarks) warn(run.id + ": " + remark);
    std::printf("%s: %s%s -> %s\n", run.id.c_str(), counted(report.points, "point", "points").c_str(),
                report.media > 0 ? (", " + counted(report.media, "object", "objects")).c_str() : "",
                report.path.c_str());
  }
  return 0;
}

int push_runs(const ExchangeArguments& arguments, bool json) {
  MlflowServer server{
      .url = arguments.mlflow, .experiment = arguments.experiment, .send = {}, .sleep = {}, .progress = {}};
  if (const char* const uri = std::getenv("MLFLOW_TRACKING_URI"); server.url.empty() && uri) server.url = uri;
  if (server.url.empty())
    throw Error({.what = "needs the address of a server",
                 .where = "runs push",
                 .expected = "--mlflow http://HOST:PORT, or MLFLOW_TRACKING_URI"});
  server.send = http_client(mlflow_access());
  CountProgress progress;
  server.sleep = [&progress](double seconds) {
    progress.clear();
    warn("the server did not take a request: trying again in " + duration_text(seconds));
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  };
  for (const std::string& text : arguments.runs) {
    const RunRecord run = read_run(find_run(text, *arguments.folder));
    server.progress = [&](int64_t done, int64_t total) {
      progress.show(run.id + ": " + number_text(static_cast<double>(done)) + " of " +
                    counted(total, "point", "points"));
    };
    const PushReport report = push_to_mlflow(run, server);
    progress.clear();
    if (json) {
      JsonLine()
          .set("event", "pushed")
          .set("id", run.id)
          .set("mlflow_run", report.run_id)
          .set("url", report.url)
          .set("created", report.created)
          .set("points", report.points)
          .set("params", report.params)
          .set("artifacts", report.artifacts)
          .set("remarks", report.remarks)
          .print();
      continue;
    }
    for (const std::string& remark : report.remarks) warn(run.id + ": " + remark);
    std::printf("%s: %s, %s, %s%s -> %s\n", run.id.c_str(), counted(report.points, "point", "points").c_str(),
                counted(report.params, "parameter", "parameters").c_str(),
                counted(report.artifacts, "file", "files").c_str(), report.created ? "" : " (was there already)",
                report.url.c_str());
  }
  return 0;
}

/// One `ramet runs import`.
class ImportCommand {
 public:
  ImportCommand(const ExchangeArguments& arguments, bool json)
      : arguments_(arguments), json_(json), importer_(*arguments.folder, arguments.again) {}

  int run() {
    size_t sources = 0;
    for (const std::string& path : arguments_.paths) {
      const ImportSearch search = find_import_sources(path);
      for (const std::string& remark : search.remarks) tell(remark);
      sources += search.sources.size();
      for (const ImportSource& source : search.sources) read(source);
    }
    if (sources == 0)
      throw Error({.what = "nothing to import",
                   .where = arguments_.paths.size() == 1 ? arguments_.paths[0] : "runs import",
                   .expected = "MLflow's database, TensorBoard's event files or .wandb files"});
    progress_.clear();
    if (json_)
      JsonLine()
          .set("event", "end")
          .set("imported", imported_)
          .set("replaced", replaced_)
          .set("already_there", there_)
          .set("failed", failed_)
          .print();
    else
      std::printf(
          "%s imported into %s%s%s%s\n", counted(imported_, "run", "runs").c_str(), arguments_.folder->c_str(),
          replaced_ > 0 ? (", " + std::to_string(replaced_) + " read again").c_str() : "",
          there_ > 0 ? (", " + std::to_string(there_) + " were there already (--again reads them again)").c_str() : "",
          failed_ > 0 ? (", " + counted(failed_, "source", "sources") + " could not be read").c_str() : "");
    return failed_ > 0 ? 1 : 0;
  }

 private:
  /// A source that cannot be read does not keep the others out.
  void read(const ImportSource& source) {
    const std::string from(name_of(source.kind));
    ImportSink sink;
    sink.wants = [&](const std::string& id) {
      if (arguments_.again || importer_.find(from, id).empty()) return true;
      ++there_;
      if (json_) print("already there", from, id, {.kind = {}, .run = importer_.find(from, id), .remarks = {}});
      return false;
    };
    sink.take = [&](ImportedRun run) { take(std::move(run)); };
    sink.remark = [&](const std::string& remark) { tell(source.path.string() + ": " + remark); };
    sink.progress = [&](int64_t done, int64_t total) {
      progress_.show(source.path.string() + ": " + std::to_string(done) + " of " + std::to_string(total));
    };
    try {
      read_runs(source, sink);
    } catch (const Error& error) {
      if (arguments_.paths.size() == 1 && std::filesystem::is_regular_file(arguments_.paths[0])) throw;
      ++failed_;
      tell(error.what());
    }
  }

  void take(ImportedRun run) {
    const std::string from = run.from, id = run.id;
    const ImportResult result = importer_.add(std::move(run));
    const bool again = result.kind == ImportResult::Kind::kReplaced;
    ++(again ? replaced_ : result.kind == ImportResult::Kind::kAlreadyThere ? there_ : imported_);
    if (json_) return print(again ? "replaced" : "imported", from, id, result);
    for (const std::string& remark : result.remarks) tell(result.run.filename().string() + ": " + remark);
    progress_.clear();
    std::printf("%s: %s in %s%s\n", result.run.filename().c_str(), counted(result.points, "point", "points").c_str(),
                counted(result.metrics, "metric", "metrics").c_str(),
                result.media > 0 ? (", " + counted(result.media, "object", "objects")).c_str() : "");
  }

  void print(const std::string& event, const std::string& from, const std::string& id,
             const ImportResult& result) const {
    JsonLine()
        .set("event", event)
        .set("from", from)
        .set("source_id", id)
        .set("id", result.run.filename().string())
        .set("path", result.run.string())
        .set("metrics", result.metrics)
        .set("points", result.points)
        .set("media", result.media)
        .set("remarks", result.remarks)
        .print();
  }

  void tell(const std::string& text) {
    progress_.clear();
    warn(text);
  }

  const ExchangeArguments& arguments_;
  const bool json_;
  RunImporter importer_;
  CountProgress progress_;
  int64_t imported_ = 0, replaced_ = 0, there_ = 0, failed_ = 0;
};

}  // namespace

void add_exchange_commands(const AddRunsCommand& add, const std::string& folder) {
  auto arguments = std::make_shared<ExchangeArguments>();
  arguments->folder = &folder;
  const auto add_run_names = [&](CLI::App& command) {
    command.add_option("run", arguments->runs, "a run's folder, its id, the end of its id, or latest")
        ->type_name("RUN")
        ->required()
        ->expected(1, 100'000);
  };
  CLI::App* exporting = add("export", "Runs as files of other programs",
                            [arguments](bool json) { return export_runs(*arguments, json); });
  add_run_names(*exporting);
  exporting
      ->add_option("--format", arguments->format,
                   "csv: metrics, one row a step; json: the whole run; tensorboard: event files; wandb: a folder for "
                   "`wandb sync`")
      ->check(CLI::IsMember({"csv", "json", "tensorboard", "wandb"}))
      ->capture_default_str();
  exporting
      ->add_option("--out", arguments->out,
                   "file (default: standard output); for tensorboard and wandb the folder to write into")
      ->type_name("PATH");
  exporting->add_option("--project", arguments->project, "W&B's project, for --format wandb")
      ->type_name("NAME")
      ->capture_default_str();
  CLI::App* pushing = add("push", "Send runs to a server of MLflow; runs that are there are brought up to date",
                          [arguments](bool json) { return push_runs(*arguments, json); });
  add_run_names(*pushing);
  pushing->add_option("--mlflow", arguments->mlflow, "address of the server (default: MLFLOW_TRACKING_URI)")
      ->type_name("URL");
  pushing->add_option("--experiment", arguments->experiment, "MLflow's experiment; made where it is not there")
      ->type_name("NAME")
      ->capture_default_str();
  pushing->footer(
      "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, say who you are;\n"
      "MLFLOW_TRACKING_INSECURE_TLS and MLFLOW_TRACKING_SERVER_CERT_PATH work as in MLflow.");
  CLI::App* importing = add("import", "Read runs of MLflow, TensorBoard and W&B into folders of runs",
                            [arguments](bool json) { return ImportCommand(*arguments, json).run(); });
  importing
      ->add_option(
          "path", arguments->paths,
          "MLflow's database (mlflow.db), an event file of TensorBoard, a .wandb file, or a folder with any of "
          "them in it or below it")
      ->type_name("PATH")
      ->required()
      ->expected(1, 100'000);
  importing->add_flag("--again", arguments->again,
                      "read runs again that were imported before: they keep their folders and what was noted of them");
}

}  // namespace ramet::cli
