#include "ramet/model/knowledge.h"

#include "ramet/base/error.h"
#include "ramet/base/host_tensor.h"
#include "ramet/model/blocks.h"
#include "ramet/model/ranks.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_graphs.h"
#include "ramet/ops/build_indexing.h"
#include "ramet/ops/build_loss.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::model {
namespace {

constexpr double kHidden = -1e30;  // the score of an answer that does not count
constexpr double kLeast = 1e-9;    // of divisors: a step may have no triples, or no negatives that count

/// Where a graph has the rows of entities from.
enum class Entities : uint8_t { kTable, kInputs };

class Knowledge {
 public:
  Knowledge(const KnowledgeConfig& config, const KnowledgeTask& task, Graph& graph, std::vector<StateTensor>* weights,
            Entities entities = Entities::kTable)
      : config_(config),
        task_(task),
        function_(*find_score_function(config.function)),
        model_(graph, weights, 0, false, task.seed),
        build_(model_.build()) {
    if (entities == Entities::kTable) make_entities();
    // Angles of so wide a distribution lie nearly evenly on the circle.
    relations_ = model_.matrix("relations.weight",
                               {task.relations * (task.reciprocal ? 2 : 1), function_.relation_parts * config.width},
                               {kNoAxis, kNoAxis}, function_.phases ? 1.8 : config.deviation);
  }

  void write_loss() {
    if (task_.sharded())
      exchange_rows();
    else
      read_rows(true);
    Tensor loss;
    for (const TripleEnd side : {TripleEnd::kTail, TripleEnd::kHead}) {
      if (!asks_for(side)) continue;
      Scope scope(build_, side == TripleEnd::kTail ? "tails" : "heads");
      const Tensor found = config_.loss == "all" ? loss_of_all(side) : loss_of_negatives(side);
      loss = loss.valid() ? scale(add(loss, found), 0.5) : found;
    }
    if (config_.penalty > 0) loss = add(loss, penalty());
    build_.output("loss", loss);
    build_.output("count",
                  real_.valid() ? reduce_sum(real_) : full(build_, DType::kF32, {}, static_cast<double>(triples())));
  }

  void write_ranks() {
    read_rows(false);
    for (const TripleEnd side : {TripleEnd::kTail, TripleEnd::kHead}) {
      const std::string name = name_of(side);
      Scope scope(build_, name);
      const int64_t room = side == TripleEnd::kTail ? task_.known_tails : task_.known_heads;
      const Tensor known = input(name + "_known", DType::kI32, {room});
      const Tensor ptr = input(name + "_known_ptr", DType::kI32, {task_.group + 1});
      build_.output(name + "_rank",
                    filtered_ranks(scores_of_all(side), side == TripleEnd::kTail ? tail_ : head_, known, ptr));
    }
  }

  void write_ranks_by_rows(int64_t block) {
    const int64_t width = entity_width();
    relation_ = input("relation", DType::kI32, {task_.group});
    relation_row_ = gather(relations_, relation_);
    head_row_ = normalised(input("head_row", DType::kF32, {task_.group, width}));
    tail_row_ = normalised(input("tail_row", DType::kF32, {task_.group, width}));
    const Tensor columns = normalised(build_.input("block", DType::kF32, {block, width}, {"", ""}));
    const Tensor real = less(iota(build_, DType::kI32, {1, block}, 1),
                             reshape(build_.input("block_size", DType::kI32, {1}, {""}), {1, 1}));
    for (const TripleEnd side : {TripleEnd::kTail, TripleEnd::kHead}) {
      const std::string name = name_of(side);
      Scope scope(build_, name);
      const Tensor known =
          input(name + "_known", DType::kI32, {side == TripleEnd::kTail ? task_.known_tails : task_.known_heads});
      const Tensor ptr = input(name + "_known_ptr", DType::kI32, {task_.group + 1});
      // By the same products as those of the block, so that a right answer in it has the score of a right answer.
      const Tensor answers = scores_of_columns(side, reshape(missing_row(side), {triples(), width}));
      const Tensor right = gather_elements(answers, iota(build_, DType::kI32, {triples(), 1}, 0), 1);
      const Tensor scores =
          select(real, scores_of_columns(side, columns), full(build_, DType::kF32, {}, -kHidden));  // above any other
      const RankCounts counts = count_around(scores, right, known, ptr);
      build_.output(name + "_lower", counts.lower());
      build_.output(name + "_even", counts.even());
    }
  }

