#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/data/permutation.h"
#include "ramet/text/batch_parts.h"

namespace ramet::text {
namespace {

/// One instance of BERT's create_instances_from_document: sentences [a_begin, a_end) and [b_begin, b_end), and the
/// sentence where the next instance of the document begins.
struct Pair {
  int64_t a_begin = 0, a_end = 0, b_begin = 0, b_end = 0, next = 0;
  bool random_next = false;
};

// Draws of one instance, in its part of the stream: they are keyed by its first sentence, so that an instance can be
// made again without those before it.
constexpr uint64_t kDrawsPerSentence = 1024;
constexpr uint64_t kDrawSplit = 0, kDrawCoin = 1, kDrawDocument = 2, kDocumentTries = 10, kDrawStart = 12,
                   kDrawTruncation = 16;

/// BERT's sentence pairs. Documents are cut into pairs in `variants` ways (one way an epoch, in turn), each the outcome
/// of BERT's own procedure; a way is kept as the first sentence of each of its instances.
class NspSource final : public SequenceSource {
 public:
  NspSource(Corpus corpus, MaskingVocabulary vocabulary, const BertBatchOptions& options)
      : corpus_(std::move(corpus)), vocabulary_(std::move(vocabulary)), options_(options) {
    if (corpus_.counts().documents < 2)
      throw Error(
          {.what = "next-sentence prediction takes sentences from two documents",
           .where = corpus_.folder().string(),
           .found = std::to_string(corpus_.counts().documents) + " document",
           .expected = "2 or more",
           .remedy = "Separate documents by blank lines when building the corpus, or train with objective mlm"});
    if (corpus_.counts().sentences > int64_t{0xFFFFFFFF})
      throw Error({.what = "too many sentences for sentence pairs",
                   .where = corpus_.folder().string(),
                   .found = std::to_string(corpus_.counts().sentences),
                   .expected = "fewer than 2^32",
                   .remedy = "Split the corpus in two, or train with objective mlm"});
  }

  Signature signature(int64_t count) const override { return bert_signature(options_, count); }
  Hash identity() const override { return identity_of("sentence pairs", corpus_.hash().hex(), options_); }
  /// Of the two ways that are kept, each with at most one instance a sentence.
  int64_t host_bytes() const override { return 2 * 4 * corpus_.counts().sentences; }
  int64_t epoch_of(int64_t index) const override { return locate(index).epoch; }
  int64_t epoch_samples(int64_t epoch) const override { return size_of_variant(epoch % options_.variants); }

  int32_t sample_length(int64_t index) const override {
    const Instance instance = instance_of(index);
    const Pair pair = pair_of(instance);
    int64_t tokens = 0;
    for (int64_t s = pair.a_begin; s < pair.a_end; ++s) tokens += corpus_.sentence_length(s);
    for (int64_t s = pair.b_begin; s < pair.b_end; ++s) tokens += corpus_.sentence_length(s);
    return static_cast<int32_t>(std::min<int64_t>(tokens, room())) + 3;
  }

  void fill(int64_t first_sample, int64_t count, const Places& places) const override {
    const Rows batch(signature(count), first_sample, count, places);
    for (int64_t row = 0; row < count; ++row)
      write_bert_row(batch, row, sample(instance_of(first_sample + row)), options_, vocabulary_, first_sample + row);
  }

 private:
  struct Variant {
    int64_t variant;
    std::vector<uint32_t> starts;
  };
  struct Place {
    int64_t epoch, in_epoch;
  };
  struct Instance {
    int64_t variant, begin;  ///< its first sentence
  };

  Instance instance_of(int64_t index) const {
    const Place place = locate(index);
    const int64_t variant = place.epoch % options_.variants;
    const auto made = variant_of(variant);
    const auto size = static_cast<int64_t>(made->starts.size());
    const int64_t element = options_.shuffle ? Permutation(size, options_.seed, static_cast<uint64_t>(place.epoch),
                                                           kShuffleSamples)(place.in_epoch)
                                             : place.in_epoch;
    return {variant, made->starts[static_cast<size_t>(element)]};
  }

