#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ramet/model/decoding.h"
#include "ramet/model/model.h"
#include "ramet/text/task_head.h"

namespace ramet::model {

/// Relatives of BERT that share its layers.
enum class BertFamily {
  kBert,       ///< Devlin et al. 2018; MiniLM (Wang et al. 2020) is one
  kRoberta,    ///< Liu et al. 2019: no next sentence, positions counted from 2, a head of its own names
  kDistilBert  ///< Sanh et al. 2019: no token types, no pooler
};
/// The family of a recipe's model.kind; nothing for a kind outside of BERT's family.
std::optional<BertFamily> bert_family(const std::string& kind);
/// What stands between the two products of a feed-forward part.
enum class Activation { kGelu, kGeluTanh, kRelu };
/// "gelu", "gelu_tanh", "relu"; throws Error naming them.
Activation activation_from_name(const std::string& name);

/// Sizes of a BERT (Devlin et al. 2018). Defaults are those of "base".
struct BertConfig {
  BertFamily family = BertFamily::kBert;
  int64_t layers = 12, hidden = 768, heads = 12, intermediate = 3072;
  int64_t vocabulary = 30522, positions = 512;
  int64_t types = 2;  ///< rows of the table of token types; 0: there is none
  int64_t pad_vocabulary =
      1;  ///< the table of words has a multiple of so many rows; those beyond the vocabulary are no classes
  Activation activation = Activation::kGelu;
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

/// Rows of the table of positions before that of the first token (RoBERTa counts from the padding's id plus one).
int64_t first_position(BertFamily family);

/// "tiny", "mini", "small", "medium" (Turc et al. 2019), "base", "large", and of kBert "minilm-l6", "minilm-l12" (Wang
/// et al. 2020); with the vocabulary, token types and epsilon of the family. Throws Error naming them.
BertConfig bert_preset(const std::string& name, BertFamily family = BertFamily::kBert);
/// "mini" (for tests and demonstrations), "124m", "355m", "774m", "1.5b"; throws Error naming them.
Gpt2Config gpt2_preset(const std::string& name);
std::vector<std::string> bert_preset_names(BertFamily family = BertFamily::kBert);
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

/// The head of a fine-tuned model.
struct HeadShape {
  TaskHead kind = TaskHead::kClassification;
  int64_t labels = 2;   ///< classes (kClassification, kTokens)
  int64_t choices = 1;  ///< rows of a sample (kChoice); a micro-batch counts samples
  double dropout = 0.1;
  double teacher_weight = 0;       ///< share of the loss that a teacher's answers have (kClassification); 0: no teacher
  double teacher_temperature = 1;  ///< what both answers are divided by before they are compared
};

/// BERT with masked-word and next-sentence heads, tied embeddings. Data inputs as text/batches.h names them:
/// input_ids, token_type_ids, attention_mask i32[B,S], masked_positions, masked_labels i32[B,P], next_sentence_label
/// i32[B]. With a depth D the rows are packed, and attention_mask gives way to segment_ids i32[B,S] (1 to D, 0:
/// padding), position_ids i32[B,S] and first_positions i32[B,D] (where each sequence begins); next_sentence_label is
/// i32[B,D], and masked_positions those of all of a row's sequences. Outputs: loss = mlm_loss + nsp_loss, mlm_loss,
/// mlm_correct, mlm_count, and nsp_loss, nsp_correct, nsp_count. Weights have Hugging Face's names, but for query, key
/// and value, which are one tensor "...self.qkv.weight" [3H,H]. Throws Error when sizes contradict each other.
Model build_bert(const BertConfig& config, const BatchShape& batch);
/// Forward only, for filling masks: inputs input_ids, token_type_ids, attention_mask, masked_positions -> "top_values"
/// f32[B,P,k] (probabilities) and "top_indices" i32[B,P,k].
Graph build_bert_predict(const BertConfig& config, const BatchShape& batch, int64_t k);

/// The same encoder with a task's head (names and order of ops as Hugging Face has them). Data inputs input_ids,
/// attention_mask and, where the family has types, token_type_ids, all i32[B*choices, S]; labels i32[B]
/// (kClassification, kChoice), f32[B] (kRegression) or i32[B,S] (kTokens), start_positions and end_positions i32[B]
/// (kSpan); labels below 0 do not count. With a depth D the rows are packed, as build_bert's are: first_positions give
/// the place where each sequence begins, inputs that were i32[B] or f32[B] are [B,D], positions count from the
/// beginning of the row, and label_weights f32[B,D] (kRegression) are 1 for each sequence of the row and 0 elsewhere.
/// An end of a span is then searched for among its sequence's tokens alone; with one sequence a row, the padding behind
/// it is searched too, as Hugging Face does. Outputs: loss and, except for kRegression, correct and count: of labels,
/// of tokens, and of both ends of spans. With a teacher (Hinton et al. 2015, arXiv 1503.02531) training reads
/// teacher_logits f32[B,labels], or [B,D,labels], as well: loss is (1 - w) cross entropy + w T^2 D,
/// with D = KL(softmax(teacher / T) || softmax(logits / T)), a mean over the samples with a label.
Model build_bert_task(const BertConfig& config, const BatchShape& batch, const HeadShape& head);
/// Forward only: "logits" f32[B, width], width as TaskOutputs (text/task.h) has it; of packed rows (kClassification)
/// [B, D labels].
Graph build_bert_task_predict(const BertConfig& config, const BatchShape& batch, const HeadShape& head);

/// GPT-2 with its tied language-model head: input_ids, labels i32[B,S] -> loss, correct, count.
Model build_gpt2(const Gpt2Config& config, const BatchShape& batch);
/// Adds to a GPT-2 of these sizes the programs and caches that `decoding` asks for. A cache is [samples, room, heads,
/// head size], cut over tensor shards by heads. Throws Error when the room is more than the table of positions.
void add_gpt2_decoding(const Gpt2Config& config, const Decoding& decoding, Model& model);

}  // namespace ramet::model
