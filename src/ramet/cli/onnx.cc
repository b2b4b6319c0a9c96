// ONNX's tests as files.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <sstream>

#include "ramet/base/error_types.h"
#include "ramet/base/file.h"
#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/cli/onnx.h"
#include "ramet/front/frozen_norms.h"
#include "ramet/front/open_model.h"
#include "ramet/model/model_file.h"
#include "ramet/train/onnx_case.h"

namespace ramet::cli {
namespace {

struct OnnxTestArguments {
  std::vector<std::string> folders;
  std::string expect, record;
  OnnxTolerance tolerance;
  OnnxRun run;
};

/// What a file of expectations says of a test: "passed", or "refused" and the message.
using Expectations = std::map<std::string, std::string>;

std::string line_of(const OnnxVerdict& verdict) {
  if (verdict.gradient) {
    const GradientCheck& gradient = *verdict.gradient;
    return std::string(name_of(gradient.kind)) + (gradient.message.empty() ? "" : "\t" + gradient.message);
  }
  return std::string(name_of(verdict.kind)) + (verdict.message.empty() ? "" : "\t" + verdict.message);
}

Expectations read_expectations(const std::string& path) {
  Expectations made;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    const size_t tab = line.find('\t');
    if (tab == std::string::npos)
      throw Error({.what = "a line without a result", .where = path, .found = line.substr(0, 80)});
    made[line.substr(0, tab)] = line.substr(tab + 1);
  }
  return made;
}

void tell(const std::string& name, const OnnxVerdict& verdict, bool json) {
  if (json) {
    JsonLine line;
    line.set("event", "test")
        .set("name", name)
        .set("result", std::string(name_of(verdict.kind)))
        .set("message", verdict.message)
        .set("constants", std::vector<std::string>(verdict.specialized.begin(), verdict.specialized.end()));
    if (verdict.gradient) line.set("gradient", line_of(verdict));
    line.print();
  } else if (verdict.gradient && verdict.gradient->kind != GradientCheck::Kind::kChecked) {
    std::printf("%s: gradient %s\n", name.c_str(), line_of(verdict).c_str());
  } else if (verdict.kind != OnnxVerdict::Kind::kPassed) {
    std::printf("%s: %s: %s\n", name.c_str(), std::string(name_of(verdict.kind)).c_str(), verdict.message.c_str());
  }
  std::fflush(stdout);
}

int test(const OnnxTestArguments& arguments, bool json) {
  Expectations expected, found;
  if (!arguments.expect.empty()) expected = read_expectations(arguments.expect);
  std::map<OnnxVerdict::Kind, int64_t> counts;
  std::map<GradientCheck::Kind, int64_t> gradients;
  int64_t unexpected = 0, constants = 0;
  for (const std::string& root : arguments.folders)
    for (const std::filesystem::path& folder : find_onnx_cases(root)) {
      const std::string name = folder.filename().string();
      const OnnxVerdict verdict = run_onnx_case(folder, arguments.tolerance, arguments.run);
      ++counts[verdict.kind];
      constants += verdict.kind == OnnxVerdict::Kind::kPassed && !verdict.specialized.empty();
      tell(name, verdict, json);
      if (verdict.gradient) ++gradients[verdict.gradient->kind];
      if (arguments.run.gradients && !verdict.gradient) continue;
      found[name] = line_of(verdict);
      if (const auto line = expected.find(name); line != expected.end() && line->second != found[name]) {
        ++unexpected;
        warn(name + ": expected " + line->second + "; found " + found[name]);
      } else if (!arguments.expect.empty() && line == expected.end()) {
        ++unexpected;
        warn(name + ": the file of expectations does not have this test");
      }
    }
  if (!arguments.record.empty()) {
    std::string text =
        arguments.run.gradients
            ? "# Tests that pass, and their gradients: written by `ramet onnx test --gradients --record`.\n"
            : "# Test, result, and why it is refused: written by `ramet onnx test --record`.\n";
    for (const auto& [name, line] : found) text += name + "\t" + line + "\n";
    write_file_atomic(arguments.record, text);
  }
  using Kind = OnnxVerdict::Kind;
  using Gradient = GradientCheck::Kind;
  if (json) {
    JsonLine line;
    line.set("event", "end")
        .set("passed", counts[Kind::kPassed])
        .set("failed", counts[Kind::kFailed])
        .set("refused", counts[Kind::kRefused])
        .set("with_constants", constants)
        .set("unexpected", unexpected);
    if (arguments.run.gradients)
      for (const Gradient kind : {Gradient::kChecked, Gradient::kNone, Gradient::kUnsure, Gradient::kWrong})
        line.set("gradient_" + std::string(name_of(kind)), gradients[kind]);
    line.print();
  } else {
    std::printf("%lld passed (%lld of them with inputs as constants), %lld failed, %lld refused\n",
                static_cast<long long>(counts[Kind::kPassed]), static_cast<long long>(constants),
                static_cast<long long>(counts[Kind::kFailed]), static_cast<long long>(counts[Kind::kRefused]));
    if (arguments.run.gradients)
      std::printf(
          "gradients: %lld checked, %lld tests without one, %lld without a derivative, %lld wrong\n",
          static_cast<long long>(gradients[Gradient::kChecked]), static_cast<long long>(gradients[Gradient::kNone]),
          static_cast<long long>(gradients[Gradient::kUnsure]), static_cast<long long>(gradients[Gradient::kWrong]));
  }
  return counts[Kind::kFailed] > 0 || gradients[Gradient::kWrong] > 0 || unexpected > 0 ? 1 : 0;
}

struct OnnxRunArguments {
  std::string model, in, out;
  OnnxRun run;
};

/// 3 where the model is refused.
int run(const OnnxRunArguments& arguments, bool json) {
  try {
    run_onnx_files(arguments.model, arguments.in, arguments.out, arguments.run);
  } catch (const UnsupportedOp& error) {
    if (!json) throw;
    JsonLine().set("event", "refused").set("message", std::string(error.what())).print();
    return 3;
  }
  if (json) JsonLine().set("event", "end").set("out", arguments.out).print();
  return 0;
}

struct ImportArguments {
  std::string model, out, bind;
  OnnxModelOptions options;
};

int import(ImportArguments arguments, bool json) {
  arguments.options.bind = parse_onnx_bind(arguments.bind);
  if (arguments.out.empty()) arguments.out = std::filesystem::path(arguments.model).stem().string() + ".ramet";
  const auto [model, units] = open_model(arguments.model, arguments.options);
  save_model(arguments.out, model, units);
  if (const std::string remark = frozen_norms_remark(model); !remark.empty()) warn(remark);
  std::vector<std::string> programs;
  for (const NamedGraph& program : model.programs) programs.push_back(program.name);
  const auto weights = static_cast<int64_t>(model.weights.size());
  if (json) {
    JsonLine()
        .set("event", "end")
        .set("out", arguments.out)
        .set("weights", weights)
        .set("parameters", model.parameters())
        .set("trains", !model.metrics.empty())
        .set("programs", programs)
        .print();
    return 0;
  }
  std::printf("%s: %lld weights with %lld elements, %s\n", arguments.out.c_str(), static_cast<long long>(weights),
              static_cast<long long>(model.parameters()),
              model.metrics.empty() ? "for predictions alone (no loss)" : "with a loss");
  for (const InputSpec& input : model.inputs)
    std::printf("  input %s %s\n", input.name.c_str(), input.type.text().c_str());
  return 0;
}

void add_run_options(CLI::App& command, OnnxRun& run) {
  command.add_option("--threads", run.threads, "threads")->check(CLI::Range(1, 1024))->capture_default_str();
  command.add_flag("--interpret", run.interpret, "run node by node, without the compiler");
}

void add_run(CLI::App& onnx, Session& session) {
  auto arguments = std::make_shared<OnnxRunArguments>();
  CLI::App* command = onnx.add_subcommand("run", "Run a model once on tensors in ONNX's form");
  command->add_option("model", arguments->model, "the model")->type_name("FILE")->required();
  command->add_option("--in", arguments->in, "folder with input_0.pb, input_1.pb, ...")->type_name("DIR")->required();
  command->add_option("--out", arguments->out, "folder for output_0.pb, ...")->type_name("DIR")->required();
  add_run_options(*command, arguments->run);
  add_json_option(*command, session);
  command->callback(
      [arguments, &session] { session.action = [arguments, &session] { return run(*arguments, session.json); }; });
}

}  // namespace