  void write_prediction() {
    read_rows(false);
    for (const TripleEnd side : {TripleEnd::kTail, TripleEnd::kHead}) {
      const std::string name = name_of(side);
      Scope scope(build_, name);
      const auto [scores, entities] = top_k(scores_of_all(side), task_.top);
      const Shape shape{task_.micro_batch, task_.group, task_.top};
      build_.output(name + "s", reshape(entities, shape));
      build_.output(name + "_scores", reshape(scores, shape));
    }
  }

 private:
  int64_t triples() const { return task_.micro_batch * task_.group; }
  static std::string name_of(TripleEnd side) { return side == TripleEnd::kTail ? "tail" : "head"; }
  /// Whether the loss asks for this end of triples.
  bool asks_for(TripleEnd side) const {
    return side == TripleEnd::kTail ? task_.tails : task_.heads && !task_.reciprocal;
  }

  int64_t entity_width() const { return function_.entity_parts * config_.width; }

  void make_entities() {
    const int64_t width = entity_width();
    LogicalAxis axis{"entities"};
    axis.padding = task_.rows() - task_.entities;
    if (!task_.sharded()) {
      entities_ = model_.matrix(kEntities, {task_.rows(), width}, {axis, kNoAxis}, config_.deviation);
      return;
    }
    shards_ = model_.matrix(kEntities, {task_.shards, task_.shard().room(), width},
                            {LogicalAxis{"clusters"}, kNoAxis, kNoAxis}, config_.deviation);
  }

  Tensor input(const std::string& name, DType dtype, std::vector<int64_t> dims, const char* samples = "batch") {
    dims.insert(dims.begin(), task_.micro_batch);
    std::vector<std::string> axes(dims.size());
    axes[0] = samples;
    return build_.input(name, dtype, Shape(std::move(dims)), std::move(axes));
  }

  Tensor normalised(Tensor rows) {
    if (function_.entities == EntityRows::kFree) return rows;
    const Tensor size =
        function_.entities == EntityRows::kByNorm && config_.norm == 1
            ? reduce_sum(map_unary("abs", rows), {-1}, true)
            : sqrt(maximum(reduce_sum(multiply(rows, rows), {-1}, true), full(build_, DType::kF32, {}, 1e-24)));
    return divide(rows, maximum(size, full(build_, DType::kF32, {}, 1e-12)));
  }

  /// The rows of all entities that a batch names, with one gather: then one sum is their table's gradient.
  void read_rows(bool with_negatives) {
    head_ = input("head", DType::kI32, {task_.group});
    relation_ = input("relation", DType::kI32, {task_.group});
    tail_ = input("tail", DType::kI32, {task_.group});
    std::vector<Tensor> indices{head_, tail_}, flat;
    if (with_negatives) weigh_triples({});
    for (const TripleEnd side : {TripleEnd::kTail, TripleEnd::kHead})
      if (with_negatives && asks_for(side) && config_.loss != "all")
        indices.push_back(input(name_of(side) + "_negatives", DType::kI32, {task_.negatives}));
    Scope scope(build_, "rows");
    if (task_.sharded()) entities_ = reshape(shards_, {task_.rows(), shards_.dim(-1)});
    for (const Tensor& each : indices) flat.push_back(reshape(each, {each.shape().elements()}));
    const Tensor rows = gather(entities_, concat(flat, 0));
    int64_t first = 0;
    std::vector<Tensor> found;
    for (const Tensor& each : indices) {
      const int64_t last = first + each.shape().elements();
      found.push_back(reshape(slice_axis(rows, 0, first, last), {each.dim(0), each.dim(1), rows.dim(-1)}));
      first = last;
    }
    head_raw_ = found[0], tail_raw_ = found[1];
    head_row_ = normalised(head_raw_), tail_row_ = normalised(tail_raw_);
    for (size_t i = 2; i < found.size(); ++i) negative_rows_.push_back(normalised(found[i]));
    relation_row_ = gather(relations_, relation_);
  }

