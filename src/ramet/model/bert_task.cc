#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/model/bert_encoder.h"

namespace ramet::model {
namespace {

int64_t rows_of(const BatchShape& batch, const HeadShape& head) {
  return batch.micro_batch * (head.kind == TaskHead::kChoice ? head.choices : 1);
}

/// One encoder with the head of a task. Names, order of ops and places of dropout are those of Hugging Face's classes
/// (BertForSequenceClassification and so on).
class TaskModel {
 public:
  TaskModel(const BertConfig& config, const BatchShape& batch, const HeadShape& head, Graph& graph,
            std::vector<StateTensor>* weights, bool training)
      : config_(config),
        batch_(batch),
        head_(head),
        taught_(training && head.teacher_weight > 0),
        encoder_(config, batch, rows_of(batch, head), graph, weights, training),
        model_(encoder_.model()),
        build_(encoder_.build()),
        names_(encoder_.names()) {}

  /// kTokens [B,S,labels]; kSpan [B,S,2]; kChoice [B,choices]; else [sequences,labels].
  Tensor logits() {
    const Tensor encoded = encoder_.encode();
    Scope scope(build_, "head");
    switch (head_.kind) {
      case TaskHead::kTokens:
        return last(model_.drop(encoded, head_.dropout, "head.dropout"), names_.token_classifier, head_.labels);
      case TaskHead::kSpan: {
        const bool drops = config_.family == BertFamily::kDistilBert;
        return last(drops ? model_.drop(encoded, head_.dropout, "head.dropout") : encoded, names_.span, 2);
      }
      case TaskHead::kClassification: return of_row(encoded, head_.labels);
      case TaskHead::kRegression: return of_row(encoded, 1);
      case TaskHead::kChoice: return reshape(of_row(encoded, 1), {batch_.micro_batch, head_.choices});
    }
    internal_error("TaskModel", "unknown head");
  }

  void add_loss() {
    const Tensor answer = logits();
    const int64_t samples = batch_.micro_batch, length = batch_.sequence;
    const Shape one_each = encoder_.packed() ? Shape{samples, batch_.depth} : Shape{samples};
    switch (head_.kind) {
      case TaskHead::kRegression: return regression_loss(answer, one_each);
      case TaskHead::kSpan: return span_loss(answer, one_each);
      case TaskHead::kTokens:
        return class_loss(
            reshape(answer, {samples * length, head_.labels}),
            reshape(build_.input("labels", DType::kI32, {samples, length}, kTokenAxes), {samples * length}));
      case TaskHead::kClassification:
        return taught_ ? taught_loss(answer, numbers("labels", one_each), one_each)
                       : class_loss(answer, numbers("labels", one_each));
      case TaskHead::kChoice: return class_loss(answer, numbers("labels", one_each));
    }
  }

  /// The answer as TaskOutputs has it: [B, width].
  Tensor flat_logits() {
    const Tensor answer = logits();
    const int64_t samples = batch_.micro_batch, length = batch_.sequence;
    if (head_.kind == TaskHead::kTokens) return reshape(answer, {samples, length * head_.labels});
    if (head_.kind == TaskHead::kSpan) return concat({end_of(answer, 0), end_of(answer, 1)}, 1);
    if (encoder_.packed()) return reshape(answer, {samples, batch_.depth * answer.dim(1)});
    return answer;
  }

 private:
  Tensor last(Tensor x, const std::string& name, int64_t width) {
    return model_.dense(x, name, width, kNoAxis, kEmbed);
  }

  /// Of inputs with a number for each sample, or for each sequence of packed rows.
  static std::vector<std::string> axes_of(const Shape& one_each) {
    return one_each.rank() == 2 ? kSequenceAxes : kSampleAxes;
  }

  /// A number of each sample, in a list.
  Tensor numbers(const std::string& name, const Shape& shape) {
    return reshape(build_.input(name, DType::kI32, shape, axes_of(shape)), {shape.elements()});
  }

