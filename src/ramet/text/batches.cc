#include "ramet/text/batches.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/data/permutation.h"
#include "ramet/text/batch_parts.h"

namespace ramet::text {

Signature bert_signature(const BertBatchOptions& options, int64_t count) {
  const TensorType sequence{DType::kI32, {count, options.sequence_length}};
  const TensorType predictions{DType::kI32, {count, options.max_predictions}};
  return {{"input_ids", sequence},        {"token_type_ids", sequence},
          {"attention_mask", sequence},   {"masked_positions", predictions},
          {"masked_labels", predictions}, {"next_sentence_label", {DType::kI32, {count}}}};
}

Signature causal_signature(const CausalBatchOptions& options, int64_t count) {
  const TensorType sequence{DType::kI32, {count, options.sequence_length}};
  return {{"input_ids", sequence}, {"labels", sequence}};
}

Rows::Rows(Signature signature, int64_t first_sample, int64_t count, const Places& places)
    : signature_(std::move(signature)), count_(count), places_(places.tensors) {
  check_samples(first_sample, count);
  if (places_.size() != signature_.size())
    internal_error("Rows", std::to_string(places_.size()) + " places for " + std::to_string(signature_.size()));
  for (size_t i = 0; i < places_.size(); ++i)
    std::memset(places_[i], 0, static_cast<size_t>(signature_[i].second.bytes()));
}

int32_t* Rows::of(size_t tensor, int64_t row) const {
  const Shape& shape = signature_[tensor].second.shape;
  return reinterpret_cast<int32_t*>(places_[tensor]) + row * (shape.elements() / shape[0]);
}

Hash identity_of(std::string_view kind, std::string_view contents, const BertBatchOptions& options) {
  return source_identity(kind, contents,
                         {static_cast<double>(options.objective), static_cast<double>(options.sequence_length),
                          static_cast<double>(options.max_predictions), options.masked_share, options.mask_token_share,
                          options.random_token_share, options.whole_word ? 1.0 : 0.0, options.short_sequence_share,
                          options.random_next_share, static_cast<double>(options.variants), options.shuffle ? 1.0 : 0.0,
                          static_cast<double>(options.seed >> 32), static_cast<double>(options.seed & 0xFFFFFFFFu),
                          options.vary_lengths ? 1.0 : 0.0});
}

Hash identity_of(std::string_view kind, std::string_view contents, const CausalBatchOptions& options) {
  const double length = static_cast<double>(options.sequence_length), shuffle = options.shuffle ? 1.0 : 0.0;
  const double high = static_cast<double>(options.seed >> 32), low = static_cast<double>(options.seed & 0xFFFFFFFFu);
  if (options.columns == 0) return source_identity(kind, contents, {length, shuffle, high, low});
  return source_identity(kind, contents, {length, shuffle, high, low, static_cast<double>(options.columns)});
}

namespace {

void check_range(const char* name, double value, double low, double high) {
  if (value >= low && value <= high) return;
  const auto text = [](double number) {
    std::string digits = std::to_string(number);
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.back() == '.') digits.pop_back();
    return digits;
  };
  throw Error({.what = std::string("data option ") + name + " is out of range",
               .found = text(value),
               .expected = text(low) + " to " + text(high)});
}

}  // namespace

void check_options(const BertBatchOptions& options) {
  check_range("sequence_length", options.sequence_length, 8, 1 << 20);
  check_range("max_predictions", options.max_predictions, 1, options.sequence_length);
  check_range("masked_share", options.masked_share, 0, 1);
  check_range("mask_token_share", options.mask_token_share, 0, 1);
  check_range("random_token_share", options.random_token_share, 0, 1 - options.mask_token_share + 1e-12);
  check_range("short_sequence_share", options.short_sequence_share, 0, 1);
  check_range("random_next_share", options.random_next_share, 0, 1);
  check_range("variants", options.variants, 1, 1 << 20);
}