void add_import(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<ImportArguments>();
  CLI::App* command = app.add_subcommand("import", "Make a model file (*.ramet) of an ONNX file or of a .pt2 file");
  command->add_option("model", arguments->model, "FILE.onnx or FILE.pt2")->type_name("FILE")->required();
  command->add_option("--out", arguments->out, "the model file to write (default: the same name, .ramet)")
      ->type_name("FILE");
  command
      ->add_option("--bind", arguments->bind,
                   "ONNX: extents of named dimensions, and values of integer inputs, as batch=16,sequence=128")
      ->type_name("NAME=N,...");
  command
      ->add_option("--loss", arguments->options.loss,
                   "ONNX: the output to minimise, or cross_entropy:LOGITS:LABELS with a new input of classes (default: "
                   "the only output that is one number)")
      ->type_name("LOSS");
  command
      ->add_option("--train", arguments->options.train,
                   "ONNX: initializers that are weights, * for any text (default: all that look like weights)")
      ->type_name("PATTERN")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--freeze", arguments->options.freeze, "ONNX: initializers that are no weights")
      ->type_name("PATTERN")
      ->take_all()
      ->allow_extra_args(false);
  add_json_option(*command, session);
  command->callback(
      [arguments, &session] { session.action = [arguments, &session] { return import(*arguments, session.json); }; });
}

void add_onnx(CLI::App& app, Session& session) {
  CLI::App* onnx = app.add_subcommand("onnx", "Work with ONNX files");
  onnx->require_subcommand(1);
  auto arguments = std::make_shared<OnnxTestArguments>();
  add_run(*onnx, session);
  CLI::App* command = onnx->add_subcommand(
      "test", "Run tests in ONNX's form: folders with model.onnx and test_data_set_*/input_N.pb, output_N.pb");
  command->add_option("folder", arguments->folders, "folders that hold tests, at any depth")
      ->type_name("FOLDER")
      ->required();
  command->add_option("--rtol", arguments->tolerance.relative, "relative tolerance, where a test has no data.json")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--atol", arguments->tolerance.absolute, "absolute tolerance")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--expect", arguments->expect, "a file with the result of each test; others are failures")
      ->type_name("FILE");
  command->add_option("--record", arguments->record, "write such a file")->type_name("FILE");
  command->add_flag("--gradients", arguments->run.gradients,
                    "compare the gradient of each test that passes with finite differences; --expect and --record are "
                    "then about gradients");
  add_run_options(*command, arguments->run);
  add_json_option(*command, session);
  command->callback(
      [arguments, &session] { session.action = [arguments, &session] { return test(*arguments, session.json); }; });
}

}  // namespace ramet::cli