  /// From the first token of each sequence.
  Tensor of_row(Tensor encoded, int64_t width) {
    Tensor x = encoder_.first_tokens(encoded);
    const bool choice = head_.kind == TaskHead::kChoice;
    if (names_.classifier_dense.empty() || (choice && !names_.pooler.empty())) {
      x = tanh(model_.dense(x, names_.pooler, config_.hidden, kNoAxis, kEmbed));
    } else if (config_.family == BertFamily::kDistilBert) {
      x = relu(model_.dense(x, names_.classifier_dense, config_.hidden, kNoAxis, kEmbed));
    } else {
      x = model_.drop(x, head_.dropout, "head.dropout_before");
      x = tanh(model_.dense(x, names_.classifier_dense, config_.hidden, kNoAxis, kEmbed));
    }
    return last(model_.drop(x, head_.dropout, "head.dropout"), choice ? names_.token_classifier : names_.classifier,
                width);
  }

  /// Logits of the first (0) or last (1) token of spans, [B,S].
  Tensor end_of(Tensor logits, int64_t which) {
    const int64_t samples = batch_.micro_batch, length = batch_.sequence;
    return reshape(slice(logits, {0, 0, which}, {samples, length, which + 1}), {samples, length});
  }

  void class_loss(Tensor logits, Tensor labels) {
    Scope scope(build_, "loss");
    const CrossEntropy loss = cross_entropy(logits, labels);
    put_out(loss.loss, loss);
  }

  void put_out(Tensor loss, const CrossEntropy& counts) {
    build_.output("loss", loss);
    build_.output("correct", counts.correct);
    build_.output("count", counts.count);
  }

  /// That of the labels and that of the teacher's answers, both means over the sequences that have a label.
  void taught_loss(Tensor logits, Tensor labels, const Shape& one_each) {
    const double weight = head_.teacher_weight, temperature = head_.teacher_temperature;
    std::vector<int64_t> dims = one_each.dims();
    dims.push_back(head_.labels);
    std::vector<std::string> axes = axes_of(one_each);
    axes.push_back("");
    const Tensor given = reshape(build_.input("teacher_logits", DType::kF32, Shape(dims), axes), logits.shape());
    Scope scope(build_, "loss");
    const CrossEntropy plain = cross_entropy(logits, labels);
    const Tensor own = log_softmax(scale(cast(logits, DType::kF32), 1 / temperature)),
                 teacher = log_softmax(scale(given, 1 / temperature));
    const Tensor counts = cast(less(full(build_, DType::kI32, {}, -1), labels), DType::kF32);
    const Tensor apart = multiply(multiply(exp(teacher), subtract(teacher, own)), reshape(counts, {counts.dim(0), 1}));
    const Tensor mean = divide(reduce_sum(apart), maximum(plain.count, full(build_, DType::kF32, {}, 1)));
    put_out(add(scale(plain.loss, 1 - weight), scale(mean, weight * temperature * temperature)), plain);
  }

  /// Of the tokens of a packed row each sequence sees its own alone: [B,S] -> [sequences,S].
  Tensor of_each_sequence(Tensor logits) {
    constexpr double kNever = -30000;  // no logit comes near it, and any floating type has it
    if (!encoder_.packed()) return logits;
    const int64_t rows = batch_.micro_batch, length = batch_.sequence, depth = batch_.depth;
    const Tensor numbers = add(iota(build_, DType::kI32, {1, depth, 1}, 1), full(build_, DType::kI32, {}, 1));
    const Tensor own = equal(reshape(encoder_.segments(), {rows, 1, length}), numbers);
    const Tensor never = full(build_, logits.type().dtype, {}, kNever);
    return reshape(select(own, reshape(logits, {rows, 1, length}), never), {rows * depth, length});
  }

  /// Half of each end's loss, as Devlin et al.'s run_squad has it.
  void span_loss(Tensor logits, const Shape& one_each) {
    const Tensor starts = numbers("start_positions", one_each), ends = numbers("end_positions", one_each);
    Scope scope(build_, "loss");
    const CrossEntropy start = cross_entropy(of_each_sequence(end_of(logits, 0)), starts),
                       end = cross_entropy(of_each_sequence(end_of(logits, 1)), ends);
    build_.output("loss", scale(add(start.loss, end.loss), 0.5));
    build_.output("correct", add(start.correct, end.correct));
    build_.output("count", add(start.count, end.count));
  }

