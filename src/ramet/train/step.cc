#include "ramet/train/step.h"

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/transform/chunk.h"
#include "ramet/transform/differentiate.h"
#include "ramet/transform/precision.h"

namespace ramet {
namespace {

std::string accumulator_of(const std::string& weight) { return "accumulator." + weight; }

/// The graph with a further output "scaled_loss" = loss x factor.
Graph with_scaled_loss(const Graph& forward, double factor) {
  Graph graph(forward.name());
  GraphCopier copier(forward, graph);
  copier.copy_inputs();
  for (NodeId id = 0; id < static_cast<NodeId>(forward.nodes().size()); ++id) copier.copy_node(id);
  copier.copy_outputs();
  GraphBuilder build(graph);
  Scope scope(build, "loss_scale");
  build.output("scaled_loss", scale(build.tensor(graph.find_output("loss")->value), factor));
  return graph;
}

/// Forward and backward; each gradient is added to its accumulator.
Graph make_micro(const Model& model, const Recipe& recipe, DType compute) {
  const double loss_scale = recipe.train.loss_scale.value_or(1);
  Graph forward = set_chunks(lower_precision(model.forward, compute), recipe.train.chunks);
  if (loss_scale != 1) forward = with_scaled_loss(forward, loss_scale);
  std::vector<std::string> names;
  for (const auto& weight : model.weights) names.push_back(weight.name);
  // Backward has sums of its own, over rows.
  const Graph both =
      set_chunks(differentiate(forward, loss_scale != 1 ? "scaled_loss" : "loss", names), recipe.train.chunks);

  Graph micro("micro");
  GraphCopier copier(both, micro);
  copier.copy_inputs();
  for (NodeId id = 0; id < static_cast<NodeId>(both.nodes().size()); ++id) copier.copy_node(id);
  GraphBuilder build(micro);
  for (const auto& output : both.outputs())
    if (output.name != "scaled_loss" && !output.name.starts_with("grad."))
      micro.add_output(output.name, copier[output.value], output.role);
  Scope scope(build, "accumulate");
  for (const auto& weight : model.weights) {
    const Tensor gradient = build.tensor(copier[both.find_output("grad." + weight.name)->value]);
    const std::string name = accumulator_of(weight.name);
    build.output(name, add(build.state(name, DType::kF32, weight.type.shape), gradient), OutputRole::kState);
  }
  return micro;
}

class UpdateBuilder {
 public:
  UpdateBuilder(const Model& model, const Recipe& recipe, StepGraph& step)
      : model_(model), recipe_(recipe), step_(step), build_(step.update) {}

  void run() {
    std::vector<Tensor> gradients;
    for (const auto& weight : model_.weights)
      gradients.push_back(build_.state(accumulator_of(weight.name), DType::kF32, weight.type.shape));
    const Tensor grad_scale = make_grad_scale(gradients);
    const std::string& kind = recipe_.optimizer.kind;
    scalars_ = {.rate = scalar("learning_rate"), .correction1 = {}, .correction2 = {}, .grad_scale = grad_scale};
    if (kind != "sgd") scalars_.correction1 = scalar("correction1"), scalars_.correction2 = scalar("correction2");
    for (size_t i = 0; i < gradients.size(); ++i) {
      Scope scope(build_, "update/" + model_.weights[i].name);
      if (kind == "sgd")
        update_sgd(model_.weights[i], gradients[i]);
      else
        update_adam(model_.weights[i], gradients[i]);
    }
  }

 private:
  Tensor scalar(const std::string& name) { return build_.input(name, DType::kF32, {}, InputRole::kScalar); }