void check_options(const CausalBatchOptions& options) {
  check_range("sequence_length", options.sequence_length, 1, 1 << 20);
  check_range("columns", static_cast<double>(options.columns), 0, 1 << 20);
}

namespace {

/// Where draws of one sample's masking lie in its stream: the choice of units, then two draws a position.
constexpr uint64_t kPositionDraws = uint64_t{1} << 32;

/// Positions that may be masked, in units that are masked together.
std::vector<std::pair<int32_t, int32_t>> maskable_units(const int32_t* ids, int32_t length, bool whole_word,
                                                        const MaskingVocabulary& vocabulary) {
  std::vector<std::pair<int32_t, int32_t>> units;
  bool joined = false;  // the position before is an ordinary token
  for (int32_t p = 0; p < length; ++p) {
    if (ids[p] == vocabulary.classify || ids[p] == vocabulary.separator) {
      joined = false;
      continue;
    }
    const bool starts = vocabulary.starts_word.empty() || vocabulary.starts_word[static_cast<size_t>(ids[p])];
    if (whole_word && joined && !starts)
      units.back().second = p + 1;
    else
      units.push_back({p, p + 1});
    joined = true;
  }
  return units;
}

/// BERT's create_masked_lm_predictions: units in random order until the budget is full; a unit that would exceed it is
/// passed over. Returns sorted positions.
std::vector<int32_t> choose_positions(std::vector<std::pair<int32_t, int32_t>> units, size_t budget,
                                      const RandomStream& stream) {
  std::vector<int32_t> positions;
  for (size_t i = 0; i < units.size() && positions.size() < budget; ++i) {
    std::swap(units[i], units[i + stream.below(i, static_cast<uint32_t>(units.size() - i))]);
    const auto [begin, end] = units[i];
    if (positions.size() + static_cast<size_t>(end - begin) > budget) continue;
    for (int32_t p = begin; p < end; ++p) positions.push_back(p);
  }
  std::sort(positions.begin(), positions.end());
  return positions;
}

}  // namespace

void write_bert_row(const Rows& batch, int64_t row, const BertSample& sample, const BertBatchOptions& options,
                    const MaskingVocabulary& vocabulary, int64_t index) {
  int32_t *ids = batch.of(0, row), *types = batch.of(1, row), *attention = batch.of(2, row);
  int32_t length = 0;
  const auto put = [&](int32_t id, int32_t type) {
    ids[length] = id;
    types[length] = type;
    attention[length++] = 1;
  };
  put(vocabulary.classify, 0);
  for (const int32_t id : sample.a) put(id, 0);
  put(vocabulary.separator, 0);
  if (sample.pair) {
    for (const int32_t id : sample.b) put(id, 1);
    put(vocabulary.separator, 1);
  }
  std::fill(ids + length, ids + options.sequence_length, vocabulary.padding);

  const auto sample_number = static_cast<uint64_t>(index);
  const RandomStream stream(options.seed, RandomPurpose::kMasking, sample_number & 0xFFFFFFFFu, sample_number >> 32);
  const auto wanted = static_cast<size_t>(std::max(1.0, std::nearbyint(length * options.masked_share)));
  const auto positions = choose_positions(maskable_units(ids, length, options.whole_word, vocabulary),
                                          std::min(wanted, static_cast<size_t>(options.max_predictions)), stream);
  int32_t *places = batch.of(3, row), *labels = batch.of(4, row);
  std::fill(labels, labels + options.max_predictions, -1);
  for (size_t k = 0; k < positions.size(); ++k) {
    const int32_t p = positions[k];
    places[k] = p;
    labels[k] = ids[p];
    const uint64_t draw = kPositionDraws + 2 * static_cast<uint64_t>(p);
    const double coin = stream.bits(draw) * 0x1p-32;
    if (coin < options.mask_token_share)
      ids[p] = vocabulary.mask;
    else if (coin < options.mask_token_share + options.random_token_share)
      ids[p] = static_cast<int32_t>(stream.below(draw + 1, static_cast<uint32_t>(vocabulary.size)));
  }
  *batch.of(5, row) = sample.next_sentence_label;
}

