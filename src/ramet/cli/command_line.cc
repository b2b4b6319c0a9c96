#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <thread>

#include "ramet/base/file.h"
#include "ramet/base/version.h"
#include "ramet/cli/command_table.h"
#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/cli/onnx.h"
#include "ramet/cli/program.h"
#include "ramet/front/open_model.h"
#include "ramet/kernel/devices.h"
#include "ramet/recipe/kinds.h"
#include "ramet/track/run_directory.h"
#include "ramet/track/run_record.h"
#include "ramet/transport/mpi_transport.h"

namespace ramet::cli {

bool Session::leads() const { return !mpi || mpi->rank() == 0; }

MpiSession* join_job(Session& session) {
  if (!session.mpi && started_by_mpi()) session.mpi = std::make_shared<MpiSession>();
  return session.mpi.get();
}

Where ModelOptions::where(MpiSession* mpi) const {
  Where options;
  options.threads = threads;
  options.mpi = mpi;
  options.time_limit = std::chrono::milliseconds(static_cast<int64_t>(time_limit * 1000));
  if (!device_memory.empty()) {
    try {
      options.device_memory = parse_size(device_memory);
    } catch (const Error& error) {
      ErrorParts parts = error.parts();
      parts.where = "--device-memory";
      throw Error(std::move(parts));
    }
  }
  return options;
}

void add_device_option(CLI::App& command) {
  std::vector<std::string> names;
  for (const DeviceEntry& device : devices()) names.emplace_back(device.name);
  command
      .add_option_function<std::string>(
          "--device", [](const std::string& name) { choose_device(name); },
          "what computes (default: what RAMET_DEVICE says, or cpu); cuda is an NVIDIA GPU of class sm_90, whose bits "
          "are those of hopper-host")
      ->type_name("NAME")
      ->check(CLI::IsMember(names));
}

void add_model_options(CLI::App& command, ModelOptions& options) {
  command
      .add_option("--set", options.settings, "change a key of the recipe, as train.steps=100; may stand several times")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  command
      .add_option_function<std::string>(
          "--bind", [&options](const std::string& text) { options.settings.push_back("--bind=" + text); },
          "of an ONNX file: extents of named dimensions, and values of integer inputs, as batch=16,sequence=128")
      ->type_name("NAME=N,...");
  command
      .add_option("--threads", options.threads,
                  "threads that compute, shared evenly by the devices of this process (default: all processors); "
                  "changes no bit "
                  "of any result")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  command
      .add_option("--device-memory", options.device_memory,
                  "most memory that the program may take, as 2GiB (default: no limit)")
      ->type_name("SIZE");
  add_device_option(command);
}

void add_layout_option(CLI::App& command, ModelOptions& options) {
  command
      .add_option("--layout", options.layout,
                  "where and when to compute, as \"p=2 t=2 r=2\", or a TOML file with the same keys (see `ramet recipe "
                  "--help`); auto finds the fastest one; changes no bit of any result")
      ->type_name("LAYOUT");
}

void add_time_limit_option(CLI::App& command, ModelOptions& options) {
  command
      .add_option("--time-limit", options.time_limit,
                  "end the run when a device waits so many seconds for another (default: a minute or more, by the work "
                  "of a step)")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 1e6));
}

namespace {

/// How --bind stands among the settings.
constexpr std::string_view kBind = "--bind=";

/// "batch=16&sequence=128" of "--bind=batch=16,sequence=128".
std::string bound_text(const std::string& setting) {
  std::string text = setting.substr(kBind.size());
  std::replace(text.begin(), text.end(), ',', '&');
  return text;
}

/// The defaults of a recipe with a model's file, changed by settings.
Recipe recipe_of_model_file(std::string path, std::vector<std::string> settings) {
  // What --bind says belongs to the file's name.
  const std::string name = std::filesystem::path(path.substr(0, path.find('?'))).stem().string();
  for (const std::string& setting : settings)
    if (setting.starts_with(kBind)) path += (path.find('?') == std::string::npos ? "?" : "&") + bound_text(setting);
  std::erase_if(settings, [](const std::string& setting) { return setting.starts_with(kBind); });
  settings.insert(settings.begin(), "model.file=" + path);
  return parse_recipe("", name, ".", settings);
}

}  // namespace

Recipe open_recipe(const std::string& path, const ModelOptions& options) {
  Recipe recipe =
      is_model_file_name(path) ? recipe_of_model_file(path, options.settings) : load_recipe(path, options.settings);
  if (!options.layout.empty()) set_layout(recipe, options.layout);
  return recipe;
}

void tell_before(const Workload& workload) {
  for (const std::string& text : workload.remarks) warn(text);
  for (const std::string& text : workload.notes) note(text);
}

Layout prediction_layout(const Recipe& recipe, const ModelOptions& options) {
  return options.layout.empty() ? Layout{} : parse_layout(recipe.layout, layout_source(recipe));
}