  int32_t room() const { return options_.sequence_length - 3; }
  RandomStream pair_draws(int64_t variant) const {
    return {options_.seed, RandomPurpose::kSentencePair, static_cast<uint64_t>(variant), 0};
  }

  /// The length that pairs of a document aim at: the full one, or now and then a shorter one.
  int64_t target(int64_t variant, int64_t document) const {
    const RandomStream draws(options_.seed, RandomPurpose::kSentencePair, static_cast<uint64_t>(variant), 1);
    const auto words = draws.block(static_cast<uint64_t>(document));
    if (words[0] * 0x1p-32 >= options_.short_sequence_share) return room();
    return 2 + static_cast<int64_t>(static_cast<uint64_t>(words[1]) * static_cast<uint64_t>(room() - 1) >> 32);
  }

  /// The instance that begins at sentence `begin` of a document that ends at `end`, all but a random second segment.
  Pair first_part(const RandomStream& draws, int64_t begin, int64_t end, int64_t target) const {
    int64_t last = begin, length = 0;
    while (last < end && length < target) length += corpus_.sentence_length(last++);
    const int64_t sentences = last - begin;
    const auto words = draws.block(static_cast<uint64_t>(begin) * (kDrawsPerSentence / 4));
    Pair pair;
    pair.a_begin = begin;
    pair.a_end = begin + 1;
    if (sentences > 1)
      pair.a_end +=
          static_cast<int64_t>(static_cast<uint64_t>(words[kDrawSplit]) * static_cast<uint64_t>(sentences - 1) >> 32);
    pair.random_next = sentences == 1 || words[kDrawCoin] * 0x1p-32 < options_.random_next_share;
    pair.b_begin = pair.a_end;
    pair.b_end = last;
    // Sentences of the chunk that a random second segment displaces are used again.
    pair.next = pair.random_next ? pair.a_end : last;
    return pair;
  }

  /// A second segment from another document.
  void draw_second(const RandomStream& draws, int64_t document, int64_t target, Pair& pair) const {
    const uint64_t base = static_cast<uint64_t>(pair.a_begin) * kDrawsPerSentence;
    const int64_t documents = corpus_.counts().documents;
    int64_t other = document;
    for (uint64_t attempt = 0; attempt < kDocumentTries && other == document; ++attempt)
      other = draws.below(base + kDrawDocument + attempt, static_cast<uint32_t>(documents));
    if (other == document) other = (document + 1) % documents;
    const Corpus::Range range = corpus_.document_sentences(other);
    pair.b_begin = range.first + draws.below(base + kDrawStart, static_cast<uint32_t>(range.last - range.first));
    int64_t length = 0;
    for (int64_t s = pair.a_begin; s < pair.a_end; ++s) length += corpus_.sentence_length(s);
    pair.b_end = pair.b_begin;
    do length += corpus_.sentence_length(pair.b_end++);
    while (pair.b_end < range.last && length < target);
  }

  Pair pair_of(const Instance& instance) const {
    const int64_t document = corpus_.document_of_sentence(instance.begin);
    const int64_t aim = target(instance.variant, document);
    const RandomStream draws = pair_draws(instance.variant);
    Pair pair = first_part(draws, instance.begin, corpus_.document_sentences(document).last, aim);
    if (pair.random_next) draw_second(draws, document, aim, pair);
    return pair;
  }

  BertSample sample(const Instance& instance) const {
    const Pair pair = pair_of(instance);
    BertSample sample;
    for (int64_t s = pair.a_begin; s < pair.a_end; ++s) corpus_.append_sentence(s, sample.a);
    for (int64_t s = pair.b_begin; s < pair.b_end; ++s) corpus_.append_sentence(s, sample.b);
    truncate(pair_draws(instance.variant), static_cast<uint64_t>(instance.begin) * kDrawsPerSentence + kDrawTruncation,
             sample);
    sample.next_sentence_label = pair.random_next;
    return sample;
  }

