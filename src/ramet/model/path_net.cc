#include "ramet/model/path_net.h"

#include "ramet/base/error.h"
#include "ramet/model/blocks.h"
#include "ramet/model/graph_net_builder.h"
#include "ramet/model/ranks.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_graphs.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_paths.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::model {
namespace {

constexpr double kLeastVariance = 1e-6, kLeastScale = 1e-2;  // as the published network has them
constexpr double kEpsilon = 1e-5;                            // of layer norms
constexpr int64_t kKinds = 4;                                // mean, greatest, least, deviation

const std::map<std::string, std::string> kMessages{{"distmult", "product"}, {"transe", "sum"}, {"rotate", "rotation"}};

/// Writes one graph of the network. Entities' vectors are [B, N, Q, width].
class PathNet {
 public:
  PathNet(const PathNetConfig& config, const PathTask& task, const PathGraphSize& size, Graph& graph,
          std::vector<StateTensor>* weights)
      : config_(config),
        task_(task),
        size_(size),
        model_(graph, weights, 0, false, task.seed),
        build_(model_.build()) {}

  void write_loss() {
    read_queries();
    const Tensor candidates = input("candidates", DType::kI32, {task_.group, 1 + task_.negatives});
    const Tensor all = entities();
    Scope scope(build_, "score");
    // Row (entity, query) of the entities' vectors as one table.
    const Tensor queries = full(build_, DType::kI32, {}, static_cast<double>(task_.group));
    const Tensor rows = add(multiply(candidates, queries), iota(build_, DType::kI32, {1, task_.group, 1}, 1));
    const Tensor table = reshape(all, {task_.micro_batch, size_.entities * task_.group, config_.width});
    const Tensor found = gather_rows(table, rows);  // [B, Q, 1 + K, width]
    const Tensor scores = score(found, reshape(query_, {task_.micro_batch, task_.group, 1, config_.width}));
    build_.output("loss", loss_of(scores));
    build_.output("count", full(build_, DType::kF32, {}, static_cast<double>(task_.micro_batch * task_.group)));
  }

  void write_ranks() {
    read_queries();
    const Tensor answers = input("answer", DType::kI32, {task_.group});
    const Tensor known = input("known", DType::kI32, {size_.known}),
                 ptr = input("known_ptr", DType::kI32, {task_.group + 1});
    build_.output("rank", filtered_ranks(scores_of_all(), answers, known, ptr));
  }

  void write_prediction() {
    read_queries();
    const auto [scores, found] = top_k(scores_of_all(), task_.top);
    const Shape shape{task_.micro_batch, task_.group, task_.top};
    build_.output("answers", reshape(found, shape));
    build_.output("scores", reshape(scores, shape));
  }

 private:
  Tensor number(double value) { return full(build_, DType::kF32, {}, value); }

  Tensor input(const std::string& name, DType dtype, std::vector<int64_t> dims) {
    dims.insert(dims.begin(), task_.micro_batch);
    std::vector<std::string> axes(dims.size());
    axes[0] = "batch";
    return build_.input(name, dtype, Shape(std::move(dims)), std::move(axes));
  }

  Tensor dense(Tensor x, const std::string& name, int64_t out) {
    const Tensor weight = model_.matrix(name + ".weight", {out, x.dim(-1)}, {{}, {}}, of_linear(x.dim(-1)));
    return linear(x, weight, model_.vector(name + ".bias", out, {}, 0));
  }

  void read_queries() {
    entity_ = input("entity", DType::kI32, {task_.group});
    relation_ = input("relation", DType::kI32, {task_.group});
    lists_ = {.source = input("source", DType::kI32, {size_.edges}),
              .relation = input("edge_relation", DType::kI32, {size_.edges}),
              .ptr = input("ptr", DType::kI32, {size_.entities + 1})};
  }

  /// The vectors of all entities behind the last layer.
  Tensor entities() {
    query_ = gather(model_.matrix("query.weight", {2 * task_.relations, config_.width}, {{}, {}}, 1), relation_);
    {
      Scope scope(build_, "boundary");
      const int64_t batch = task_.micro_batch, group = task_.group;
      const Tensor number = iota(build_, DType::kI32, {1, size_.entities, 1, 1}, 1);
      const Tensor is_given = equal(number, reshape(entity_, {batch, 1, group, 1}));
      boundary_ = select(is_given, reshape(query_, {batch, 1, group, config_.width}), this->number(0));
    }
    Tensor x = boundary_;
    for (int64_t i = 0; i < config_.layers; ++i) {
      PartScope part(build_, "layer", i);
      const Tensor next = layer(x, "layers." + std::to_string(i));
      x = config_.shortcut ? add(next, x) : next;
    }
    return x;
  }

