#include "ramet/base/error.h"
#include "ramet/model/blocks.h"
#include "ramet/model/presets.h"

namespace ramet {
namespace {

/// One BERT, in training or not; `weights` as ModelBuilder takes it.
class Bert {
 public:
  Bert(const BertConfig& config, const BatchShape& batch, Graph& graph, std::vector<StateTensor>* weights,
       bool training)
      : config_(config),
        batch_(batch),
        model_(graph, weights, config.init_range, training, batch.seed),
        build_(model_.build()),
        vocabulary_(config.vocabulary, config.pad_vocabulary) {
    const Shape tokens{batch.micro_batch, batch.sequence};
    input_ids_ = build_.input("input_ids", DType::kI32, tokens);
    token_types_ = build_.input("token_type_ids", DType::kI32, tokens);
    attention_mask_ = build_.input(packed() ? "segment_ids" : "attention_mask", DType::kI32, tokens);
    if (packed()) position_ids_ = build_.input("position_ids", DType::kI32, tokens);
    masked_positions_ = build_.input("masked_positions", DType::kI32, {batch.micro_batch, batch.predictions});
  }

  /// [B,S,H], after all layers.
  Tensor encode() {
    Tensor x = embed();
    for (int64_t i = 0; i < config_.layers; ++i) {
      Scope scope(build_, "layer" + std::to_string(i));
      x = layer(x, "bert.encoder.layer." + std::to_string(i));
    }
    return x;
  }

  /// Logits [B*P, V + padding] of the masked positions.
  Tensor masked_logits(Tensor encoded) {
    Scope scope(build_, "masked_words");
    const Tensor masked = tokens_at(encoded, masked_positions_);
    const Tensor activated =
        gelu(model_.dense(masked, "cls.predictions.transform.dense", config_.hidden, kNoAxis, kEmbed));
    const Tensor h = model_.norm(activated, "cls.predictions.transform.LayerNorm", config_.epsilon);
    return linear(h, words_, model_.vector("cls.predictions.bias", vocabulary_.rows, vocabulary_.axis, 0));
  }

  void add_losses(Tensor encoded) {
    const Tensor logits = masked_logits(encoded);
    const Tensor labels = build_.input("masked_labels", DType::kI32, {batch_.micro_batch, batch_.predictions});
    Scope scope(build_, "loss");
    const CrossEntropy words =
        cross_entropy(logits, reshape(labels, {batch_.micro_batch * batch_.predictions}), vocabulary_.classes);
    build_.output("mlm_loss", words.loss);
    build_.output("mlm_correct", words.correct);
    build_.output("mlm_count", words.count);
    build_.output("loss", batch_.next_sentence ? add(words.loss, next_sentence_loss(encoded)) : words.loss);
  }

 private:
  bool packed() const { return batch_.depth > 0; }

  /// What is at `positions` i32[B,n] of the rows of [B,S,H]: [B n, H].
  Tensor tokens_at(Tensor encoded, Tensor positions) {
    const int64_t batch = batch_.micro_batch, length = batch_.sequence;
    const Tensor row =
        multiply(iota(build_, DType::kI32, {batch, 1}, 0), full(build_, DType::kI32, {}, static_cast<double>(length)));
    const Tensor rows = reshape(add(positions, row), {batch * positions.dim(1)});
    return gather(reshape(encoded, {batch * length, config_.hidden}), rows);
  }

  Tensor embed() {
    Scope scope(build_, "embeddings");
    const std::string path = "bert.embeddings.";
    words_ =
        model_.matrix(path + "word_embeddings.weight", {vocabulary_.rows, config_.hidden}, {vocabulary_.axis, kEmbed});
    const Tensor positions =
        model_.matrix(path + "position_embeddings.weight", {config_.positions, config_.hidden}, {kNoAxis, kEmbed});
    const Tensor types =
        model_.matrix(path + "token_type_embeddings.weight", {config_.types, config_.hidden}, {kNoAxis, kEmbed});
    Tensor x = add(gather(words_, input_ids_), gather(types, token_types_));
    x = add(x, packed() ? gather(positions, position_ids_)
                        : slice(positions, {0, 0}, {batch_.sequence, config_.hidden}));
    return model_.drop(model_.norm(x, path + "LayerNorm", config_.epsilon), config_.dropout, path + "dropout");
  }