  /// The same with shards, each of which reads its rows with one gather. Heads stay; tails and negatives go to the
  /// shards of the triples' heads.
  void exchange_rows() {
    const int64_t n = task_.shards, room = task_.group / n, each = task_.negatives / n;
    const auto shard_input = [&](const std::string& name, DType dtype, std::vector<int64_t> dims) {
      return input(name, dtype, std::move(dims), "clusters");
    };
    std::vector<Tensor> indices{shard_input("head", DType::kI32, {n, room}),
                                shard_input("tail", DType::kI32, {n, room})};
    relation_ = shard_input("relation", DType::kI32, {task_.group});
    real_ = reshape(cast(shard_input("real", DType::kU8, {task_.group}), DType::kF32), {n, task_.group, 1});
    weigh_triples(real_);
    for (const TripleEnd side : {TripleEnd::kTail, TripleEnd::kHead})
      if (asks_for(side)) indices.push_back(shard_input(name_of(side) + "_negatives", DType::kI32, {n, each}));
    Scope scope(build_, "rows");
    const Tensor index = concat(indices, 2);
    const int64_t all = index.dim(2), width = shards_.dim(-1);
    const Tensor rows = gather_rows(shards_, reshape(index, {n, n * all}));
    // Row w of shard k for shard j goes to place w of shard j's rows from k, and its gradient the same way back.
    const int64_t sent = all - room;
    HostTensor table(TensorType{DType::kI32, {n, n * sent}});
    for (int64_t j = 0; j < n; ++j)
      for (int64_t k = 0; k < n; ++k)
        for (int64_t w = 0; w < sent; ++w)
          table.set((j * n + k) * sent + w, static_cast<double>((k * n + j) * sent + w));
    const Tensor by_shard = reshape(rows, {n, n, all, width});
    const TensorData exchange(std::move(table));
    const Tensor came = build_.op("halo_rows", {reshape(slice_axis(by_shard, 2, room, all), {n, n * sent, width})},
                                  {{"rows", exchange}, {"back", exchange}});
    const Tensor from_shards = reshape(came, {n, n, sent, width});
    const auto part_of = [&](Tensor from, int64_t first, int64_t size) {
      return reshape(slice_axis(from, 2, first, first + size), {n, n * size, width});
    };
    head_raw_ = part_of(by_shard, 0, room), tail_raw_ = part_of(from_shards, 0, room);
    head_row_ = normalised(head_raw_), tail_row_ = normalised(tail_raw_);
    for (int64_t first = room; first < sent; first += each)
      negative_rows_.push_back(normalised(part_of(from_shards, first, each)));
    // A copy of the relations for each shard, whose gradients a tree over the shards adds up.
    const Tensor copies = broadcast_to(reshape(relations_, {1, relations_.dim(0), relations_.dim(1)}),
                                       {n, relations_.dim(0), relations_.dim(1)});
    relation_row_ = gather_rows(copies, relation_);
  }

  /// What triples weigh in the loss: with subsampling what their source says, else what is given (invalid: 1).
  void weigh_triples(Tensor otherwise) {
    weight_ = otherwise;
    if (task_.subsampling)
      weight_ = reshape(input("weight", DType::kF32, {task_.group}, task_.sharded() ? "clusters" : "batch"),
                        {task_.micro_batch, task_.group, 1});
    if (weight_.valid()) weight_sum_ = at_least(reduce_sum(weight_));
  }
  Tensor at_least(Tensor sum) { return maximum(sum, full(build_, DType::kF32, {}, kLeast)); }

  /// The sum of a value of each triple, [B, M, 1], or of parts of such values, as a mean over the triples.
  Tensor sum_to_mean(Tensor sum) {
    return weight_.valid() ? divide(sum, weight_sum_) : scale(sum, 1 / static_cast<double>(triples()));
  }
  Tensor mean_of_triples(Tensor values) {
    return weight_.valid() ? sum_to_mean(reduce_sum(multiply(values, weight_))) : reduce_mean(values);
  }

