#pragma once

#include <cstdint>
#include <memory>

#include "ramet/data/source.h"
#include "ramet/text/corpus.h"
#include "ramet/text/packing.h"

namespace ramet::text {

/// Samples that are sequences of tokens, each with a length that the source knows without making the sample.
class SequenceSource : public Source {
 public:
  /// Tokens of sample `index` without padding.
  virtual int32_t sample_length(int64_t index) const = 0;
};

/// BERT's training objectives.
enum class BertObjective {
  kMlmNsp,       ///< sentence pairs as BERT's create_pretraining_data.py makes them
  kMlm,          ///< one segment: shuffled documents joined with [SEP], cut into full sequences
  kMlmDocuments  ///< one segment: pieces of one document each, the last of them as long as it is
};

/// Options of BERT's batches: tensors input_ids, token_type_ids, attention_mask (1 = token, 0 = padding at the end),
/// all i32[B,S]; masked_positions, masked_labels (-1 = unused), both i32[B,P]; next_sentence_label i32[B] (1 = random
/// next, as BERT has it; -1 = ignore, for kMlm).
struct BertBatchOptions {
  BertObjective objective = BertObjective::kMlmNsp;
  int32_t sequence_length = 128;
  int32_t max_predictions = 20;
  double masked_share = 0.15;
  double mask_token_share = 0.8;    ///< of the masked positions, those that show [MASK]
  double random_token_share = 0.1;  ///< those that show a random token; the rest show their own
  bool whole_word = false;
  double short_sequence_share = 0.1;
  double random_next_share = 0.5;
  /// Ways in which a document is cut into pairs before they come again (BERT's dupe_factor); masks are always new.
  int32_t variants = 10;
  bool shuffle = true;  ///< permute the samples of an epoch
  uint64_t seed = 0;
  /// Synthetic sequences are of any length from an eighth of the row on, instead of full.
  bool vary_lengths = false;
};

/// Error when the corpus lacks [CLS], [SEP], [MASK] or [PAD], or is too small for the objective.
std::unique_ptr<SequenceSource> make_bert_batches(Corpus corpus, const BertBatchOptions& options);

/// Options of packed batches.
struct PackedBatchOptions {
  PackingAlgorithm algorithm = PackingAlgorithm::kLpfhp;
  int64_t depth = 3;  ///< most sequences of a row, 1 or more
  int32_t sequence_length = 128;
  int32_t max_predictions = 22;  ///< of a row; enough for any sequences packed into one row (0: a task has none)
  bool shuffle = true;           ///< permute the rows of an epoch
  uint64_t seed = 0;
};

/// Rows of several samples of BERT's batches, or of a task's, so that less of them is padding (docs/packing.md). An
/// epoch's rows hold exactly that epoch's samples, those of a row in their order, each with its own masks; a source
/// without epochs is packed 4096 samples at a time. Tensors input_ids, token_type_ids, segment_ids (1, 2, ... for the
/// sequences of a row, 0 = padding), position_ids (which begin again with each), all i32[B,S]; masked_positions,
/// masked_labels (-1 = unused), both i32[B,P]; first_positions (of each sequence's [CLS]; 0 = unused) and
/// next_sentence_label (-1 = ignore), both i32[B,depth]. Of a task: labels i32[B,depth] (-1 = ignore), or f32[B,depth]
/// with label_weights (1, or 0 = ignore), or i32[B,S] where tokens have labels; start_positions and end_positions
/// i32[B,depth], counted from the row's begin; teacher_logits f32[B,depth,C]. Which samples share a row needs 8 bytes a
/// sample of memory. Error for a depth that cannot be, and as pack_histogram.
std::unique_ptr<Source> make_packed_batches(std::shared_ptr<const SequenceSource> samples,
                                            const PackedBatchOptions& options);

/// Options of GPT-2's batches: input_ids, labels, both i32[B,S]; labels[t] is the token after input_ids[t], -1 =
/// ignore.
struct CausalBatchOptions {
  int32_t sequence_length = 1024;
  bool shuffle = true;
  uint64_t seed = 0;
  /// Not 0: sample i + columns goes on where sample i ends. An epoch is cut into so many texts of equal length, of
  /// which sample i reads text i % columns. Synthetic tokens have no order, and ignore it.
  int64_t columns = 0;
};

/// Shuffled documents joined with <|endoftext|>, cut into blocks of S + 1 tokens that share one with the next. Error
/// for a corpus that is too short for `columns`.
std::unique_ptr<Source> make_causal_batches(const Corpus& corpus, const CausalBatchOptions& options);

/// Same tensors with tokens drawn from the counter-based generator by Zipf's law; every sequence is full.
/// [PAD] [UNK] [CLS] [SEP] [MASK] are ids 0 to 4 (BERT), or absent (GPT-2).
std::unique_ptr<SequenceSource> make_synthetic_bert_batches(int32_t vocabulary_size, const BertBatchOptions& options);
std::unique_ptr<Source> make_synthetic_causal_batches(int32_t vocabulary_size, const CausalBatchOptions& options);

}  // namespace ramet::text