struct DocumentStream::Order {
  int64_t epoch;
  Permutation permutation;
  std::vector<int64_t> ends;  // of each document and its separator, in the order of the stream
};

DocumentStream::DocumentStream(Corpus corpus, int32_t separator, uint64_t seed, bool shuffle)
    : corpus_(std::move(corpus)),
      separator_(separator),
      seed_(seed),
      shuffle_(shuffle),
      length_(corpus_.counts().tokens + corpus_.counts().documents) {}

std::shared_ptr<const DocumentStream::Order> DocumentStream::order_of(int64_t epoch) const {
  std::lock_guard lock(mutex_);
  if (order_ && order_->epoch == epoch) return order_;
  const int64_t documents = corpus_.counts().documents;
  auto order = std::make_shared<Order>(
      Order{epoch, Permutation(documents, seed_, static_cast<uint64_t>(epoch), kShuffleDocuments), {}});
  order->ends.reserve(static_cast<size_t>(documents));
  int64_t end = 0;
  for (int64_t i = 0; i < documents; ++i)
    order->ends.push_back(end += corpus_.document_tokens(shuffle_ ? order->permutation(i) : i) + 1);
  return order_ = order;
}

void DocumentStream::append(int64_t epoch, int64_t begin, int64_t end, std::vector<int32_t>& tokens) const {
  const auto order = order_of(epoch);
  end = std::min(end, length_);
  auto place = std::upper_bound(order->ends.begin(), order->ends.end(), begin);
  for (int64_t at = begin; at < end; ++place) {
    const int64_t rank = place - order->ends.begin();
    const int64_t document = shuffle_ ? order->permutation(rank) : rank;
    const int64_t document_begin = rank == 0 ? 0 : *(place - 1);
    const int64_t document_end = *place - 1;  // where the separator stands
    if (at < document_end)
      corpus_.append_document_part(document, at - document_begin, std::min(end, document_end) - document_begin, tokens);
    if (end > document_end) tokens.push_back(separator_);
    at = *place;
  }
}

namespace {

/// Shared by the sources whose epochs have one length: sample i is element i % size of epoch i / size, shuffled.
template <typename Base>
class EvenSource : public Base {
 public:
  EvenSource(int64_t size, uint64_t seed, bool shuffle) : size_(size), seed_(seed), shuffle_(shuffle) {}
  int64_t epoch_of(int64_t index) const override { return index / size_; }
  int64_t epoch_samples(int64_t) const override { return size_; }

 protected:
  int64_t element(int64_t index) const {
    const int64_t in_epoch = index % size_;
    if (!shuffle_) return in_epoch;
    return Permutation(size_, seed_, static_cast<uint64_t>(index / size_), kShuffleSamples)(in_epoch);
  }

 private:
  int64_t size_;
  uint64_t seed_;
  bool shuffle_;
};

class CausalSource final : public EvenSource<Source> {
 public:
  CausalSource(const Corpus& corpus, int32_t separator, const CausalBatchOptions& options)
      : EvenSource(blocks(corpus, options), options.seed, options.shuffle && options.columns == 0),
        stream_(corpus, separator, options.seed, options.shuffle),
        options_(options),
        separator_(separator),
        identity_(identity_of("causal", corpus.hash().hex(), options)) {}
  Hash identity() const override { return identity_; }
  int64_t host_bytes() const override { return stream_.table_bytes(); }

  Signature signature(int64_t count) const override { return causal_signature(options_, count); }