void add_runs_option(CLI::App& command, std::string& folder) {
  command.add_option("--run-dir", folder, "folder of runs")->type_name("DIR")->capture_default_str();
}

void add_json_option(CLI::App& command, Session& session) {
  command.add_flag("--json", session.json, "print JSON, one object a line, for programs");
}

void begin_from_run(Recipe& recipe, const std::filesystem::path& run, bool has_weights) {
  if (has_weights) recipe.model.init_from.clear();
  kind_of(recipe).begin_from_run(recipe, run);
}

Subject find_subject(const std::string& text, const ModelOptions& options) {
  namespace fs = std::filesystem;
  std::error_code error;
  Subject subject;
  if (fs::is_regular_file(text, error) || is_model_file_name(text)) {
    subject.recipe = open_recipe(text, options);
    return subject;
  }
  if (text.ends_with(".toml")) {
    subject.recipe = open_recipe(text, options);  // says that it cannot be opened
    return subject;
  }
  subject.run = find_run(text, options.runs);
  refuse_imported(subject.run, text);
  subject.recipe = open_recipe((subject.run / "recipe.toml").string(), options);
  fs::path path = fs::path(text).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  const fs::path parent = path.parent_path().filename();
  if (path.filename().string().starts_with("step-") && (parent == "checkpoints" || parent == "best")) {
    subject.checkpoint = path;
  } else {
    subject.checkpoint = answering_checkpoint(subject.run);
  }
  begin_from_run(subject.recipe, subject.run, subject.checkpoint.has_value());
  return subject;
}

namespace {

/// An error that all ranks have is printed once, by the leading rank. Another rank prints an error that the leading one
/// cannot print, because it has ended or was halted, here or on another host.
int report(const Session& session, const Error& error) {
  const bool known =
      error.kind() == ErrorKind::kUsage || std::string(error.what()).find("rank 0 ") == std::string::npos;
  const bool stands_in = session.mpi && session.mpi->is_first_running();
  if (!session.leads() && known && !stands_in) return error.kind() == ErrorKind::kUsage ? 2 : 1;
  return cli::report(error, session.json);
}

int run(int argc, char** argv, Session& session) {
  session.command.assign(argv, argv + argc);
  for (int i = 1; i < argc; ++i) session.json = session.json || std::string(argv[i]) == "--json";
  CLI::App app("Ramet compiles the whole training of a model into one static program, and runs it.", "ramet");
  app.set_version_flag("--version", version());
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  add_train(app, session);
  add_sweep(app, session);
  add_plan(app, session);
  add_probe(app, session);
  add_eval(app, session);
  add_predict(app, session);
  add_bench(app, session);
  add_vocab(app, session);
  add_corpus(app, session);
  add_pack(app, session);
  add_graphs(app, session);
  add_molecules(app, session);
  add_runs(app, session);
  add_import(app, session);
  add_onnx(app, session);
  add_serve(app, session);
  add_inspect(app, session);
  add_export(app, session);
  add_recipe(app, session);
  add_simulate(app, session);
  add_score(app, session);
  add_help(app, session);
  add_completion(app, session);
  try {
    if (argc == 1) {
      std::fputs(app.help().c_str(), stderr);
      return 2;
    }
    if (argv[1][0] != '-') find_command(app, argv[1]);
    app.parse(argc, argv);
    return session.action();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::string text = error.what();
    while (!text.empty() && (text.back() == '\n' || text.back() == '.')) text.pop_back();
    const std::string command = argc > 1 && argv[1][0] != '-' ? std::string(" ") + argv[1] : "";
    return report(session, Error({.what = text,
                                  .where = argc > 1 && argv[1][0] != '-' ? argv[1] : "",
                                  .remedy = "`ramet" + command + " --help` tells what it takes"}));
  } catch (const Error& error) {
    return report(session, error);
  } catch (const std::bad_alloc&) {
    return report(session,
                  Error({.what = "out of memory", .remedy = "Use a smaller model or micro-batch, or more memory"},
                        ErrorKind::kFailure));
  } catch (const std::exception& error) {
    return report(session,
                  Error({.what = std::string("internal error: ") + error.what(),
                         .remedy = "This is a fault of Ramet, not of your input; please report it with the command"},
                        ErrorKind::kFailure));
  }
}

int run(int argc, char** argv) {
  Session session;
  const int status = run(argc, argv, session);
  if (!session.mpi) return status;
  if (status == 0 && session.mpi->leave()) return 0;
  // Peers may be gone, or wait where this rank will never come: no end in order. The launcher ends all ranks soon after
  // the first, so those that have nothing to tell let the leading one speak.
  if (!session.leads()) std::this_thread::sleep_for(std::chrono::milliseconds(700));
  if (session.mpi->stopped()) session.mpi->leave();
  exit_after_fault(status);
}

}  // namespace

int run_program(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error, with a name
  return run(argc, argv);
}

}  // namespace ramet::cli