  /// BERT's truncate_seq_pair: tokens go from the longer segment, front or back by the toss of a coin.
  void truncate(const RandomStream& draws, uint64_t base, BertSample& sample) const {
    size_t a_begin = 0, a_end = sample.a.size(), b_begin = 0, b_end = sample.b.size();
    uint32_t coins = 0;
    for (uint64_t n = 0; a_end - a_begin + b_end - b_begin > static_cast<size_t>(room()); ++n) {
      if (n % 32 == 0) coins = draws.bits(base + n / 32 % (kDrawsPerSentence - kDrawTruncation));
      const bool front = coins >> n % 32 & 1, from_a = a_end - a_begin > b_end - b_begin;
      if (front)
        ++(from_a ? a_begin : b_begin);
      else
        --(from_a ? a_end : b_end);
    }
    const auto keep = [](std::vector<int32_t>& tokens, size_t begin, size_t end) {
      tokens.resize(end);
      tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(begin));
    };
    keep(sample.a, a_begin, a_end);
    keep(sample.b, b_begin, b_end);
  }

  std::shared_ptr<const Variant> make_variant(int64_t variant) const {
    auto made = std::make_shared<Variant>();
    made->variant = variant;
    const RandomStream draws = pair_draws(variant);
    for (int64_t document = 0; document < corpus_.counts().documents; ++document) {
      const Corpus::Range range = corpus_.document_sentences(document);
      const int64_t aim = target(variant, document);
      for (int64_t at = range.first; at < range.last; at = first_part(draws, at, range.last, aim).next)
        made->starts.push_back(static_cast<uint32_t>(at));
    }
    return made;
  }

  /// Variants are made when first needed; the last two stay (an epoch's end lies in a batch with the next one's begin).
  std::shared_ptr<const Variant> variant_of(int64_t variant) const {
    std::lock_guard lock(mutex_);
    return variant_locked(variant);
  }
  std::shared_ptr<const Variant> variant_locked(int64_t variant) const {
    for (const auto& made : variants_)
      if (made && made->variant == variant) return made;
    std::swap(variants_[0], variants_[1]);
    variants_[0] = make_variant(variant);
    if (sizes_.empty()) sizes_.assign(static_cast<size_t>(options_.variants), 0);
    sizes_[static_cast<size_t>(variant)] = static_cast<int64_t>(variants_[0]->starts.size());
    return variants_[0];
  }
  int64_t size_of_variant(int64_t variant) const {
    std::lock_guard lock(mutex_);
    return size_locked(variant);
  }
  int64_t size_locked(int64_t variant) const {
    if (sizes_.empty() || sizes_[static_cast<size_t>(variant)] == 0) variant_locked(variant);
    return sizes_[static_cast<size_t>(variant)];
  }

  Place locate(int64_t index) const {
    std::lock_guard lock(mutex_);
    Place place{0, index};
    int64_t round = 0;  // samples of all variants, once all are known
    for (int64_t variant = 0;; ++variant) {
      if (variant == options_.variants) {
        place.epoch += place.in_epoch / round * options_.variants;
        place.in_epoch %= round;
        variant = 0;
      }
      const int64_t size = size_locked(variant);
      round += size;
      if (place.in_epoch < size) return place;
      place.in_epoch -= size;
      ++place.epoch;
    }
  }

  Corpus corpus_;
  MaskingVocabulary vocabulary_;
  BertBatchOptions options_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Variant> variants_[2];
  mutable std::vector<int64_t> sizes_;  // by variant; 0: not yet known
};

}  // namespace

std::unique_ptr<SequenceSource> make_nsp_batches(Corpus corpus, MaskingVocabulary vocabulary,
                                                 const BertBatchOptions& options) {
  return std::make_unique<NspSource>(std::move(corpus), std::move(vocabulary), options);
}

}  // namespace ramet::text
