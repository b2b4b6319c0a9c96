#include "ramet/api/engine.h"

#include <algorithm>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/model/array_file.h"
#include "ramet/train/feeder.h"

namespace ramet::api {
namespace {

/// Optimizers by name, and their numbers. Those that an optimizer does not have stay as they are.
struct FillOptimizer {
  train::OptimizerOptions& to;

  void operator()(const v0::AdamW& from) const { adam("adamw", from); }
  void operator()(const v0::Adam& from) const { adam("adam", from); }
  void operator()(const v0::Lamb& from) const { adam("lamb", from); }
  void operator()(const v0::Sgd& from) const {
    to.kind = "sgd", to.momentum = from.momentum, to.weight_decay = from.weight_decay, to.nesterov = from.nesterov;
  }
  void operator()(const v0::Lars& from) const {
    to.kind = "lars", to.momentum = from.momentum, to.weight_decay = from.weight_decay;
    to.trust_coefficient = from.trust_coefficient;
  }
  void operator()(const v0::Lion& from) const {
    to.kind = "lion", to.beta1 = from.beta1, to.beta2 = from.beta2, to.weight_decay = from.weight_decay;
  }
  void operator()(const v0::Adafactor& from) const {
    to.kind = "adafactor", to.weight_decay = from.weight_decay, to.clip_threshold = from.clip_threshold;
    to.decay_rate = from.decay_rate, to.factored = from.factored, to.relative_step = from.relative_step;
    to.scale_parameter = from.scale_parameter, to.first_moment = from.first_moment;
  }

