#include "ramet/train/onnx_case.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ramet/base/error_types.h"
#include "ramet/base/file.h"
#include "ramet/front/onnx_write.h"
#include "ramet/kernel/interpret.h"
#include "ramet/train/predictor.h"

namespace ramet::train {
namespace {

namespace fs = std::filesystem;

/// The tensor of the feeds that a data input of the program reads.
const HostTensor& fed(const OnnxProgram& program, const OnnxFeeds& feeds, const std::string& input) {
  const auto& [name, index] = program.inputs.at(input);
  return feeds.find(name)->second.tensors.at(index);
}

std::map<std::string, HostTensor> compiled_results(const OnnxProgram& program, const OnnxFeeds& feeds, int threads) {
  Model model;
  model.name = "onnx";
  model.programs.push_back({"predict", program.graph});
  model.inputs = checked_inputs(model);
  Where where;
  where.threads = threads;
  TrainOptions options;
  options.precision = "f32";
  Predictor predictor(model, options, Layout{}, where, {"predict"});
  predictor.initialize();
  std::vector<NamedTensor> inputs;
  for (const auto& [name, type] : predictor.program("predict").inputs()) {
    const HostTensor& tensor = fed(program, feeds, name);
    inputs.push_back({name, tensor.type, tensor.data});
  }
  std::map<std::string, HostTensor> results;
  for (NamedTensor& result : predictor.run("predict", inputs)) {
    HostTensor made(result.type);
    made.data = std::move(result.bytes);
    results[result.name] = std::move(made);
  }
  return results;
}

std::map<std::string, HostTensor> interpreted_results(const OnnxProgram& program, const OnnxFeeds& feeds, int threads) {
  std::map<std::string, HostTensor> inputs, results;
  for (const auto& [name, from] : program.inputs) inputs[name] = fed(program, feeds, name);
  std::vector<HostTensor> made = interpret(program.graph, cpu_backend(), inputs, threads);
  for (size_t i = 0; i < made.size(); ++i) results[program.graph.outputs()[i].name] = std::move(made[i]);
  return results;
}

/// The files PREFIX_0.pb, PREFIX_1.pb, ... of a data set.
std::vector<fs::path> numbered(const fs::path& set, const std::string& prefix) {
  std::vector<fs::path> found;
  for (;;) {
    const fs::path next = set / (prefix + "_" + std::to_string(found.size()) + ".pb");
    std::error_code error;
    if (!fs::is_regular_file(next, error)) return found;
    found.push_back(next);
  }
}

void read_tolerance(const fs::path& folder, OnnxTolerance& tolerance) {
  std::error_code error;
  if (!fs::is_regular_file(folder / "data.json", error)) return;
  const nlohmann::json json = nlohmann::json::parse(read_file(folder / "data.json"), nullptr, false);
  if (!json.is_object()) return;
  if (json.contains("rtol") && json["rtol"].is_number()) tolerance.relative = json["rtol"];
  if (json.contains("atol") && json["atol"].is_number()) tolerance.absolute = json["atol"];
}

/// What a folder feeds to the inputs of a model.
OnnxFeeds read_feeds(const fs::path& set, const OnnxGraph& graph) {
  OnnxFeeds feeds;
  const std::vector<fs::path> inputs = numbered(set, "input");
  // Files of old versions list initializers among the inputs; data sets have the others.
  std::set<std::string> initialized;
  for (const OnnxTensor& tensor : graph.initializers) initialized.insert(tensor.name);
  std::vector<const OnnxValueInfo*> fed;
  for (const OnnxValueInfo& input : graph.inputs)
    if (!initialized.count(input.name)) fed.push_back(&input);
  if (inputs.size() > fed.size())
    throw FormatError({.what = "a data set has more inputs than the model", .where = set.string()});
  for (size_t i = 0; i < inputs.size(); ++i) feeds[fed[i]->name] = read_onnx_feed(inputs[i], *fed[i]);
  return feeds;
}

/// The first difference of a data set; "" where there is none.
std::string run_set(const fs::path& set, const OnnxModel& model, const fs::path& folder, const OnnxTolerance& tolerance,
                    const OnnxRun& run, OnnxVerdict& verdict) {
  const OnnxGraph& graph = model.graph;
  const OnnxFeeds feeds = read_feeds(set, graph);
  const std::vector<fs::path> outputs = numbered(set, "output");
  if (outputs.size() > graph.outputs.size())
    throw FormatError({.what = "a data set has more outputs than the model", .where = set.string()});
  const OnnxProgram program =
      import_onnx_program(model, feeds, {.folder = folder, .source = folder.filename().string()});
  verdict.specialized = program.specialized;
  const std::vector<OnnxFeed> found = run_onnx(program, feeds, run);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OnnxFeed expected = read_onnx_feed(outputs[i], graph.outputs[i]);
    if (const std::string differs = compare_onnx(found[i], expected, tolerance.relative, tolerance.absolute);
        !differs.empty())
      return "output '" + graph.outputs[i].name + "': " + differs;
  }
  if (run.gradients && !verdict.gradient) {
    std::map<std::string, HostTensor> inputs;
    for (const auto& [name, from] : program.inputs) inputs[name] = fed(program, feeds, name);
    verdict.gradient = check_gradient(program.graph, inputs);
  }
  return "";
}

std::string message_of(const Error& error) {
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::replace(text.begin(), text.end(), '\t', ' ');
  return text;
}

}  // namespace

