#pragma once

// What the sources of batches share. Inside data/ only.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ramet/text/batches.h"

namespace ramet::text {

using Signature = std::vector<std::pair<std::string, TensorType>>;

Signature bert_signature(const BertBatchOptions& options, int64_t count);
Signature causal_signature(const CausalBatchOptions& options, int64_t count);
/// A batch of zeros; Error when the range of samples cannot be.
Batch empty_batch(const Signature& signature, int64_t first_sample, int64_t count);
/// Row `row` of an i32 tensor of a batch.
int32_t* row_of(Batch& batch, size_t tensor, int64_t row);

void check_options(const BertBatchOptions& options);
void check_options(const CausalBatchOptions& options);

/// What masking must know of a vocabulary.
struct MaskingVocabulary {
  int32_t size = 0, padding = 0, classify = 0, separator = 0, mask = 0;
  std::vector<bool> starts_word;  ///< by id; empty: every token does
};

/// One sample before its masks: segments without special tokens. `b` is left out when `pair` is false.
struct BertSample {
  std::vector<int32_t> a, b;
  bool pair = true;
  int32_t next_sentence_label = -1;
};

/// Writes row `row` of a BERT batch: [CLS] a [SEP] (b [SEP]), padded, and masked by sample `index`.
void write_bert_row(Batch& batch, int64_t row, const BertSample& sample, const BertBatchOptions& options,
                    const MaskingVocabulary& vocabulary, int64_t index);

/// Documents in a new order each epoch, each followed by `separator`, as one stream of tokens. Its length is the same
/// in every epoch; the order needs 8 bytes a document.
class DocumentStream {
 public:
  DocumentStream(Corpus corpus, int32_t separator, uint64_t seed, bool shuffle);
  int64_t length() const { return length_; }
  /// Appends tokens [begin, min(end, length)) of epoch `epoch`. Safe from many threads.
  void append(int64_t epoch, int64_t begin, int64_t end, std::vector<int32_t>& tokens) const;

 private:
  struct Order;
  std::shared_ptr<const Order> order_of(int64_t epoch) const;
  Corpus corpus_;
  int32_t separator_;
  uint64_t seed_;
  bool shuffle_;
  int64_t length_ = 0;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Order> order_;  // the last asked for
};

/// BertObjective::kMlmNsp over a corpus.
std::unique_ptr<BatchSource> make_nsp_batches(Corpus corpus, MaskingVocabulary vocabulary,
                                              const BertBatchOptions& options);

/// Tags that keep the uses of RandomPurpose::kShuffle apart.
enum ShuffleTag : uint64_t { kShuffleDocuments = 1, kShuffleSamples = 2, kShuffleRows = 3 };

}  // namespace ramet::text
