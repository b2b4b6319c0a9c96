#pragma once

// Code that the graphs of BERT's family share. Inside model/ only.

#include <string>

#include "ramet/model/bert_names.h"
#include "ramet/model/blocks.h"
#include "ramet/model/presets.h"

namespace ramet::model {

/// One encoder, in training or not, on `rows` rows of tokens; `weights` as ModelBuilder takes it. The configuration and
/// the batch must outlive it.
class BertEncoder {
 public:
  BertEncoder(const BertConfig& config, const BatchShape& batch, int64_t rows, Graph& graph,
              std::vector<StateTensor>* weights, bool training);

  /// [rows,S,H], after all layers.
  Tensor encode();
  /// The elements at `positions` i32[rows,n] of the rows: [rows n, H].
  Tensor tokens_at(Tensor encoded, Tensor positions);
  /// The first token of each sequence, [sequences,H]: of each row, or where "first_positions" i32[rows,depth] say.
  Tensor first_tokens(Tensor encoded);

  /// Whether a row holds several sequences, apart by "segment_ids" and each with "position_ids" of its own.
  bool packed() const { return batch_.depth > 0; }
  /// Sequences that the rows hold at most.
  int64_t sequences() const { return packed() ? rows_ * batch_.depth : rows_; }
  Tensor segments() const { return attention_mask_; }  ///< i32[rows,S] of packed rows
  ModelBuilder& model() { return model_; }
  GraphBuilder& build() { return build_; }
  const BertConfig& config() const { return config_; }
  const BatchShape& batch() const { return batch_; }
  const BertNames& names() const { return names_; }
  const VocabularyRows& vocabulary() const { return vocabulary_; }
  Tensor words() const { return words_; }  ///< the table of words, once encoded

 private:
  Tensor embed();
  Tensor layer(Tensor x, const std::string& path);
  Tensor activate(Tensor x) const;

  const BertConfig& config_;
  const BatchShape& batch_;
  const BertNames& names_;
  const int64_t rows_;
  ModelBuilder model_;
  GraphBuilder& build_;
  const VocabularyRows vocabulary_;
  Tensor input_ids_, token_types_, attention_mask_, position_ids_, words_;
};

/// Declares the inputs of an encoder with a head, with the limits of those that encoders share, and its heads.
void describe_encoder(Model& model, const BertConfig& config, const BatchShape& batch);
/// Throws Error when sizes contradict each other.
void check_encoder(const BertConfig& config, const BatchShape& batch);
/// Matrix products of the layers, forward and backward, a token: 6 a weight, and attention.
double encoder_flops_per_token(const BertConfig& config, const BatchShape& batch);

}  // namespace ramet::model