 private:
  template <typename From>
  void adam(const char* kind, const From& from) const {
    to.kind = kind, to.beta1 = from.beta1, to.beta2 = from.beta2, to.epsilon = from.epsilon;
    to.weight_decay = from.weight_decay, to.bias_correction = from.bias_correction;
  }
};

std::string kind_name(v0::Schedule::Kind kind) {
  switch (kind) {
    case v0::Schedule::Kind::kConstant: return "constant";
    case v0::Schedule::Kind::kLinear: return "linear";
    case v0::Schedule::Kind::kCosine: return "cosine";
    case v0::Schedule::Kind::kPolynomial: return "polynomial";
  }
  internal_error("kind_name", "unknown kind of schedule");
}

train::GroupOptions engine_group(const v0::Group& from) {
  train::GroupOptions group;
  group.name = from.name, group.weights = from.weights, group.frozen = from.frozen, group.rate = from.rate;
  group.weight_decay = from.weight_decay, group.beta1 = from.beta1, group.beta2 = from.beta2;
  group.epsilon = from.epsilon, group.momentum = from.momentum;
  return group;
}

void check_positive(const char* name, int64_t value) {
  if (value < 1)
    throw Error({.what = "an option must be 1 or more",
                 .where = std::string("TrainOptions::") + name,
                 .found = std::to_string(value)});
}

/// Results of several micro-batches of one output, those by sample without the rows behind the last sample.
v0::Array join(const std::vector<ResultTensors>& batches, size_t output, bool by_sample, int64_t samples) {
  const ResultTensor& first = batches[0][output];
  std::vector<std::byte> bytes;
  for (const ResultTensors& each : batches)
    bytes.insert(bytes.end(), each[output].bytes.begin(), each[output].bytes.end());
  std::vector<int64_t> dims = first.type.shape.dims();
  if (by_sample) {
    dims[0] = samples;
    const TensorType type{first.type.dtype, Shape(dims)};
    bytes.resize(static_cast<size_t>(type.bytes()));
    return {first.name, type, std::move(bytes)};
  }
  if (batches.size() > 1) dims.insert(dims.begin(), std::ssize(batches));
  return {first.name, {first.type.dtype, Shape(dims)}, std::move(bytes)};
}

}  // namespace

std::string precision_name(v0::Precision precision) {
  switch (precision) {
    case v0::Precision::kF32: return "f32";
    case v0::Precision::kBF16: return "bf16";
    case v0::Precision::kF16: return "f16";
    case v0::Precision::kF8: return "f8";
  }
  internal_error("precision_name", "unknown precision");
}

train::TrainOptions engine_options(const v0::TrainOptions& from, const v0::Model::Contents& model) {
  check_positive("micro_batches", from.micro_batches);
  check_positive("lanes", from.lanes);
  check_positive("chunks", from.chunks);
  check_positive("steps", from.steps);
  if (from.micro_batches % from.lanes != 0)
    throw Error({.what = "lanes must divide the micro-batches of a step",
                 .where = "TrainOptions::lanes",
                 .found = std::to_string(from.lanes) + " lanes",
                 .expected = "a divisor of " + std::to_string(from.micro_batches)});
  train::TrainOptions to;
  std::visit(FillOptimizer{to.optimizer}, from.optimizer);
  for (const v0::Group& group : from.groups) to.groups.push_back(engine_group(group));
  to.schedule.kind = kind_name(from.schedule.kind);
  to.schedule.learning_rate = from.schedule.learning_rate, to.schedule.end = from.schedule.end;
  to.schedule.power = from.schedule.power, to.schedule.warmup_steps = from.schedule.warmup_steps;
  if (from.schedule.steps > 0) to.schedule.steps = from.schedule.steps;
  to.precision = precision_name(from.precision);
  to.steps = from.steps, to.micro_batch = model.micro_batch, to.accumulation = from.micro_batches;
  to.lanes = from.lanes, to.chunks = from.chunks, to.seed = static_cast<int64_t>(from.seed);
  to.clip_norm = from.max_gradient_norm;
  if (from.loss_scale == 0)
    to.loss_scale.automatic = true;
  else
    to.loss_scale.number = from.loss_scale;
  to.loss_mean = from.loss_mean_of_step ? "step" : "micro";
  to.evaluation.every = from.evaluate_every;
  to.evaluation.batches = from.evaluation_batches > 0 ? from.evaluation_batches : int64_t{1} << 40;
  to.checkpoint.every = from.save_every, to.checkpoint.keep = from.keep;
  return to;
}

train::Where engine_where(int threads, int64_t device_memory, const std::string& device) {
  train::Where where;
  where.threads = threads, where.device_memory = device_memory, where.device = device;
  return where;
}

Layout engine_layout(const std::string& text) { return layout::parse_layout(text, "layout"); }

model::Model with_seed(model::Model model, uint64_t seed) {
  Graph seeded(model.forward.name());
  GraphCopier copier(model.forward, seeded);
  copier.copy_inputs();
  for (NodeId id = 0; id < static_cast<NodeId>(model.forward.nodes().size()); ++id) {
    const Node& node = model.forward.node(id);
    if (!node.attributes.has("seed")) {
      copier.copy_node(id);
      continue;
    }
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(copier[input]);
    Attributes attributes = node.attributes;
    attributes.set("seed", static_cast<int64_t>(seed));
    copier.copy_node(id, std::move(inputs), std::move(attributes));
  }
  copier.copy_outputs();
  model.forward = std::move(seeded);
  return model;
}

v0::Metrics metrics_of(const NamedNumbers& numbers) { return v0::Metrics(numbers); }

std::vector<ResultTensors> run_batches(Cluster& cluster, const model::Model& model, const std::string& program,
                                       const Inputs& inputs, int64_t micro_batch, int64_t batches,
                                       const v0::NamedViews& samples, int64_t count) {
  const Wanted everywhere{.everywhere = true};
  if (inputs.empty())
    return cluster.run(program, batches, [](int64_t, const Executable&, FeedSink&) {}, {}, everywhere);
  std::vector<model::InputSpec> specs;  // with the limits of the model's inputs
  for (const auto& [name, type] : inputs) {
    specs.push_back({.name = name, .type = type});
    for (const auto& input : model.inputs)
      if (input.name == name) specs.back() = input;
  }
  const auto source = model::check_inputs(std::make_shared<ViewSource>(inputs, samples, 0, count), specs, micro_batch);
  train::Feeder feeder(source, cluster, {.micro_batch = micro_batch, .program = program, .count = batches});
  feeder.begin(0);
  return cluster.run(program, batches, feeder.feed(), {}, everywhere);
}

v0::Arrays run_request(Cluster& cluster, const model::Model& model, const std::string& program, const Graph& graph,
                       int64_t micro_batch, const v0::NamedViews& samples, bool pads) {
  const Inputs inputs = inputs_of(graph);
  const int64_t count = inputs.empty() ? micro_batch : check_views(inputs, samples, "program '" + program + "'");
  const std::set<std::string> by_sample = outputs_by_sample(graph);
  const bool whole = count % micro_batch == 0;
  for (const GraphOutput& output : graph.outputs())
    if (!whole && (!pads || !by_sample.count(output.name)))
      throw Error(
          {.what = pads ? "an output has no row for each sample, so that the last micro-batch cannot be filled up"
                        : "samples that are no whole micro-batches",
           .where = "program '" + program + "'" + (pads ? ", output '" + output.name + "'" : ""),
           .found = std::to_string(count) + " samples",
           .expected = "a multiple of " + std::to_string(micro_batch)});
  const int64_t batches = (count + micro_batch - 1) / micro_batch;
  const auto results = run_batches(cluster, model, program, inputs, micro_batch, batches, samples, count);
  std::vector<v0::Array> arrays;
  for (size_t output = 0; output < results.at(0).size(); ++output)
    arrays.push_back(join(results, output, by_sample.count(results[0][output].name) > 0, count));
  return v0::Arrays(std::move(arrays));
}

}  // namespace ramet::api
