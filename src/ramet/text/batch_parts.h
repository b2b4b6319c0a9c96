#pragma once

// Code that the sources of batches share. Inside data/ only.

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ramet/text/batches.h"

namespace ramet::text {

Signature bert_signature(const BertBatchOptions& options, int64_t count);
Signature causal_signature(const CausalBatchOptions& options, int64_t count);
/// The places of a batch, all zeros, by rows.
class Rows {
 public:
  /// Zeros the places. Error when the range of samples cannot be.
  Rows(Signature signature, int64_t first_sample, int64_t count, const Places& places);
  const Signature& signature() const { return signature_; }
  int64_t count() const { return count_; }
  /// Row `row` of an i32 tensor.
  int32_t* of(size_t tensor, int64_t row) const;

 private:
  Signature signature_;
  int64_t count_;
  std::span<std::byte* const> places_;
};

Hash identity_of(std::string_view kind, std::string_view contents, const BertBatchOptions& options);
Hash identity_of(std::string_view kind, std::string_view contents, const CausalBatchOptions& options);

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
void write_bert_row(const Rows& batch, int64_t row, const BertSample& sample, const BertBatchOptions& options,
                    const MaskingVocabulary& vocabulary, int64_t index);

/// Documents in a new order each epoch, each followed by `separator`, as one stream of tokens. Its length is the same
/// in every epoch; the order needs 8 bytes a document.
class DocumentStream {
 public:
  DocumentStream(Corpus corpus, int32_t separator, uint64_t seed, bool shuffle);
  int64_t length() const { return length_; }
  /// Bytes of the order of an epoch.
  int64_t table_bytes() const { return 8 * corpus_.counts().documents; }
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
std::unique_ptr<SequenceSource> make_nsp_batches(Corpus corpus, MaskingVocabulary vocabulary,
                                                 const BertBatchOptions& options);

}  // namespace ramet::text