  /// The relation's row for a side; of reciprocal relations that of the way back.
  Tensor relation_of(TripleEnd side) {
    if (!task_.reciprocal || side == TripleEnd::kTail) return relation_row_;
    const Tensor back = full(build_, DType::kI32, {}, static_cast<double>(task_.relations));
    return gather(relations_, add(relation_, back));
  }
  /// Scores of the columns as the missing entity of the rows.
  Tensor scores(TripleEnd missing, Tensor known, Tensor relation, Tensor columns) {
    return function_.scores(task_.reciprocal ? TripleEnd::kTail : missing, known, relation, columns, config_.norm);
  }
  Tensor known_row(TripleEnd missing) { return missing == TripleEnd::kTail ? head_row_ : tail_row_; }
  Tensor missing_row(TripleEnd missing) { return missing == TripleEnd::kTail ? tail_row_ : head_row_; }

  /// Scores of entities [K, e] for each triple of the batch: [B M, K].
  Tensor scores_of_columns(TripleEnd side, Tensor columns) {
    const auto as_group = [&](Tensor rows) { return reshape(rows, {1, triples(), rows.dim(-1)}); };
    const Tensor found = scores(side, as_group(known_row(side)), as_group(relation_of(side)), columns);
    return reshape(found, {triples(), columns.dim(0)});
  }

  /// Scores of all entities for each triple of the batch: [B M, rows of the table].
  Tensor scores_of_all(TripleEnd side) {
    const Tensor rows = scores_of_columns(side, normalised(entities_));
    if (task_.rows() == task_.entities) return rows;
    Tensor number = iota(build_, DType::kI32, {1, task_.rows()}, 1);
    if (task_.sharded()) {
      const Shape by_shard{task_.shards, task_.shard().room()};
      const Tensor shards = full(build_, DType::kI32, {}, static_cast<double>(task_.shards));
      number =
          reshape(add(multiply(iota(build_, DType::kI32, by_shard, 1), shards), iota(build_, DType::kI32, by_shard, 0)),
                  {1, task_.rows()});
    }
    return select(less(number, full(build_, DType::kI32, {}, static_cast<double>(task_.entities))), rows,
                  full(build_, DType::kF32, {}, kHidden));
  }

  Tensor loss_of_all(TripleEnd side) {
    const Tensor answers = reshape(side == TripleEnd::kTail ? tail_ : head_, {triples()});
    if (!weight_.valid()) return cross_entropy(scores_of_all(side), answers).loss;
    const Tensor rows = cross_entropy_loss(scores_of_all(side), answers, {.reduction = LossReduction::kNone});
    return mean_of_triples(reshape(rows, {task_.micro_batch, task_.group, 1}));
  }

  /// Scores of the right answers [B, M, 1].
  Tensor right_scores(TripleEnd side) {
    const auto alone = [&](Tensor rows) { return reshape(rows, {triples(), 1, rows.dim(-1)}); };
    const Tensor found = scores(side, alone(known_row(side)), alone(relation_row_), alone(missing_row(side)));
    return reshape(found, {task_.micro_batch, task_.group, 1});
  }

  Tensor loss_of_negatives(TripleEnd side) {
    const Tensor columns = negative_rows_[side == TripleEnd::kTail || !task_.tails ? 0 : 1];
    const Tensor right = right_scores(side), wrong = scores(side, known_row(side), relation_row_, columns);
    Tensor counts;  // what a negative counts: where it is wrong indeed as much as its triple; invalid: 1 each
    if (task_.group > 1)
      counts = add_scalar(negate(cast(input(name_of(side) + "_true", DType::kU8, {task_.group, task_.negatives},
                                            task_.sharded() ? "clusters" : "batch"),
                                      DType::kF32)),
                          1);
    if (task_.subsampling) counts = counts.valid() ? multiply(counts, weight_) : broadcast_to(weight_, wrong.shape());
    if (config_.loss == "softmax") return softmax_loss(right, wrong, counts);
    if (config_.loss == "margin") {
      const Tensor over = relu(add_scalar(subtract(wrong, right), config_.margin));
      return mean_of(counts.valid() ? multiply(over, counts) : over, counts);
    }
    return log_sigmoid_loss(right, wrong, counts);
  }

