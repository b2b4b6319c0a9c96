#include "ramet/model/node2vec.h"

#include <cmath>

#include "ramet/base/error.h"
#include "ramet/model/blocks.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::model {
namespace {

Tensor table_of(ModelBuilder& model, int64_t width, const WalkTask& task) {
  return model.matrix("embedding.weight", {task.nodes, width}, {kNoAxis, kNoAxis},
                      1 / std::sqrt(static_cast<double>(width)));
}

void write_loss(int64_t width, const WalkTask& task, Graph& graph, std::vector<StateTensor>* weights) {
  ModelBuilder model(graph, weights, 0, false, task.seed);
  GraphBuilder& build = model.build();
  const auto input = [&](const std::string& name, int64_t nodes) {
    return build.input(name, DType::kI32, {task.micro_batch, task.group, nodes},
                       std::vector<std::string>{"batch", "", ""});
  };
  const Tensor walks = input("walks", task.length), negatives = input("negatives", task.negatives);
  const Tensor table = table_of(model, width, task);
  // One gather, so that one sum is the table's gradient.
  const Tensor rows = gather(table, concat({walks, negatives}, 2));
  const auto part = [&](int64_t first, int64_t count) { return slice_axis(rows, 2, first, first + count); };
  const int64_t starts = task.length - task.context + 1;
  const Tensor from = part(0, starts);
  Tensor right;
  for (int64_t k = 1; k < task.context; ++k) {
    const Tensor scores = reduce_sum(multiply(from, part(k, starts)), {3});
    const Tensor found = reduce_mean(softplus(negate(scores)));
    right = right.valid() ? add(right, found) : found;
  }
  const Tensor wrong = reduce_mean(softplus(matmul(from, part(task.length, task.negatives), false, true)));
  build.output("loss", add(scale(right, 1 / static_cast<double>(task.context - 1)), wrong));
  build.output("count", full(build, DType::kF32, {}, static_cast<double>(task.micro_batch * task.group)));
}

void write_rows(int64_t width, const WalkTask& task, Graph& graph) {
  ModelBuilder model(graph, nullptr, 0, false, task.seed);
  const Tensor nodes =
      model.build().input("nodes", DType::kI32, {task.micro_batch, task.group}, std::vector<std::string>{"batch", ""});
  model.build().output("rows", gather(table_of(model, width, task), nodes));
}

}  // namespace

Model build_node2vec(int64_t width, const WalkTask& task) {
  if (width < 1 || task.micro_batch < 1 || task.group < 1 || task.negatives < 1 || task.nodes < 1)
    throw Error({.what = "sizes of the model must be positive", .where = "model (node2vec)"});
  if (task.context < 2 || task.context > task.length)
    throw Error({.what = "a window of a walk does not fit the walk",
                 .where = "model (node2vec)",
                 .found = std::to_string(task.context) + " nodes",
                 .expected = "2 to " + std::to_string(task.length)});
  Model model;
  model.name = "node2vec";
  write_loss(width, task, model.forward, &model.weights);
  write_loss(width, task, model.evaluate, nullptr);
  model.programs.push_back({.name = "rows", .graph = Graph("rows")});
  write_rows(width, task, model.programs.back().graph);
  for (const GraphInput& input : model.forward.inputs()) {
    if (input.role != InputRole::kData) continue;
    const Value& value = model.forward.value(input.value);
    model.inputs.push_back({.name = value.name, .type = value.type, .axes = input.axes});
    limit_input(model, value.name, 0, static_cast<double>(task.nodes - 1));
  }
  model.metrics = {mean_metric("loss", "count")};
  model.limit_items("loss", task.micro_batch * task.group);
  model.guards = {"loss"};
  return model;
}

}  // namespace ramet::model