  void fill(int64_t first_sample, int64_t count, const Places& places) const override {
    const Rows batch(signature(count), first_sample, count, places);
    const int64_t length = options_.sequence_length;
    std::vector<int32_t> tokens;
    for (int64_t row = 0; row < count; ++row) {
      const int64_t index = first_sample + row, begin = block(element(index)) * length;
      tokens.clear();
      stream_.append(epoch_of(index), begin, begin + length + 1, tokens);
      // Only a corpus shorter than one block leaves room at the end.
      const auto pairs = std::min<int64_t>(length, static_cast<int64_t>(tokens.size()) - 1);
      int32_t *ids = batch.of(0, row), *labels = batch.of(1, row);
      std::fill(std::copy_n(tokens.begin(), pairs, ids), ids + length, separator_);
      std::fill(std::copy_n(tokens.begin() + 1, pairs, labels), labels + length, -1);
    }
  }

 private:
  static int64_t blocks(const Corpus& corpus, const CausalBatchOptions& options) {
    const int64_t columns = std::max<int64_t>(1, options.columns);
    const int64_t all = (corpus.counts().tokens + corpus.counts().documents - 1) / options.sequence_length;
    if (options.columns > 1 && all < columns)
      throw Error(
          {.what = "the corpus is too short to be cut into so many texts",
           .found = std::to_string(all) + " sequences of " + std::to_string(options.sequence_length) + " tokens",
           .expected = "at least " + std::to_string(columns) + ", one for each sample of a micro-batch",
           .remedy = "Take a longer corpus, or a smaller train.micro_batch or data.sequence_length"});
    return std::max<int64_t>(1, all / columns) * columns;
  }
  /// Which block of the epoch element `element` is.
  int64_t block(int64_t element) const {
    if (options_.columns == 0) return element;
    return element % options_.columns * (epoch_samples(0) / options_.columns) + element / options_.columns;
  }
  DocumentStream stream_;
  CausalBatchOptions options_;
  int32_t separator_;
  Hash identity_;
};

/// Pieces of documents, each document from its beginning.
class DocumentMlmSource final : public EvenSource<SequenceSource> {
 public:
  DocumentMlmSource(Corpus corpus, MaskingVocabulary vocabulary, const BertBatchOptions& options)
      : DocumentMlmSource(pieces(corpus, options.sequence_length - 2), corpus, std::move(vocabulary), options) {}

  Signature signature(int64_t count) const override { return bert_signature(options_, count); }
  Hash identity() const override { return identity_of("pieces", corpus_.hash().hex(), options_); }
  int64_t host_bytes() const override { return 8 * std::ssize(ends_); }
  int32_t sample_length(int64_t index) const override {
    const Piece piece = piece_of(element(index));
    return static_cast<int32_t>(piece.end - piece.begin) + 2;
  }

  void fill(int64_t first_sample, int64_t count, const Places& places) const override {
    const Rows batch(signature(count), first_sample, count, places);
    BertSample sample;
    sample.pair = false;
    for (int64_t row = 0; row < count; ++row) {
      const int64_t index = first_sample + row;
      const Piece piece = piece_of(element(index));
      sample.a.clear();
      corpus_.append_document_part(piece.document, piece.begin, piece.end, sample.a);
      write_bert_row(batch, row, sample, options_, vocabulary_, index);
    }
  }

 private:
  struct Piece {
    int64_t document, begin, end;
  };
  DocumentMlmSource(std::vector<int64_t> ends, Corpus corpus, MaskingVocabulary vocabulary,
                    const BertBatchOptions& options)
      : EvenSource(ends.back(), options.seed, options.shuffle),
        ends_(std::move(ends)),
        corpus_(std::move(corpus)),
        options_(options),
        vocabulary_(std::move(vocabulary)) {}

  /// Pieces of all documents up to each.
  static std::vector<int64_t> pieces(const Corpus& corpus, int64_t length) {
    std::vector<int64_t> ends;
    int64_t end = 0;
    for (int64_t document = 0; document < corpus.counts().documents; ++document)
      ends.push_back(end += (corpus.document_tokens(document) + length - 1) / length);
    if (end == 0) throw Error({.what = "the corpus has no tokens", .where = corpus.folder().string()});
    return ends;
  }
  Piece piece_of(int64_t number) const {
    const auto at = std::upper_bound(ends_.begin(), ends_.end(), number);
    const int64_t document = at - ends_.begin(), first = document == 0 ? 0 : *(at - 1),
                  length = options_.sequence_length - 2, begin = (number - first) * length;
    return {document, begin, std::min(begin + length, corpus_.document_tokens(document))};
  }

