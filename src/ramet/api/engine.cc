#include "ramet/api/engine.h"

#include "ramet/base/error_types.h"

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
  void operator()(const v0::Rmsprop& from) const {
    to.kind = from.centered ? "centered_rmsprop" : "rmsprop";
    to.beta2 = from.alpha, to.epsilon = from.epsilon, to.weight_decay = from.weight_decay, to.momentum = from.momentum;
  }
  void operator()(const v0::Adagrad& from) const {
    to.kind = "adagrad", to.rate_decay = from.rate_decay, to.first_sum = from.first_sum;
    to.epsilon = from.epsilon, to.weight_decay = from.weight_decay;
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

void check_memory_options(const v0::TrainOptions& from) {
  if (from.moments != v0::Precision::kF32 && from.moments != v0::Precision::kBF16)
    throw Error({.what = "moments of this type are not offered",
                 .where = "TrainOptions::moments",
                 .found = precision_name(from.moments),
                 .expected = "f32 or bf16"});
  const auto refuse = [](const std::string& because, const std::string& found, const std::string& expected) {
    throw Error({.what = "weights cannot be updated in the backward pass while " + because,
                 .where = "TrainOptions::update_in_backward",
                 .found = found,
                 .expected = expected});
  };
  if (!from.update_in_backward) return;
  if (from.max_gradient_norm > 0) refuse("gradients are clipped by the norm of all", "a max_gradient_norm", "none");
  if (from.micro_batches > 1)
    refuse("gradients are summed over micro-batches", std::to_string(from.micro_batches) + " micro-batches", "1");
  if (from.loss_scale == 0) refuse("a step that overflows is skipped", "an automatic loss_scale", "a number");
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
  check_memory_options(from);
  if (!(from.device_memory_share >= 0 && from.device_memory_share <= 1))
    throw Error({.what = "a share of memory is from 0 to 1",
                 .where = "TrainOptions::device_memory_share",
                 .found = std::to_string(from.device_memory_share)});
  train::TrainOptions to;
  std::visit(FillOptimizer{to.optimizer}, from.optimizer);
  for (const v0::Group& group : from.groups) to.groups.push_back(engine_group(group));
  to.schedule.kind = kind_name(from.schedule.kind);
  to.schedule.learning_rate = from.schedule.learning_rate, to.schedule.end = from.schedule.end;
  to.schedule.power = from.schedule.power, to.schedule.warmup_steps = from.schedule.warmup_steps;
  if (from.schedule.steps > 0) to.schedule.steps = from.schedule.steps;
  to.precision = precision_name(from.precision);
  to.optimizer.state = precision_name(from.moments);
  to.optimizer.in_backward = from.update_in_backward;
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
  if (threads < 0 || device_memory < 0)
    throw Error({.what = threads < 0 ? "a number of threads is below 0" : "a size of memory is below 0",
                 .found = std::to_string(threads < 0 ? threads : device_memory)});
  train::Where where;
  where.threads = threads, where.device_memory = device_memory, where.device = device;
  return where;
}

Layout engine_layout(const std::string& text) { return layout::parse_layout(text, "layout"); }

v0::Metrics metrics_of(const NamedNumbers& numbers) { return v0::Metrics(numbers); }

SampleViews::SampleViews(const train::SampleProgram& program, const model::Model& model, const v0::NamedViews& samples,
                         const std::string& where) {
  const Inputs inputs = program.inputs(), declared = inputs_of(model);
  const auto has = [](const Inputs& all, const std::string& name) {
    return std::any_of(all.begin(), all.end(), [&](const auto& input) { return input.first == name; });
  };
  v0::NamedViews read;
  for (const auto& sample : samples)
    if (has(inputs, sample.first) || !has(declared, sample.first)) read.push_back(sample);
  count_ = inputs.empty() ? 0 : check_views(inputs, read, where);
  for (const auto& [name, view] : samples)  // views keep the caller's names
    for (const auto& [input, type] : inputs)
      if (input == name) views_.push_back({name, &types_.emplace_back(of_samples(type, count_)), view.data()});
}

void SampleViews::check_whole(const train::SampleProgram& program, const std::string& where) const {
  if (program.batch() > 0 && count_ % program.batch() != 0)
    throw ShapeError({.what = "samples that are no whole micro-batches",
                      .where = where,
                      .found = std::to_string(count_) + " samples",
                      .expected = "a multiple of " + std::to_string(program.batch())});
}

v0::Arrays run_request(const train::SampleProgram& program, const model::Model& model, const v0::NamedViews& samples,
                       bool pads, const train::SampleProgram::Run& run) {
  const std::string where = "program '" + program.name() + "'";
  const SampleViews views(program, model, samples, where);
  if (!pads) views.check_whole(program, where);
  std::vector<v0::Array> arrays;
  for (NamedTensor& each : program.run(views.views(), {}, run))
    arrays.emplace_back(std::move(each.name), std::move(each.type), std::move(each.bytes));
  return v0::Arrays(std::move(arrays));
}

}  // namespace ramet::api
