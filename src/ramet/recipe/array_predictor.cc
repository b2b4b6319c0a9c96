#include "ramet/recipe/array_predictor.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/base/words.h"
#include "ramet/ir/part_of.h"
#include "ramet/model/array_file.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/inputs.h"

namespace ramet::recipe {
namespace {

const char* const kPredict = "predict";

/// The graph that answers: the evaluation, or a program on request. `program` "" gets the name of the usual one.
const Graph& graph_of(const Model& model, std::string& program) {
  std::string known = "evaluate";
  for (const NamedGraph& each : model.programs) {
    if (each.when.kind != When::Kind::kRequest) continue;
    if (program.empty() && each.name == kPredict) program = kPredict;
    if (each.name == program) return each.graph;
    known += ", " + each.name;
  }
  if (program.empty()) program = "evaluate";
  if (program == "evaluate") return model.evaluate;
  throw Error({.what = "the model has no program on request of this name",
               .where = "--program",
               .found = "'" + program + "'",
               .expected = known});
}

/// The part of a graph that can be computed from `given` data inputs. `left_out`: results that cannot; `missing`: the
/// inputs that they need.
Graph computable_part(const Graph& graph, const std::set<std::string>& given, std::vector<std::string>& left_out,
                      std::set<std::string>& missing) {
  std::vector<bool> lacks(graph.values().size(), false);
  for (const GraphInput& input : graph.inputs()) {
    const std::string& name = graph.value(input.value).name;
    if (input.role != InputRole::kData || given.count(name)) continue;
    lacks[static_cast<size_t>(input.value)] = true;
    missing.insert(name);
  }
  for (const Node& node : graph.nodes())
    for (const ValueId input : node.inputs)
      if (lacks[static_cast<size_t>(input)])
        for (const ValueId output : node.outputs) lacks[static_cast<size_t>(output)] = true;
  std::vector<GraphOutput> outputs;
  for (const GraphOutput& output : graph.outputs()) {
    if (lacks[static_cast<size_t>(output.value)])
      left_out.push_back(output.name);
    else
      outputs.push_back(output);
  }
  return part_of(graph, kPredict, outputs);
}

/// The data inputs of a graph, with what the model declares of them.
std::vector<InputSpec> inputs_of(const Graph& graph, const Model& model) {
  std::vector<InputSpec> inputs;
  for (const GraphInput& input : graph.inputs()) {
    if (input.role != InputRole::kData) continue;
    const Value& value = graph.value(input.value);
    const auto declared = std::find_if(model.inputs.begin(), model.inputs.end(),
                                       [&](const InputSpec& spec) { return spec.name == value.name; });
    inputs.push_back(declared != model.inputs.end() ? *declared : InputSpec{.name = value.name, .type = value.type});
  }
  return inputs;
}

}  // namespace

ArrayPredictor::ArrayPredictor(const Recipe& complete, std::string program, std::vector<ArrayColumn> arrays,
                               const std::string& source, const Layout& layout, const Where& where) {
  Model model = build_model(complete);
  std::set<std::string> given, missing;
  for (const ArrayColumn& column : arrays) given.insert(column.name);
  Graph graph = computable_part(graph_of(model, program), given, left_out_, missing);
  if (graph.outputs().empty())
    throw Error({.what = "every result of '" + program + "' needs an input that the arrays lack",
                 .where = source,
                 .found = listed(given),
                 .expected = listed(missing)});
  const std::vector<InputSpec> inputs = inputs_of(graph, model);
  if (!inputs.empty()) {
    const int64_t batch = complete.train.micro_batch;
    source_ = check_inputs(kind_of(complete).open_request(complete, std::move(arrays), inputs, source), inputs, batch);
    samples_ = source_->epoch_samples(0);
  }
  model.programs = {{kPredict, std::move(graph), When::on_request()}};
  predictor_ =
      std::make_unique<Predictor>(std::move(model), complete.train, layout, where, std::vector<std::string>{kPredict});
}

std::vector<NamedTensor> ArrayPredictor::predict(const RequestProgress& progress) {
  if (!source_) return predictor_->run(kPredict, {});
  const SampleProgram& program = predictor_->program(kPredict);
  const int64_t batches = program.batches_of(samples_);
  Feeder feeder(source_, predictor_->cluster(),
                {.micro_batch = program.batch(), .program = kPredict, .count = batches});
  feeder.begin(0);
  const ClusterFeed feed = feed_with_progress(feeder.feed(), program.batch(), samples_, progress);
  return program.join(predictor_->run(kPredict, batches, samples_, feed), samples_);
}

}  // namespace ramet::recipe