  /// What gradients are multiplied with: the mean over micro-batches, less the loss scale, clipped. Not finite when
  /// their norm is not, so that the optimizers leave everything as it was.
  Tensor make_grad_scale(const std::vector<Tensor>& gradients) {
    Scope scope(build_, "gradient_norm");
    std::vector<Tensor> squares;
    for (const Tensor gradient : gradients) squares.push_back(sum_squares(gradient));
    const double mean = 1 / (static_cast<double>(recipe_.train.accumulation) * recipe_.train.loss_scale.value_or(1));
    const Tensor norm = scale(sqrt(from_exact(exact_sum(squares))), mean);
    build_.output("grad_norm", norm);
    Tensor factor = full(build_, DType::kF32, {}, mean);
    if (recipe_.train.clip_norm > 0) {
      const Tensor limit = full(build_, DType::kF32, {}, recipe_.train.clip_norm),
                   one = full(build_, DType::kF32, {}, 1);
      factor = multiply(factor, minimum(one, divide(limit, add_scalar(norm, 1e-6))));  // as PyTorch's clip_grad_norm_
    }
    return add(factor, scale(norm, 0));  // 0 x infinity is NaN
  }

  Tensor optimizer_state(const std::string& name, const StateTensor& weight) {
    step_.states.push_back({name, weight.type, StateKind::kOptimizer, {}, weight.group});
    return build_.state(name, DType::kF32, weight.type.shape);
  }
  double decay_of(const StateTensor& weight) const {
    return weight.group == "decay" ? recipe_.optimizer.weight_decay : 0;
  }

  void update_sgd(const StateTensor& weight, Tensor gradient) {
    const auto& optimizer = recipe_.optimizer;
    const std::string name = "optimizer.momentum." + weight.name;
    const Tensor momentum = optimizer.momentum != 0 ? optimizer_state(name, weight) : Tensor{};
    const SgdResult result =
        sgd(build_.state(weight.name, DType::kF32, weight.type.shape), gradient, momentum, scalars_.rate,
            scalars_.grad_scale,
            {.momentum = optimizer.momentum, .weight_decay = decay_of(weight), .nesterov = optimizer.nesterov});
    build_.output(weight.name, result.weight, OutputRole::kState);
    if (result.momentum.valid()) build_.output(name, result.momentum, OutputRole::kState);
  }

  void update_adam(const StateTensor& weight, Tensor gradient) {
    const auto& optimizer = recipe_.optimizer;
    const Tensor m = optimizer_state("optimizer.m." + weight.name, weight),
                 v = optimizer_state("optimizer.v." + weight.name, weight);
    const AdamOptions options{.beta1 = optimizer.beta1,
                              .beta2 = optimizer.beta2,
                              .epsilon = optimizer.epsilon,
                              .weight_decay = decay_of(weight),
                              .decoupled = optimizer.kind != "adam"};
    const Tensor w = build_.state(weight.name, DType::kF32, weight.type.shape);
    const AdamResult result = optimizer.kind == "lamb" ? lamb(w, gradient, m, v, scalars_, options)
                                                       : adam(w, gradient, m, v, scalars_, options);
    build_.output(weight.name, result.weight, OutputRole::kState);
    build_.output("optimizer.m." + weight.name, result.m, OutputRole::kState);
    build_.output("optimizer.v." + weight.name, result.v, OutputRole::kState);
  }

  const Model& model_;
  const Recipe& recipe_;
  StepGraph& step_;
  GraphBuilder build_;
  AdamScalars scalars_;
};

}  // namespace

StepGraph make_training_step(const Model& model, const Recipe& recipe) {
  const DType compute = dtype_from_name(recipe.train.precision);
  StepGraph step;
  step.lanes = recipe.train.lanes;
  step.micro_batches_per_lane = recipe.train.accumulation / recipe.train.lanes;
  step.states = model.weights;
  for (const auto& weight : model.weights)
    step.states.push_back(
        {accumulator_of(weight.name), {DType::kF32, weight.type.shape}, StateKind::kAccumulator, {}, weight.group});
  step.micro = make_micro(model, recipe, compute);
  UpdateBuilder(model, recipe, step).run();
  step.evaluate = set_chunks(lower_precision(model.evaluate, compute), recipe.train.chunks);
  step.evaluate.set_name("evaluate");
  return step;
}

}  // namespace ramet