  /// The mean square.
  void regression_loss(Tensor answer, const Shape& one_each) {
    const Shape list{encoder_.sequences()};
    const Tensor values = reshape(build_.input("labels", DType::kF32, one_each, axes_of(one_each)), list);
    Tensor weights;  // 1 for each sequence that there is
    if (encoder_.packed())
      weights = reshape(build_.input("label_weights", DType::kF32, one_each, axes_of(one_each)), list);
    Scope scope(build_, "loss");
    // The sum over the one column takes it away and is in f32 in any precision: the labels are not rounded.
    const Tensor off = subtract(reduce_sum(answer, {1}), values), square = multiply(off, off);
    build_.output("loss", encoder_.packed() ? divide(reduce_sum(multiply(square, weights)), reduce_sum(weights))
                                            : reduce_mean(square));
  }

  const BertConfig& config_;
  const BatchShape& batch_;
  const HeadShape& head_;
  const bool taught_;
  BertEncoder encoder_;
  ModelBuilder& model_;
  GraphBuilder& build_;
  const BertNames& names_;
};

/// The most that the output "count" is; 0 for a head that has none.
int64_t most_items(const BatchShape& batch, const HeadShape& head) {
  const int64_t samples = batch.micro_batch * std::max<int64_t>(1, batch.depth);
  switch (head.kind) {
    case TaskHead::kTokens: return batch.micro_batch * batch.sequence;
    case TaskHead::kSpan: return 2 * samples;
    case TaskHead::kClassification:
    case TaskHead::kChoice: return samples;
    case TaskHead::kRegression: return 0;
  }
  internal_error("most_items", "unknown head");
}

void check(const BertConfig& config, const BatchShape& batch, const HeadShape& head) {
  check_encoder(config, batch);
  const bool labelled = head.kind == TaskHead::kClassification || head.kind == TaskHead::kTokens;
  if (labelled && head.labels < 2)
    throw Error({.what = "a task with too few labels",
                 .where = "task.labels",
                 .found = std::to_string(head.labels),
                 .expected = "2 or more"});
  if (head.teacher_weight > 0 && head.kind != TaskHead::kClassification)
    throw Error({.what = "only a task of one label a text has a teacher",
                 .where = "task.teacher",
                 .found = "a head for " + std::string(name_of(head.kind)),
                 .expected = "classification"});
  if (head.kind == TaskHead::kChoice && batch.depth > 0)
    throw Error({.what = "the rows of a choice are not packed",
                 .where = "data.packing",
                 .found = "a depth of " + std::to_string(batch.depth),
                 .remedy = "Leave data.packing out for this task"});
  if (head.kind == TaskHead::kChoice && head.choices < 2)
    throw Error({.what = "a task with too few choices",
                 .where = "task",
                 .found = std::to_string(head.choices),
                 .expected = "2 or more"});
}

}  // namespace

Model build_bert_task(const BertConfig& config, const BatchShape& batch, const HeadShape& head) {
  check(config, batch, head);
  Model model;
  model.name = "bert task";
  TaskModel(config, batch, head, model.forward, &model.weights, true).add_loss();
  TaskModel(config, batch, head, model.evaluate, nullptr, false).add_loss();
  describe_encoder(model, config, batch);
  for (InputSpec& input : model.inputs)  // no dimension of it is one of tokens, however long it is
    if (input.name == "teacher_logits") std::fill(input.axes.begin() + 1, input.axes.end(), "");
  if (head.kind == TaskHead::kRegression) {
    model.metrics = {{.name = "loss", .numerator = "loss", .how = Metric::How::kMean}};
  } else {
    model.metrics = {mean_metric("loss", "count"), share_metric("accuracy", "correct", "count")};
  }
  model.guards = {"loss"};
  model.packed_rows = batch.depth > 0;
  model.limit_items("loss", most_items(batch, head));
  model.flops_per_token = encoder_flops_per_token(config, batch);
  model.tokens_per_micro_batch = rows_of(batch, head) * batch.sequence;
  return model;
}

Graph build_bert_task_predict(const BertConfig& config, const BatchShape& batch, const HeadShape& head) {
  check(config, batch, head);
  Graph graph("predict");
  TaskModel task(config, batch, head, graph, nullptr, false);
  graph.add_output("logits", task.flat_logits().id);
  return graph;
}

}  // namespace ramet::model
