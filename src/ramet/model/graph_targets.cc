// What networks on graphs learn: answers for graphs, nodes or edges, their losses and metrics.

#include "ramet/model/graph_net_builder.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_loss.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::model {
namespace {

/// "qm9_loss", or of the only target "loss".
std::string name_in(const GraphTarget& target, const std::string& name) {
  return target.name.empty() ? name : target.name + "_" + name;
}
/// "targets.qm9", or of the only target "targets".
std::string input_of(const GraphTarget& target, const std::string& name) {
  return target.name.empty() ? name : name + "." + target.name;
}

}  // namespace

GraphTarget only_target(const GraphNetConfig& config, const GraphTask& task) {
  return {.name = "",
          .per = task.per_graph ? Per::kGraph : Per::kNode,
          .loss = task.targets() > 0 ? config.loss : "classes",
          .classes = task.classes,
          .mean = task.target_mean,
          .deviation = task.target_deviation};
}

int64_t GraphNetBuilder::rows_of(const GraphTarget& target) const {
  return target.per == Per::kGraph ? task_.room.graphs : target.per == Per::kNode ? task_.room.nodes : task_.room.edges;
}

void GraphNetBuilder::finish(Tensor answers) {
  const GraphTarget target = only_target(config_, task_);
  const Tensor rows = reshape(answers, {-1, task_.answers()});
  if (use_ == Use::kPredict) return predict(target, rows);
  const Tensor loss = loss_of(target, rows);
  if (noise_loss_.valid()) build_.output("loss", add(loss, noise_loss_));
}

/// Two layers on what the readout makes of the nodes of a graph, on a node, or on both ends of an edge.
Tensor GraphNetBuilder::head_of(const GraphTarget& target, Tensor nodes) {
  const std::string name = "heads." + target.name;
  const Tensor x = target.per == Per::kGraph  ? of_graphs(nodes)
                   : target.per == Per::kNode ? nodes
                                              : concat({of_sources(nodes), of_targets(nodes)}, 2);
  const Tensor hidden = drop(relu(dense(x, name + ".0", nodes.dim(-1))), config_.dropout, name + ".drop");
  return dense(hidden, name + ".3", target.answers());
}

void GraphNetBuilder::finish_tasks(Tensor nodes) {
  Tensor sum = use_ == Use::kPredict ? Tensor() : noise_loss_;
  for (const GraphTarget& target : task_.tasks) {
    Tensor answers;
    {
      Scope scope(build_, "head");
      answers = reshape(head_of(target, nodes), {-1, target.answers()});
    }
    if (use_ == Use::kPredict) {
      predict(target, answers);
      continue;
    }
    const Tensor loss = loss_of(target, answers);
    sum = sum.valid() ? add(sum, loss) : loss;
  }
  if (use_ != Use::kPredict) build_.output("loss", sum);
}

Tensor GraphNetBuilder::row_of(const std::vector<double>& values) {
  std::vector<Tensor> numbers;
  for (const double value : values) numbers.push_back(full(build_, DType::kF32, {1}, value));
  return numbers.size() == 1 ? numbers[0] : concat(numbers, 0);
}

void GraphNetBuilder::predict(const GraphTarget& target, Tensor rows) {
  const auto give = [&](const char* name, Tensor of_items, std::vector<int64_t> dims) {
    dims.insert(dims.begin(), {task_.micro_batch, rows_of(target)});
    build_.output(name_in(target, name), reshape(of_items, Shape(std::move(dims))));
  };
  if (target.loss == "binary") {
    give("logits", rows, {target.answers()});
    return give("probabilities", sigmoid(rows), {target.answers()});
  }
  if (target.loss != "classes") {
    const Tensor values = add(multiply(rows, row_of(target.deviation)), row_of(target.mean));
    return give("values", values, {target.answers()});
  }
  give("logits", rows, {target.classes});
  give("classes", argmax(rows, 1), {});
  give("probabilities", softmax(rows, 1), {target.classes});
}

Tensor GraphNetBuilder::loss_of(const GraphTarget& target, Tensor rows) {
  Scope scope(build_, "loss");
  return target.loss == "classes" ? class_loss(target, rows) : number_loss(target, rows);
}

void GraphNetBuilder::give_loss_output(const GraphTarget& target, Tensor loss) {
  // Beside a loss of noise, the only target's is a part of the whole.
  build_.output(target.name.empty() && noise_loss_.valid() ? "answer_loss" : name_in(target, "loss"), loss);
}

Tensor GraphNetBuilder::class_loss(const GraphTarget& target, Tensor logits) {
  const Tensor labels = input(input_of(target, "labels"), DType::kI32, {rows_of(target)});
  const CrossEntropy found = cross_entropy(logits, reshape(labels, {-1}));
  if (task_.corrected) {
    const Tensor weight = reshape(input("label_weight", DType::kF32, {rows_of(target)}), {-1});
    const Tensor each = cross_entropy_loss(logits, reshape(labels, {-1}), {.reduction = LossReduction::kNone});
    const Tensor mean = scale(reduce_sum(multiply(each, weight)), 1 / static_cast<double>(task_.micro_batch));
    give_loss_output(target, mean);
    build_.output("correct", found.correct);
    build_.output("labelled", found.count);
    build_.output("count", full(build_, DType::kF32, {}, static_cast<double>(task_.micro_batch)));
    return mean;
  }
  const Tensor loss = target.weight == 1 ? found.loss : scale(found.loss, target.weight);
  give_loss_output(target, loss);
  build_.output(name_in(target, "correct"), found.correct);
  build_.output(name_in(target, "count"), found.count);
  return loss;
}

Tensor GraphNetBuilder::number_loss(const GraphTarget& target, Tensor values) {
  const int64_t answers = target.answers();
  const auto labels = [&](const char* name) {
    return reshape(input(input_of(target, name), DType::kF32, {rows_of(target), answers}), {-1, answers});
  };
  const Tensor known = labels("known"), targets = labels("targets"), count = reduce_sum(known);
  const Tensor items = maximum(count, number(1));
  const auto give_loss = [&](Tensor each) {
    Tensor loss = divide(reduce_sum(each), items);
    if (target.weight != 1) loss = scale(loss, target.weight);
    give_loss_output(target, loss);
    return loss;
  };
  const auto give = [&](const char* name, Tensor value) { build_.output(name_in(target, name), value); };
  if (target.loss == "binary") {
    // -log sigmoid(x) where the target is 1, -log(1 - sigmoid(x)) where it is 0
    const Tensor loss = give_loss(multiply(subtract(softplus(values), multiply(values, targets)), known));
    const Tensor right = equal(less(number(0), values), less(number(0.5), targets));
    give("correct", reduce_sum(multiply(cast(right, DType::kF32), known)));
    give("count", count);
    // For ROC-AUC (recipe/graph_evaluator.h): scores, and beside them the answers, -1 where none is known.
    if (use_ == Use::kEvaluate)
      give("ranked", concat({values, add_scalar(multiply(add_scalar(targets, 1), known), -1)}, 1));
    return loss;
  }
  const Tensor apart = multiply(subtract(values, targets), known);
  const Tensor loss = give_loss(target.loss == "absolute" ? map_unary("abs", apart) : multiply(apart, apart));
  const Tensor unit = multiply(map_unary("abs", apart), row_of(target.deviation));
  give("absolute", divide(reduce_sum(unit), items));
  give("squared", divide(reduce_sum(multiply(unit, unit)), items));
  give("count", count);
  return loss;
}

}  // namespace ramet::model