std::string_view name_of(OnnxVerdict::Kind kind) {
  switch (kind) {
    case OnnxVerdict::Kind::kPassed: return "passed";
    case OnnxVerdict::Kind::kFailed: return "failed";
    case OnnxVerdict::Kind::kRefused: return "refused";
  }
  return "";
}

std::vector<OnnxFeed> run_onnx(const OnnxProgram& program, const OnnxFeeds& feeds, const OnnxRun& run) {
  std::map<std::string, HostTensor> results =
      run.interpret ? interpreted_results(program, feeds, run.threads) : compiled_results(program, feeds, run.threads);
  std::vector<OnnxFeed> made;
  for (const OnnxProgram::Output& output : program.outputs) {
    OnnxFeed feed{.kind = output.kind};
    for (const std::string& name : output.results) feed.tensors.push_back(std::move(results.at(name)));
    made.push_back(std::move(feed));
  }
  return made;
}

std::vector<fs::path> find_onnx_cases(const fs::path& root) {
  std::error_code error;
  if (!fs::is_directory(root, error)) throw Error({.what = "no folder of tests", .where = root.string()});
  std::vector<fs::path> found;
  const auto add = [&](const fs::path& folder) {
    if (fs::is_regular_file(folder / "model.onnx", error)) found.push_back(folder);
  };
  add(root);
  for (const auto& entry : fs::recursive_directory_iterator(root, fs::directory_options::skip_permission_denied))
    if (entry.is_directory(error)) add(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

OnnxVerdict run_onnx_case(const fs::path& folder, OnnxTolerance tolerance, const OnnxRun& run) {
  OnnxVerdict verdict;
  try {
    read_tolerance(folder, tolerance);
    const MappedFile file(folder / "model.onnx");
    const OnnxModel model = parse_onnx(file.view(), folder.filename().string());
    std::vector<fs::path> sets;
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().filename().string().starts_with("test_data_set_")) sets.push_back(entry.path());
    std::sort(sets.begin(), sets.end());
    if (sets.empty()) throw FormatError({.what = "a test has no data set", .where = folder.string()});
    for (const fs::path& set : sets) {
      const std::string differs = run_set(set, model, folder, tolerance, run, verdict);
      if (differs.empty()) continue;
      verdict.kind = OnnxVerdict::Kind::kFailed;
      verdict.message = set.filename().string() + ", " + differs;
      return verdict;
    }
  } catch (const UnsupportedOp& error) {
    verdict.kind = OnnxVerdict::Kind::kRefused, verdict.message = message_of(error);
  } catch (const FormatError& error) {
    verdict.kind = OnnxVerdict::Kind::kRefused, verdict.message = message_of(error);
  } catch (const Error& error) {
    verdict.kind = OnnxVerdict::Kind::kFailed, verdict.message = message_of(error);
  }
  return verdict;
}

void run_onnx_files(const fs::path& model, const fs::path& in, const fs::path& out, const OnnxRun& run) {
  const MappedFile file(model);
  const OnnxModel parsed = parse_onnx(file.view(), model.filename().string());
  const OnnxFeeds feeds = read_feeds(in, parsed.graph);
  const fs::path folder = model.parent_path().empty() ? fs::path(".") : model.parent_path();
  const OnnxProgram program =
      import_onnx_program(parsed, feeds, {.folder = folder, .source = model.filename().string()});
  const std::vector<OnnxFeed> results = run_onnx(program, feeds, run);
  fs::create_directories(out);
  for (size_t i = 0; i < results.size(); ++i)
    write_file_atomic(out / ("output_" + std::to_string(i) + ".pb"),
                      onnx_feed_bytes(results[i], parsed.graph.outputs[i]));
}

}  // namespace ramet::train