  Tensor hidden(Tensor wrong, Tensor counts) {
    if (!counts.valid()) return wrong;
    const Tensor zero = full(build_, DType::kF32, {}, 0);
    return select(less(zero, counts), wrong, full(build_, DType::kF32, {}, kHidden));
  }

  Tensor softmax_loss(Tensor right, Tensor wrong, Tensor counts) {
    const Tensor all = concat({right, hidden(wrong, counts)}, 2);
    if (weight_.valid()) {
      // Ops that sum within each triple alone: with shards scores stay where they are.
      const Tensor most = map_unary("stop_gradient", reduce_max(all, {2}, true));
      const Tensor sum = log(reduce_sum(exp(subtract(all, most)), {2}, true));
      return mean_of_triples(add(sum, subtract(most, right)));
    }
    const Tensor first = full(build_, DType::kI32, {triples()}, 0);
    return cross_entropy(reshape(all, {triples(), task_.negatives + 1}), first).loss;
  }

  /// Sun et al., equation 5; each negative has the softmax of the scores as weight, which gets no gradient.
  Tensor log_sigmoid_loss(Tensor right, Tensor wrong, Tensor counts) {
    const Tensor of_right = softplus(negate(add_scalar(right, config_.margin)));
    Tensor of_wrong = softplus(add_scalar(wrong, config_.margin));
    if (config_.temperature > 0) {
      Tensor weights = softmax(scale(map_unary("stop_gradient", hidden(wrong, counts)), config_.temperature), 2);
      if (counts.valid()) weights = multiply(weights, counts);
      of_wrong = sum_to_mean(reduce_sum(multiply(of_wrong, weights)));
    } else {
      of_wrong = mean_of(counts.valid() ? multiply(of_wrong, counts) : of_wrong, counts);
    }
    return scale(add(mean_of_triples(of_right), of_wrong), 0.5);
  }

  /// Mean over the negatives; `values` are multiplied by what they count.
  Tensor mean_of(Tensor values, Tensor counts) {
    if (!counts.valid()) return reduce_mean(values);
    return divide(reduce_sum(values), at_least(reduce_sum(counts)));
  }

  /// Mean over the triples of the sum of cubes of the moduli of their rows.
  Tensor penalty() {
    Scope scope(build_, "penalty");
    Tensor sum;
    for (const Tensor rows : {head_raw_, relation_row_, tail_raw_}) {
      Tensor squares = multiply(rows, rows);
      if (function_.complex_entities && rows.dim(-1) == function_.entity_parts * config_.width) {
        const int64_t half = rows.dim(-1) / 2;
        squares = add(slice_axis(squares, -1, 0, half), slice_axis(squares, -1, half, 2 * half));
      }
      const Tensor modulus = sqrt(maximum(squares, full(build_, DType::kF32, {}, 1e-24)));
      const Tensor cubed = multiply(squares, modulus);
      const Tensor cubes = reduce_sum(weight_.valid() ? multiply(cubed, weight_) : cubed);
      sum = sum.valid() ? add(sum, cubes) : cubes;
    }
    if (weight_.valid()) return scale(sum_to_mean(sum), config_.penalty);
    return scale(sum, config_.penalty / static_cast<double>(triples()));
  }

