#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/model/bert_encoder.h"

namespace ramet::model {
namespace {

/// One BERT with the heads of pre-training.
class Bert {
 public:
  Bert(const BertConfig& config, const BatchShape& batch, Graph& graph, std::vector<StateTensor>* weights,
       bool training)
      : config_(config),
        batch_(batch),
        encoder_(config, batch, batch.micro_batch, graph, weights, training),
        model_(encoder_.model()),
        build_(encoder_.build()),
        names_(encoder_.names()) {
    masked_positions_ =
        build_.input("masked_positions", DType::kI32, {batch.micro_batch, batch.predictions}, kPredictionAxes);
  }

  Tensor encode() { return encoder_.encode(); }

  /// Logits [B*P, V + padding] of the masked positions.
  Tensor masked_logits(Tensor encoded) {
    Scope scope(build_, "masked_words");
    const VocabularyRows& vocabulary = encoder_.vocabulary();
    const Tensor masked = encoder_.tokens_at(encoded, masked_positions_);
    const Tensor activated = gelu(model_.dense(masked, names_.masked_dense, config_.hidden, kNoAxis, kEmbed));
    const Tensor h = model_.norm(activated, names_.masked_norm, config_.epsilon);
    return linear(h, encoder_.words(), model_.vector(names_.masked_bias, vocabulary.rows, vocabulary.axis, 0));
  }

  void add_losses(Tensor encoded) {
    const Tensor logits = masked_logits(encoded);
    const Tensor labels =
        build_.input("masked_labels", DType::kI32, {batch_.micro_batch, batch_.predictions}, kPredictionAxes);
    Scope scope(build_, "loss");
    const CrossEntropy words = cross_entropy(logits, reshape(labels, {batch_.micro_batch * batch_.predictions}),
                                             encoder_.vocabulary().classes);
    build_.output("mlm_loss", words.loss);
    build_.output("mlm_correct", words.correct);
    build_.output("mlm_count", words.count);
    build_.output("loss", batch_.next_sentence ? add(words.loss, next_sentence_loss(encoded)) : words.loss);
  }

 private:
  Tensor next_sentence_loss(Tensor encoded) {
    Scope scope(build_, "next_sentence");
    const Tensor first = encoder_.first_tokens(encoded);
    const Shape one_each = encoder_.packed() ? Shape{batch_.micro_batch, batch_.depth} : Shape{batch_.micro_batch};
    const Tensor labels =
        build_.input("next_sentence_label", DType::kI32, one_each, encoder_.packed() ? kSequenceAxes : kSampleAxes);
    const Tensor label = reshape(labels, {encoder_.sequences()});
    const Tensor pooled = tanh(model_.dense(first, names_.pooler, config_.hidden, kNoAxis, kEmbed));
    const CrossEntropy next = cross_entropy(model_.dense(pooled, "cls.seq_relationship", 2, kNoAxis, kNoAxis), label);
    build_.output("nsp_loss", next.loss);
    build_.output("nsp_correct", next.correct);
    build_.output("nsp_count", next.count);
    return next.loss;
  }

  const BertConfig& config_;
  const BatchShape& batch_;
  BertEncoder encoder_;
  ModelBuilder& model_;
  GraphBuilder& build_;
  const BertNames& names_;
  Tensor masked_positions_;
};

void check(const BertConfig& config, const BatchShape& batch) {
  check_encoder(config, batch);
  if (batch.predictions < 1 || batch.predictions > batch.sequence)
    throw Error({.what = "the number of masked positions does not fit the sequence",
                 .where = "data.masking.max_predictions",
                 .found = std::to_string(batch.predictions),
                 .expected = "1 to " + std::to_string(batch.sequence)});
  if (batch.next_sentence && config.family != BertFamily::kBert)
    throw Error({.what = "only BERT itself has a next-sentence head",
                 .where = "data.next_sentence",
                 .found = "true",
                 .expected = "false"});
}

/// The layers, and the masked head on its share of positions.
double flops_per_token(const BertConfig& c, const BatchShape& b) {
  const double h = static_cast<double>(c.hidden);
  const double head = (h * h + h * static_cast<double>(c.vocabulary)) * static_cast<double>(b.predictions) /
                      static_cast<double>(b.sequence);
  return encoder_flops_per_token(c, b) + 6 * head;
}

}  // namespace

Model build_bert(const BertConfig& config, const BatchShape& batch) {
  check(config, batch);
  Model model;
  model.name = "bert";
  Bert training(config, batch, model.forward, &model.weights, true);
  training.add_losses(training.encode());
  Bert evaluating(config, batch, model.evaluate, nullptr, false);
  evaluating.add_losses(evaluating.encode());
  describe_encoder(model, config, batch);
  limit_input(model, "masked_positions", 0, static_cast<double>(batch.sequence - 1));
  limit_input(model, "masked_labels", -1, static_cast<double>(config.vocabulary - 1));
  model.metrics.push_back({.name = "loss", .numerator = "loss", .how = Metric::How::kMean, .parts = {"mlm_loss"}});
  model.metrics.push_back(mean_metric("mlm_loss", "mlm_count"));
  if (batch.next_sentence) {
    limit_input(model, "next_sentence_label", -1, 1);
    model.metrics[0].parts.push_back("nsp_loss");
    model.metrics.push_back(mean_metric("nsp_loss", "nsp_count"));
  }
  model.metrics.push_back(share_metric("mlm_accuracy", "mlm_correct", "mlm_count"));
  if (batch.next_sentence) model.metrics.push_back(share_metric("nsp_accuracy", "nsp_correct", "nsp_count"));
  model.metrics.push_back(
      {.name = "perplexity", .numerator = "mlm_loss", .how = Metric::How::kExp, .held_out_only = true});
  model.guards = {"loss"};
  model.packed_rows = batch.depth > 0;
  model.limit_items("mlm_loss", batch.micro_batch * batch.predictions);
  model.limit_items("nsp_loss", batch.micro_batch * std::max<int64_t>(1, batch.depth));
  model.flops_per_token = flops_per_token(config, batch);
  model.tokens_per_micro_batch = batch.micro_batch * batch.sequence;
  return model;
}

Graph build_bert_predict(const BertConfig& config, const BatchShape& batch, int64_t k) {
  check(config, batch);
  Graph graph("predict");
  Bert bert(config, batch, graph, nullptr, false);
  const auto [values, indices] = top_k(softmax(slice(bert.masked_logits(bert.encode()), {0, 0},
                                                     {batch.micro_batch * batch.predictions, config.vocabulary})),
                                       k);
  const Shape places{batch.micro_batch, batch.predictions, k};
  graph.add_output("top_values", reshape(values, places).id);
  graph.add_output("top_indices", reshape(indices, places).id);
  return graph;
}

}  // namespace ramet::model
