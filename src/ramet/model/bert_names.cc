#include "ramet/model/bert_names.h"

namespace ramet::model {
namespace {

/// BERT's layers; RoBERTa has the same under another prefix.
BertNames bert_like(const std::string& prefix) {
  BertNames names;
  names.prefix = prefix;
  names.words = prefix + "embeddings.word_embeddings";
  names.positions = prefix + "embeddings.position_embeddings";
  names.types = prefix + "embeddings.token_type_embeddings";
  names.embedding_norm = prefix + "embeddings.LayerNorm";
  names.layer = prefix + "encoder.layer.";
  names.qkv = ".attention.self.qkv";
  names.attention_out = ".attention.output.dense";
  names.attention_norm = ".attention.output.LayerNorm";
  names.wide = ".intermediate.dense";
  names.narrow = ".output.dense";
  names.output_norm = ".output.LayerNorm";
  names.pooler = prefix + "pooler.dense";
  names.classifier = names.token_classifier = "classifier";
  names.span = "qa_outputs";
  return names;
}

BertNames bert() {
  BertNames names = bert_like("bert.");
  names.masked_dense = "cls.predictions.transform.dense";
  names.masked_norm = "cls.predictions.transform.LayerNorm";
  names.masked_bias = "cls.predictions.bias";
  return names;
}

BertNames roberta() {
  BertNames names = bert_like("roberta.");
  names.masked_dense = "lm_head.dense";
  names.masked_norm = "lm_head.layer_norm";
  names.masked_bias = "lm_head.bias";
  names.classifier_dense = "classifier.dense";
  names.classifier = "classifier.out_proj";
  return names;
}

BertNames distilbert() {
  BertNames names;
  names.prefix = "distilbert.";
  names.words = "distilbert.embeddings.word_embeddings";
  names.positions = "distilbert.embeddings.position_embeddings";
  names.embedding_norm = "distilbert.embeddings.LayerNorm";
  names.layer = "distilbert.transformer.layer.";
  names.qkv = ".attention.qkv_lin";
  names.attention_out = ".attention.out_lin";
  names.attention_norm = ".sa_layer_norm";
  names.wide = ".ffn.lin1";
  names.narrow = ".ffn.lin2";
  names.output_norm = ".output_layer_norm";
  names.masked_dense = "vocab_transform";
  names.masked_norm = "vocab_layer_norm";
  names.masked_bias = "vocab_projector.bias";
  names.classifier_dense = "pre_classifier";
  names.classifier = names.token_classifier = "classifier";
  names.span = "qa_outputs";
  return names;
}

}  // namespace

const BertNames& bert_names(BertFamily family) {
  static const std::array<BertNames, 3> names = {bert(), roberta(), distilbert()};
  return names[static_cast<size_t>(family)];
}

}  // namespace ramet::model
