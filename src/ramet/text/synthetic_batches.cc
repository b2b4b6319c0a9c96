#include <algorithm>
#include <bit>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/text/batch_parts.h"

namespace ramet::text {
namespace {

constexpr int32_t kSpecialTokens = 5;  // [PAD] [UNK] [CLS] [SEP] [MASK]

RandomStream sample_draws(uint64_t seed, int64_t index) {
  const auto number = static_cast<uint64_t>(index);
  return {seed, RandomPurpose::kSynthetic, number & 0xFFFFFFFFu, number >> 32};
}

/// A token of `count`, the n-th as frequent as 1/n (Zipf's law) but alike between powers of two, which whole numbers can
/// draw: of the octaves of ranks one, of its ranks one. Takes two elements of the stream.
uint32_t draw_token(const RandomStream& draws, uint64_t element, uint32_t count) {
  const uint32_t octave = draws.below(element, static_cast<uint32_t>(std::bit_width(count)));
  const uint32_t least = 1u << octave, most = std::min(2 * least - 1, count);
  return least - 1 + draws.below(element + 1, most - least + 1);
}

void require_vocabulary(int32_t size, int32_t least) {
  if (size < least)
    throw Error({.what = "the vocabulary is too small for synthetic data",
                 .found = std::to_string(size) + " tokens",
                 .expected = std::to_string(least) + " or more"});
}

template <typename Base>
class SyntheticSource : public Base {
 public:
  int64_t epoch_of(int64_t) const override { return 0; }
  int64_t epoch_samples(int64_t) const override { return 0; }
};

class SyntheticBert final : public SyntheticSource<SequenceSource> {
 public:
  SyntheticBert(int32_t vocabulary_size, const BertBatchOptions& options) : options_(options) {
    check_options(options);
    require_vocabulary(vocabulary_size, kSpecialTokens + 1);
    vocabulary_ = {.size = vocabulary_size, .padding = 0, .classify = 2, .separator = 3, .mask = 4, .starts_word = {}};
  }
  Signature signature(int64_t count) const override { return bert_signature(options_, count); }
  Hash identity() const override {
    return identity_of("synthetic", std::to_string(vocabulary_.size), options_);
  }
  int32_t sample_length(int64_t index) const override {
    if (!options_.vary_lengths) return options_.sequence_length;
    const auto least = std::max<uint32_t>(5, static_cast<uint32_t>(options_.sequence_length) / 8);
    const uint32_t lengths = static_cast<uint32_t>(options_.sequence_length) - least + 1;
    return static_cast<int32_t>(least + sample_draws(options_.seed, index).below(2, lengths));
  }

  void fill(int64_t first_sample, int64_t count, const Places& places) const override {
    const Rows batch(signature(count), first_sample, count, places);
    const bool pair = options_.objective == BertObjective::kMlmNsp;
    const auto ordinary = static_cast<uint32_t>(vocabulary_.size - kSpecialTokens);
    for (int64_t row = 0; row < count; ++row) {
      const RandomStream draws = sample_draws(options_.seed, first_sample + row);
      BertSample sample;
      sample.pair = pair;
      const auto room = static_cast<uint32_t>(sample_length(first_sample + row) - (pair ? 3 : 2));
      // Element 0 tosses for the label, 1 cuts the segments, 2 says how long the sample is; tokens follow.
      const uint32_t cut = pair ? 1 + draws.below(1, room - 1) : room;
      for (uint32_t i = 0; i < room; ++i)
        (i < cut ? sample.a : sample.b)
            .push_back(kSpecialTokens + static_cast<int32_t>(draw_token(draws, 4 + 2 * i, ordinary)));
      sample.next_sentence_label = pair ? static_cast<int32_t>(draws.below(0, 2)) : -1;
      write_bert_row(batch, row, sample, options_, vocabulary_, first_sample + row);
    }
  }

 private:
  BertBatchOptions options_;
  MaskingVocabulary vocabulary_;
};

class SyntheticCausal final : public SyntheticSource<Source> {
 public:
  SyntheticCausal(int32_t vocabulary_size, const CausalBatchOptions& options)
      : options_(options), vocabulary_size_(vocabulary_size) {
    check_options(options);
    require_vocabulary(vocabulary_size, 2);
  }
  Signature signature(int64_t count) const override { return causal_signature(options_, count); }
  Hash identity() const override {
    return identity_of("synthetic causal", std::to_string(vocabulary_size_), options_);
  }

  void fill(int64_t first_sample, int64_t count, const Places& places) const override {
    const Rows batch(signature(count), first_sample, count, places);
    for (int64_t row = 0; row < count; ++row) {
      const RandomStream draws = sample_draws(options_.seed, first_sample + row);
      int32_t *ids = batch.of(0, row), *labels = batch.of(1, row);
      const auto token = [&](int32_t t) {
        return static_cast<int32_t>(
            draw_token(draws, 2 * static_cast<uint64_t>(t), static_cast<uint32_t>(vocabulary_size_)));
      };
      for (int32_t t = 0; t < options_.sequence_length; ++t) ids[t] = token(t);
      std::copy(ids + 1, ids + options_.sequence_length, labels);
      labels[options_.sequence_length - 1] = token(options_.sequence_length);
    }
  }

 private:
  CausalBatchOptions options_;
  int32_t vocabulary_size_;
};

}  // namespace

std::unique_ptr<SequenceSource> make_synthetic_bert_batches(int32_t vocabulary_size, const BertBatchOptions& options) {
  return std::make_unique<SyntheticBert>(vocabulary_size, options);
}

std::unique_ptr<Source> make_synthetic_causal_batches(int32_t vocabulary_size, const CausalBatchOptions& options) {
  return std::make_unique<SyntheticCausal>(vocabulary_size, options);
}

}  // namespace ramet::text