  /// For each relation a vector that the query's relation decides: [B, 2 relations, Q width].
  Tensor relations_of_query(const std::string& name) {
    const int64_t count = 2 * task_.relations;
    const Tensor made = dense(query_, name + ".relation_linear", count * config_.width);
    const Tensor apart = reshape(made, {task_.micro_batch, task_.group, count, config_.width});
    return reshape(transpose(apart, {0, 2, 1, 3}), {task_.micro_batch, count, task_.group * config_.width});
  }

  Tensor layer(Tensor x, const std::string& name) {
    const Shape flat{task_.micro_batch, size_.entities, task_.group * config_.width};
    const Tensor relations = relations_of_query(name), own = reshape(boundary_, flat), rows = reshape(x, flat);
    const std::string& message = kMessages.at(config_.message);
    Tensor sum;
    if (config_.aggregate == "sum")
      sum = summed(x, path_sum(own, rows, relations, lists_, message, config_.width), name);
    else
      sum = principal(x, path_statistics(own, rows, relations, lists_, message, config_.width), name);
    if (config_.norm) sum = model_.norm(sum, name + ".layer_norm", kEpsilon);
    return relu(sum);
  }

  Tensor apart(Tensor rows) { return reshape(rows, {task_.micro_batch, size_.entities, task_.group, config_.width}); }
  /// [width, parts width], and the bias.
  Tensor weight_of(const std::string& name, int64_t parts) {
    const int64_t in = parts * config_.width;
    return model_.matrix(name + ".linear.weight", {config_.width, in}, {{}, {}}, of_linear(in));
  }
  Tensor with_bias(Tensor x, const std::string& name) {
    return add(x, model_.vector(name + ".linear.bias", config_.width, {}, 0));
  }

  Tensor summed(Tensor x, Tensor sum, const std::string& name) {
    return with_bias(matmul(concat({x, apart(sum)}, 3), weight_of(name, 2), false, true), name);
  }

  /// Principal neighbourhood aggregation (Corso et al., arXiv 2004.05718). The columns of the three scales are one
  /// product, and its results are scaled: no tensor has all twelve statistics.
  Tensor principal(Tensor x, const PathStatistics& found, const std::string& name) {
    const int64_t d = config_.width;
    const Tensor degree = add_scalar(cast(difference(lists_.ptr, 1), DType::kF32), 1);  // with its own message
    const Tensor count = reshape(degree, {task_.micro_batch, size_.entities, 1});
    const Tensor mean = divide(found.sum, count);
    const Tensor variance = subtract(divide(found.squares, count), multiply(mean, mean));
    const Tensor deviation = sqrt(maximum(variance, number(kLeastVariance)));
    const Tensor kinds = concat({apart(mean), apart(found.most), apart(found.least), apart(deviation)}, 3);
    const Tensor logs = reshape(log(degree), {task_.micro_batch, size_.entities, 1, 1});
    const Tensor s = divide(logs, maximum(reduce_mean(logs, {1}, true), number(kLeastScale)));
    const Tensor weight = weight_of(name, 1 + 3 * kKinds);
    std::vector<Tensor> parts;
    for (int64_t k = 0; k < 3; ++k)
      parts.push_back(slice_axis(weight, 1, d + k * kKinds * d, d + (k + 1) * kKinds * d));
    const Tensor product = matmul(kinds, concat(parts, 0), false, true);  // [B, N, Q, 3 width]
    const Tensor by_scale = reshape(product, {task_.micro_batch, size_.entities, task_.group, 3, d});
    const Tensor one = full(build_, DType::kF32, s.shape(), 1), inverse = divide(one, maximum(s, number(kLeastScale)));
    const Tensor scales = reshape(concat({one, s, inverse}, 3), {task_.micro_batch, size_.entities, 1, 3, 1});
    const Tensor scaled = reduce_sum(multiply(by_scale, scales), {3});
    return with_bias(add(matmul(x, slice_axis(weight, 1, 0, d), false, true), scaled), name);
  }

  /// Scores of vectors [..., width] and queries that broadcast to them: [...]. A dense layer on both side by side is
  /// computed in two parts.
  Tensor score(Tensor rows, Tensor queries) {
    const int64_t d = config_.width;
    const Tensor weight = model_.matrix("mlp.0.weight", {2 * d, 2 * d}, {{}, {}}, of_linear(2 * d));
    const Tensor of_rows = matmul(rows, slice_axis(weight, 1, 0, d), false, true),
                 of_queries = matmul(queries, slice_axis(weight, 1, d, 2 * d), false, true);
    const Tensor hidden = relu(add(add(of_rows, of_queries), model_.vector("mlp.0.bias", 2 * d, {}, 0)));
    const Tensor scores = dense(hidden, "mlp.1", 1);
    std::vector<int64_t> dims = scores.shape().dims();
    dims.pop_back();
    return reshape(scores, Shape(std::move(dims)));
  }

