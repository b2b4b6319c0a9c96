#include "ramet/model/bert_encoder.h"

#include "ramet/base/error.h"

namespace ramet::model {

BertEncoder::BertEncoder(const BertConfig& config, const BatchShape& batch, int64_t rows, Graph& graph,
                         std::vector<StateTensor>* weights, bool training)
    : config_(config),
      batch_(batch),
      names_(bert_names(config.family)),
      rows_(rows),
      model_(graph, weights, config.init_range, training, batch.seed),
      build_(model_.build()),
      vocabulary_(config.vocabulary, config.pad_vocabulary) {
  const Shape tokens{rows, batch.sequence};
  input_ids_ = build_.input("input_ids", DType::kI32, tokens, kTokenAxes);
  if (config.types > 0) token_types_ = build_.input("token_type_ids", DType::kI32, tokens, kTokenAxes);
  attention_mask_ = build_.input(packed() ? "segment_ids" : "attention_mask", DType::kI32, tokens, kTokenAxes);
  if (packed()) position_ids_ = build_.input("position_ids", DType::kI32, tokens, kTokenAxes);
}

Tensor BertEncoder::encode() {
  Tensor x = embed();
  for (int64_t i = 0; i < config_.layers; ++i) {
    PartScope part(build_, "layer", i);
    x = layer(x, names_.layer + std::to_string(i));
  }
  return x;
}

Tensor BertEncoder::tokens_at(Tensor encoded, Tensor positions) {
  const int64_t length = batch_.sequence;
  const Tensor row =
      multiply(iota(build_, DType::kI32, {rows_, 1}, 0), full(build_, DType::kI32, {}, static_cast<double>(length)));
  const Tensor rows = reshape(add(positions, row), {rows_ * positions.dim(1)});
  return gather(reshape(encoded, {rows_ * length, config_.hidden}), rows);
}

Tensor BertEncoder::first_tokens(Tensor encoded) {
  if (packed())
    return tokens_at(encoded, build_.input("first_positions", DType::kI32, {rows_, batch_.depth}, kSequenceAxes));
  return reshape(slice(encoded, {0, 0, 0}, {rows_, 1, config_.hidden}), {rows_, config_.hidden});
}

Tensor BertEncoder::embed() {
  Scope scope(build_, "embeddings");
  words_ = model_.matrix(names_.words + ".weight", {vocabulary_.rows, config_.hidden}, {vocabulary_.axis, kEmbed});
  const int64_t first = first_position(config_.family);
  const Tensor positions =
      model_.matrix(names_.positions + ".weight", {config_.positions + first, config_.hidden}, {kNoAxis, kEmbed});
  Tensor x = gather(words_, input_ids_);
  if (config_.types > 0) {
    const Tensor types = model_.matrix(names_.types + ".weight", {config_.types, config_.hidden}, {kNoAxis, kEmbed});
    x = add(x, gather(types, token_types_));
  }
  x = add(x, packed()
                 ? gather(first == 0 ? positions : slice(positions, {first, 0}, {positions.dim(0), config_.hidden}),
                          position_ids_)
                 : slice(positions, {first, 0}, {first + batch_.sequence, config_.hidden}));
  return model_.drop(model_.norm(x, names_.embedding_norm, config_.epsilon), config_.dropout,
                     names_.prefix + "embeddings.dropout");
}

Tensor BertEncoder::activate(Tensor x) const {
  return config_.activation == Activation::kGelu       ? gelu(x)
         : config_.activation == Activation::kGeluTanh ? gelu_tanh(x)
                                                       : relu(x);
}

Tensor BertEncoder::layer(Tensor x, const std::string& path) {
  {
    Scope scope(build_, "attention");
    const Tensor qkv = model_.dense(x, path + names_.qkv, 3 * config_.hidden, kJointHeads, kEmbed);
    const Tensor mixed = model_.self_attention(qkv, attention_mask_, config_.heads, config_.attention_dropout, false,
                                               path + ".attention.self.dropout", packed());
    const Tensor dense = model_.dense(mixed, path + names_.attention_out, config_.hidden, kEmbed, kHeads);
    const Tensor out = model_.drop(dense, config_.dropout, path + ".attention.output.dropout");
    x = model_.norm(add(x, out), path + names_.attention_norm, config_.epsilon);
  }
  Scope scope(build_, "feed_forward");
  const Tensor wide = activate(model_.dense(x, path + names_.wide, config_.intermediate, kMlp, kEmbed));
  const Tensor dense = model_.dense(wide, path + names_.narrow, config_.hidden, kEmbed, kMlp);
  const Tensor out = model_.drop(dense, config_.dropout, path + ".output.dropout");
  return model_.norm(add(x, out), path + names_.output_norm, config_.epsilon);
}

void check_encoder(const BertConfig& config, const BatchShape& batch) {
  check_sizes("model (BERT)", config.layers, config.hidden, config.heads, config.vocabulary);
  check_sequence("model (BERT)", batch.sequence, config.positions);
}

void describe_encoder(Model& model, const BertConfig& config, const BatchShape& batch) {
  declare_inputs(model, batch.sequence);
  limit_input(model, "input_ids", 0, static_cast<double>(config.vocabulary - 1));
  if (config.types > 0) limit_input(model, "token_type_ids", 0, static_cast<double>(config.types - 1));
  if (batch.depth > 0) {
    limit_input(model, "segment_ids", 0, static_cast<double>(batch.depth));
    limit_input(model, "position_ids", 0, static_cast<double>(batch.sequence - 1));
  } else {
    limit_input(model, "attention_mask", 0, 1);
  }
  model.units_of_axes = {{"heads", config.heads}};
}

double encoder_flops_per_token(const BertConfig& c, const BatchShape& b) {
  const double h = static_cast<double>(c.hidden), per_layer = 4 * h * h + 2 * h * static_cast<double>(c.intermediate);
  return 6 * static_cast<double>(c.layers) * (per_layer + 2 * h * static_cast<double>(b.sequence));
}

}  // namespace ramet::model