  std::vector<int64_t> ends_;
  Corpus corpus_;
  BertBatchOptions options_;
  MaskingVocabulary vocabulary_;
};

class PackedMlmSource final : public EvenSource<SequenceSource> {
 public:
  PackedMlmSource(const Corpus& corpus, MaskingVocabulary vocabulary, const BertBatchOptions& options)
      : EvenSource(blocks(corpus, options.sequence_length - 2), options.seed, options.shuffle),
        stream_(corpus, vocabulary.separator, options.seed, options.shuffle),
        options_(options),
        vocabulary_(std::move(vocabulary)),
        identity_(identity_of("masked", corpus.hash().hex(), options)) {}

  Signature signature(int64_t count) const override { return bert_signature(options_, count); }
  Hash identity() const override { return identity_; }
  int64_t host_bytes() const override { return stream_.table_bytes(); }
  int32_t sample_length(int64_t index) const override {
    const int64_t length = options_.sequence_length - 2, begin = element(index) * length;
    return static_cast<int32_t>(std::clamp<int64_t>(stream_.length() - begin, 0, length)) + 2;
  }

  void fill(int64_t first_sample, int64_t count, const Places& places) const override {
    const Rows batch(signature(count), first_sample, count, places);
    const int64_t length = options_.sequence_length - 2;
    BertSample sample;
    sample.pair = false;
    for (int64_t row = 0; row < count; ++row) {
      const int64_t index = first_sample + row, begin = element(index) * length;
      sample.a.clear();
      stream_.append(epoch_of(index), begin, begin + length, sample.a);
      write_bert_row(batch, row, sample, options_, vocabulary_, index);
    }
  }

 private:
  static int64_t blocks(const Corpus& corpus, int64_t length) {
    return std::max<int64_t>(1, (corpus.counts().tokens + corpus.counts().documents) / length);
  }
  DocumentStream stream_;
  BertBatchOptions options_;
  MaskingVocabulary vocabulary_;
  Hash identity_;
};

}  // namespace

std::unique_ptr<SequenceSource> make_bert_batches(Corpus corpus, const BertBatchOptions& options) {
  check_options(options);
  const Tokenizer& tokenizer = corpus.tokenizer();
  MaskingVocabulary vocabulary;
  vocabulary.size = tokenizer.vocabulary_size();
  vocabulary.padding = tokenizer.require_special("[PAD]", "BERT's pretraining");
  vocabulary.classify = tokenizer.require_special("[CLS]", "BERT's pretraining");
  vocabulary.separator = tokenizer.require_special("[SEP]", "BERT's pretraining");
  vocabulary.mask = tokenizer.require_special("[MASK]", "BERT's pretraining");
  vocabulary.starts_word.resize(static_cast<size_t>(vocabulary.size));
  for (int32_t id = 0; id < vocabulary.size; ++id)
    vocabulary.starts_word[static_cast<size_t>(id)] = tokenizer.starts_word(id);
  if (options.objective == BertObjective::kMlm)
    return std::make_unique<PackedMlmSource>(corpus, std::move(vocabulary), options);
  if (options.objective == BertObjective::kMlmDocuments)
    return std::make_unique<DocumentMlmSource>(std::move(corpus), std::move(vocabulary), options);
  return make_nsp_batches(std::move(corpus), std::move(vocabulary), options);
}

std::unique_ptr<Source> make_causal_batches(const Corpus& corpus, const CausalBatchOptions& options) {
  check_options(options);
  const int32_t separator = corpus.tokenizer().require_special("<|endoftext|>", "causal language modelling");
  return std::make_unique<CausalSource>(corpus, separator, options);
}

}  // namespace ramet::text
