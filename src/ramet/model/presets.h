#pragma once

#include <string>
#include <vector>

#include "ramet/model/model.h"

namespace ramet {

/// Sizes of a BERT (Devlin et al. 2018). Defaults are those of "base".
struct BertConfig {
  int64_t layers = 12, hidden = 768, heads = 12, intermediate = 3072;
  int64_t vocabulary = 30522, positions = 512, types = 2;
  int64_t pad_vocabulary =
      1;  ///< the table of words has a multiple of so many rows; those beyond the vocabulary are no classes
  double dropout = 0.1, attention_dropout = 0.1;
  double epsilon = 1e-12, init_range = 0.02;
};

/// Sizes of a GPT-2 (Radford et al. 2019). Defaults are those of the smallest, 124M.
struct Gpt2Config {
  int64_t layers = 12, hidden = 768, heads = 12;
  int64_t vocabulary = 50257, positions = 1024;
  int64_t pad_vocabulary = 1;  ///< as BertConfig's
  double dropout = 0.1, attention_dropout = 0.1;
  double epsilon = 1e-5, init_range = 0.02;
};

/// "tiny", "mini", "small", "medium" (Turc et al. 2019), "base", "large"; throws Error naming them.
BertConfig bert_preset(const std::string& name);
/// "mini" (for tests and demonstrations), "124m", "355m", "774m", "1.5b"; throws Error naming them.
Gpt2Config gpt2_preset(const std::string& name);
std::vector<std::string> bert_preset_names();
std::vector<std::string> gpt2_preset_names();

/// How a model meets its data.
struct BatchShape {
  int64_t micro_batch = 8;
  int64_t sequence = 128;
  int64_t predictions = 20;   ///< masked positions of a sequence (BERT)
  int64_t seed = 0;           ///< of dropout
  bool next_sentence = true;  ///< BERT: with the next-sentence head and its loss
  int64_t depth = 0;          ///< BERT: most sequences that share a row (docs/packing.md); 0: rows are not packed
};

/// BERT with masked-word and next-sentence heads, tied embeddings. Data inputs as data/batches.h names them:
/// input_ids, token_type_ids, attention_mask i32[B,S], masked_positions, masked_labels i32[B,P], next_sentence_label
/// i32[B]. With a depth D the rows are packed, and attention_mask gives way to segment_ids i32[B,S] (1 to D, 0:
/// padding), position_ids i32[B,S] and first_positions i32[B,D] (where each sequence begins); next_sentence_label is
/// i32[B,D], and masked_positions those of all of a row's sequences. Outputs: loss = mlm_loss + nsp_loss, mlm_loss, mlm_correct, mlm_count, and nsp_loss, nsp_correct, nsp_count.
/// Weights have Hugging Face's names, but for query, key and value, which are one tensor "...self.qkv.weight" [3H,H].
/// Throws Error when sizes contradict each other.
Model build_bert(const BertConfig& config, const BatchShape& batch);
/// Forward only, for filling masks: inputs input_ids, token_type_ids, attention_mask, masked_positions -> "top_values"
/// f32[B*P,k] (probabilities) and "top_indices" i32[B*P,k].
Graph build_bert_predict(const BertConfig& config, const BatchShape& batch, int64_t k);

/// GPT-2 with its tied language-model head: input_ids, labels i32[B,S] -> loss, correct, count.
Model build_gpt2(const Gpt2Config& config, const BatchShape& batch);
/// Forward only, for continuing text: input_ids i32[B,S], last_position i32[B] -> "top_values" f32[B,k], "top_indices"
/// i32[B,k].
Graph build_gpt2_predict(const Gpt2Config& config, const BatchShape& batch, int64_t k);

}  // namespace ramet