  /// [B Q, N].
  Tensor scores_of_all() {
    const Tensor all = entities();
    Scope scope(build_, "score");
    const Tensor scores = score(all, reshape(query_, {task_.micro_batch, 1, task_.group, config_.width}));
    return reshape(transpose(scores, {0, 2, 1}), {task_.micro_batch * task_.group, size_.entities});
  }

  /// Of scores [B, Q, 1 + K]: the cross-entropy of the right answer and of the wrong ones, which weigh as much together
  /// as the right one; each has the softmax of the scores as weight (Sun et al., arXiv 1902.10197), which gets no
  /// gradient.
  Tensor loss_of(Tensor scores) {
    const Tensor right = slice_axis(scores, 2, 0, 1), wrong = slice_axis(scores, 2, 1, 1 + task_.negatives);
    Tensor of_wrong = softplus(wrong);
    if (config_.temperature > 0) {
      const Tensor weights = softmax(scale(map_unary("stop_gradient", wrong), config_.temperature), 2);
      of_wrong = reduce_sum(multiply(of_wrong, weights), {2}, true);
    } else {
      of_wrong = reduce_mean(of_wrong, {2}, true);
    }
    return scale(reduce_mean(add(softplus(negate(right)), of_wrong)), 0.5);
  }

  const PathNetConfig& config_;
  const PathTask& task_;
  const PathGraphSize& size_;
  ModelBuilder model_;
  GraphBuilder& build_;
  PathLists lists_;
  Tensor entity_, relation_, query_, boundary_;
};

void check(const PathNetConfig& config, const PathTask& task) {
  const auto fail = [](const std::string& what, const std::string& found = "", const std::string& expected = "") {
    throw Error({.what = what, .where = "model (nbfnet)", .found = found, .expected = expected});
  };
  if (config.layers < 1 || config.width < 1 || task.micro_batch < 1 || task.group < 1 || task.negatives < 1 ||
      task.relations < 1)
    fail("sizes of the model must be positive");
  for (const PathGraphSize& size : {task.train, task.ranked})
    if (size.entities < 2 || size.edges < 0) fail("there must be two entities", std::to_string(size.entities));
  if (!kMessages.contains(config.message))
    fail("unknown message", "'" + config.message + "'", "distmult, transe or rotate");
  if (config.message == "rotate" && config.width % 2 != 0)
    fail("complex numbers have an even number of features", std::to_string(config.width));
  if (config.aggregate != "pna" && config.aggregate != "sum")
    fail("unknown aggregation", "'" + config.aggregate + "'", "pna or sum");
  if (task.top < 1 || task.top > task.ranked.entities)
    fail("more answers than entities are wanted", std::to_string(task.top),
         "1 to " + std::to_string(task.ranked.entities));
}

}  // namespace

Model build_path_net(const PathNetConfig& config, const PathTask& task) {
  check(config, task);
  Model model;
  model.name = "nbfnet";
  PathNet(config, task, task.train, model.forward, &model.weights).write_loss();
  PathNet(config, task, task.train, model.evaluate, nullptr).write_loss();
  model.programs.push_back({.name = "rank", .graph = Graph("rank")});
  PathNet(config, task, task.ranked, model.programs.back().graph, nullptr).write_ranks();
  model.programs.push_back({.name = "predict", .graph = Graph("predict")});
  PathNet(config, task, task.ranked, model.programs.back().graph, nullptr).write_prediction();
  for (const GraphInput& input : model.forward.inputs()) {
    if (input.role != InputRole::kData) continue;
    const Value& value = model.forward.value(input.value);
    model.inputs.push_back({.name = value.name, .type = value.type, .axes = input.axes});
  }
  for (const char* const name : {"relation", "edge_relation"})
    limit_input(model, name, 0, 2 * static_cast<double>(task.relations) - 1);
  for (const char* const name : {"entity", "candidates", "source"})
    limit_input(model, name, 0, static_cast<double>(task.train.entities - 1));
  limit_input(model, "ptr", 0, static_cast<double>(task.train.edges));
  model.metrics = {mean_metric("loss", "count")};
  model.limit_items("loss", task.micro_batch * task.group);
  model.guards = {"loss"};
  return model;
}

}  // namespace ramet::model