  Tensor layer(Tensor x, const std::string& path) {
    {
      Scope scope(build_, "attention");
      const Tensor qkv = model_.dense(x, path + ".attention.self.qkv", 3 * config_.hidden, kJointHeads, kEmbed);
      const Tensor mixed = model_.self_attention(qkv, attention_mask_, config_.heads, config_.attention_dropout, false,
                                                 path + ".attention.self.dropout", packed());
      const Tensor dense = model_.dense(mixed, path + ".attention.output.dense", config_.hidden, kEmbed, kHeads);
      const Tensor out = model_.drop(dense, config_.dropout, path + ".attention.output.dropout");
      x = model_.norm(add(x, out), path + ".attention.output.LayerNorm", config_.epsilon);
    }
    Scope scope(build_, "feed_forward");
    const Tensor wide = gelu(model_.dense(x, path + ".intermediate.dense", config_.intermediate, kMlp, kEmbed));
    const Tensor dense = model_.dense(wide, path + ".output.dense", config_.hidden, kEmbed, kMlp);
    const Tensor out = model_.drop(dense, config_.dropout, path + ".output.dropout");
    return model_.norm(add(x, out), path + ".output.LayerNorm", config_.epsilon);
  }

  /// The first token of each sequence [sequences,H], and its next-sentence label.
  std::pair<Tensor, Tensor> firsts(Tensor encoded) {
    const int64_t batch = batch_.micro_batch;
    if (!packed()) {
      const Tensor label = build_.input("next_sentence_label", DType::kI32, {batch});
      return {reshape(slice(encoded, {0, 0, 0}, {batch, 1, config_.hidden}), {batch, config_.hidden}), label};
    }
    const Tensor positions = build_.input("first_positions", DType::kI32, {batch, batch_.depth});
    const Tensor label = build_.input("next_sentence_label", DType::kI32, {batch, batch_.depth});
    return {tokens_at(encoded, positions), reshape(label, {batch * batch_.depth})};
  }

  Tensor next_sentence_loss(Tensor encoded) {
    Scope scope(build_, "next_sentence");
    const auto [first, label] = firsts(encoded);
    const Tensor pooled = tanh(model_.dense(first, "bert.pooler.dense", config_.hidden, kNoAxis, kEmbed));
    const CrossEntropy next = cross_entropy(model_.dense(pooled, "cls.seq_relationship", 2, kNoAxis, kNoAxis), label);
    build_.output("nsp_loss", next.loss);
    build_.output("nsp_correct", next.correct);
    build_.output("nsp_count", next.count);
    return next.loss;
  }

  const BertConfig& config_;
  const BatchShape& batch_;
  ModelBuilder model_;
  GraphBuilder& build_;
  const VocabularyRows vocabulary_;
  Tensor input_ids_, token_types_, attention_mask_, position_ids_, masked_positions_, words_;
};

void check(const BertConfig& config, const BatchShape& batch) {
  check_sizes("model (BERT)", config.layers, config.hidden, config.heads, config.vocabulary);
  check_sequence("model (BERT)", batch.sequence, config.positions);
  if (batch.predictions < 1 || batch.predictions > batch.sequence)
    throw Error({.what = "the number of masked positions does not fit the sequence",
                 .where = "data.masking.max_predictions",
                 .found = std::to_string(batch.predictions),
                 .expected = "1 to " + std::to_string(batch.sequence)});
}

/// Matrix products of forward and backward a token: 6 a weight, the masked head on its share of positions, and
/// attention.
double flops_per_token(const BertConfig& c, const BatchShape& b) {
  const double h = static_cast<double>(c.hidden), per_layer = 4 * h * h + 2 * h * static_cast<double>(c.intermediate);
  const double head = (h * h + h * static_cast<double>(c.vocabulary)) * static_cast<double>(b.predictions) /
                      static_cast<double>(b.sequence);
  return 6 * (static_cast<double>(c.layers) * (per_layer + 2 * h * static_cast<double>(b.sequence)) + head);
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
  graph.add_output("top_values", values.id);
  graph.add_output("top_indices", indices.id);
  return graph;
}

}  // namespace ramet