  const KnowledgeConfig& config_;
  const KnowledgeTask& task_;
  const ScoreFunction& function_;
  ModelBuilder model_;
  GraphBuilder& build_;
  Tensor shards_;    // of entities
  Tensor entities_;  // as one table; the loss of shards does not read it
  Tensor relations_, head_, relation_, tail_;
  Tensor real_;                 // with shards: 1 for each place with a triple [B, M, 1]
  Tensor weight_, weight_sum_;  // of each triple [B, M, 1], where they differ, and their sum, above 0
  Tensor head_raw_, tail_raw_, head_row_, tail_row_, relation_row_;
  std::vector<Tensor> negative_rows_;  ///< of the ends that the loss asks for
};

void check(const KnowledgeConfig& config, const KnowledgeTask& task) {
  const auto fail = [](const std::string& what, const std::string& found = "", const std::string& expected = "",
                       const std::string& remedy = "") {
    throw Error({.what = what, .where = "model (knowledge)", .found = found, .expected = expected, .remedy = remedy});
  };
  if (!find_score_function(config.function)) fail("unknown score function", "'" + config.function + "'");
  if (config.width < 1 || task.micro_batch < 1 || task.group < 1 || task.entities < 2 || task.relations < 1 ||
      task.pad < 1)
    fail("sizes of the model must be positive, and there must be two entities");
  if (config.norm != 1 && config.norm != 2) fail("unknown norm", std::to_string(config.norm), "1 or 2");
  if (config.loss != "log-sigmoid" && config.loss != "margin" && config.loss != "softmax" && config.loss != "all")
    fail("unknown loss", "'" + config.loss + "'", "log-sigmoid, margin, softmax or all");
  if (config.loss != "all" && task.negatives < 1)
    fail("the loss compares with wrong answers, and there are none", config.loss, "negatives of 1 or more",
         "Set the number of negatives, or take the loss \"all\"");
  if (config.loss == "margin" && !(config.margin > 0))
    fail("the margin loss needs a margin", std::to_string(config.margin), "above 0");
  if (task.sharded() && config.loss == "all")
    fail("a loss that compares with all entities reads every shard's rows in every step", "loss \"all\"", "",
         "Take another loss, or leave the shards out");
  if (task.shards < 1 || (task.shards & (task.shards - 1)) != 0)
    fail("the shards of entities must be a power of two", std::to_string(task.shards));
  if (task.sharded() && task.pad > 1)
    fail("shards have equally many rows, so there is nothing to pad", std::to_string(task.pad), "a pad of 1");
  if (!task.tails && !task.heads) fail("neither tails nor heads are asked for");
  if (task.top < 1 || task.top > task.entities)
    fail("more answers than entities are wanted", std::to_string(task.top), "1 to " + std::to_string(task.entities));
}

}  // namespace

NamedGraph ranks_by_rows(const KnowledgeConfig& config, const KnowledgeTask& task, int64_t block) {
  NamedGraph program{.name = "rank_rows", .graph = Graph("rank_rows")};
  Knowledge(config, task, program.graph, nullptr, Entities::kInputs).write_ranks_by_rows(block);
  return program;
}

Model build_knowledge(const KnowledgeConfig& config, const KnowledgeTask& task) {
  check(config, task);
  Model model;
  model.name = config.function;
  model.axes["entities"] = model.axes["clusters"] = 1;
  Knowledge(config, task, model.forward, &model.weights).write_loss();
  Knowledge(config, task, model.evaluate, nullptr).write_loss();
  model.programs.push_back({.name = "rank", .graph = Graph("rank")});
  Knowledge(config, task, model.programs.back().graph, nullptr).write_ranks();
  model.programs.push_back({.name = "predict", .graph = Graph("predict")});
  Knowledge(config, task, model.programs.back().graph, nullptr).write_prediction();
  for (const GraphInput& input : model.forward.inputs()) {
    if (input.role != InputRole::kData) continue;
    const Value& value = model.forward.value(input.value);
    model.inputs.push_back({.name = value.name, .type = value.type, .axes = input.axes});
  }
  const double relations = static_cast<double>(task.relations * (task.reciprocal ? 2 : 1));
  limit_input(model, "relation", 0, relations - 1);
  for (const char* const name : kEntityInputs)
    limit_input(model, name, 0, static_cast<double>(task.sharded() ? task.shard().room() - 1 : task.entities - 1));
  model.metrics = {mean_metric("loss", "count")};
  model.limit_items("loss", task.micro_batch * task.group);
  model.guards = {"loss"};
  return model;
}

}  // namespace ramet::model
