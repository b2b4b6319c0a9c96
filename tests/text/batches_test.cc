#include "ramet/text/batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "ramet/data/permutation.h"
#include "text/corpus_samples.h"

namespace ramet::tests {
namespace {

using testing::HasSubstr;

std::vector<int32_t> ints(const Batch& batch, std::string_view name) {
  const NamedTensor& tensor = batch.at(name);
  const auto* data = reinterpret_cast<const int32_t*>(tensor.bytes.data());
  return {data, data + tensor.type.elements()};
}

bool same(const Batch& a, const Batch& b) {
  for (size_t i = 0; i < a.tensors.size(); ++i)
    if (a.tensors[i].name != b.tensors[i].name || a.tensors[i].type != b.tensors[i].type ||
        a.tensors[i].bytes != b.tensors[i].bytes)
      return false;
  return a.tensors.size() == b.tensors.size();
}

/// Rows [begin, end) of every tensor of a batch.
Batch rows(const Batch& batch, int64_t begin, int64_t end) {
  Batch part{batch.first_sample + begin, end - begin, {}};
  for (const NamedTensor& tensor : batch.tensors) {
    const size_t row = tensor.bytes.size() / static_cast<size_t>(batch.count);
    auto dims = tensor.type.shape.dims();
    dims[0] = end - begin;
    part.tensors.push_back({tensor.name,
                            {tensor.type.dtype, Shape(dims)},
                            {tensor.bytes.begin() + static_cast<std::ptrdiff_t>(row * static_cast<size_t>(begin)),
                             tensor.bytes.begin() + static_cast<std::ptrdiff_t>(row * static_cast<size_t>(end))}});
  }
  return part;
}

/// Tokens of a sample, as its mask has them.
int32_t length_by_mask(const Source& source, int64_t index) {
  const Batch batch = source.make(index, 1);
  const auto mask = ints(batch, "attention_mask");
  return static_cast<int32_t>(std::count(mask.begin(), mask.end(), 1));
}

/// Any batch is the rows of any other, whoever asks and in whatever order.
void expect_pure(const Source& source, const Source& again, int64_t count) {
  const Batch whole = source.make(0, count);
  EXPECT_TRUE(same(source.make(0, count), whole));
  for (const auto& [first, size] : {std::pair<int64_t, int64_t>{count - 7, 7}, {5, 1}, {0, 3}, {count / 2, count / 4}})
    EXPECT_TRUE(same(again.make(first, size), rows(whole, first, first + size))) << first;
  const auto signature = source.signature(count);
  ASSERT_EQ(signature.size(), whole.tensors.size());
  for (size_t i = 0; i < signature.size(); ++i) {
    EXPECT_EQ(signature[i].first, whole.tensors[i].name);
    EXPECT_EQ(signature[i].second, whole.tensors[i].type);
  }
}

TEST(Permutation, IsABijectionOfEverySize) {
  for (int64_t size = 1; size <= 300; ++size) {
    const Permutation permutation(size, 5, 3, 1);
    std::vector<bool> seen(static_cast<size_t>(size));
    for (int64_t i = 0; i < size; ++i) {
      const int64_t to = permutation(i);
      ASSERT_TRUE(to >= 0 && to < size && !seen[static_cast<size_t>(to)]) << size << " " << i;
      seen[static_cast<size_t>(to)] = true;
    }
  }
  std::vector<bool> seen(100003);
  const Permutation permutation(100003, 5, 3, 1);
  for (int64_t i = 0; i < 100003; ++i) seen[static_cast<size_t>(permutation(i))] = true;
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 100003);
  const Permutation large(int64_t{1} << 40, 1, 1, 1);
  EXPECT_NE(large(1), large(2));
  EXPECT_LT(large(12345), int64_t{1} << 40);
}

TEST(Permutation, DiffersByEpochAndSeedAndMixes) {
  const Permutation a(1000, 1, 0, 1), b(1000, 1, 1, 1), c(1000, 2, 0, 1);
  int same_b = 0, same_c = 0, ascents = 0;
  for (int64_t i = 0; i < 999; ++i) same_b += a(i) == b(i), same_c += a(i) == c(i), ascents += a(i) < a(i + 1);
  EXPECT_LT(same_b, 8);
  EXPECT_LT(same_c, 8);
  EXPECT_NEAR(ascents, 500, 4 * 9.2);  // variance of ascents is (n + 1) / 12
}

TEST(BertBatches, ASampleIsAFunctionOfItsIndex) {
  const SampleCorpus sample(200);
  for (const BertObjective objective : {BertObjective::kMlmNsp, BertObjective::kMlm, BertObjective::kMlmDocuments}) {
    const BertBatchOptions options{
        .objective = objective, .sequence_length = 64, .max_predictions = 10, .variants = 3, .seed = 9};
    const auto source = make_bert_batches(sample.open(), options), again = make_bert_batches(sample.open(), options);
    const int64_t epochs = 5 * source->epoch_samples(0);  // past the end of the variants
    expect_pure(*source, *again, epochs);
    BertBatchOptions other = options;
    other.seed = 10;
    EXPECT_FALSE(same(make_bert_batches(sample.open(), other)->make(0, 8), source->make(0, 8)));
  }
}

TEST(BertBatches, EpochsFollowOneAnother) {
  const SampleCorpus sample(50);
  const auto source = make_bert_batches(sample.open(), {.sequence_length = 32, .max_predictions = 5, .variants = 2});
  int64_t first = 0;
  for (int64_t epoch = 0; epoch < 7; ++epoch) {
    EXPECT_EQ(source->epoch_of(first), epoch);
    if (first > 0) {
      EXPECT_EQ(source->epoch_of(first - 1), epoch - 1);
    }
    EXPECT_EQ(source->epoch_samples(epoch), source->epoch_samples(epoch % 2));
    first += source->epoch_samples(epoch);
  }
}

/// What a row says before it was masked: labels put back.
struct Row {
  std::vector<int32_t> ids, types, attention, original;
  int32_t length, label;
};
std::vector<Row> rows_of(const Batch& batch) {
  const auto ids = ints(batch, "input_ids"), types = ints(batch, "token_type_ids"),
             attention = ints(batch, "attention_mask"), places = ints(batch, "masked_positions"),
             labels = ints(batch, "masked_labels"), next = ints(batch, "next_sentence_label");
  const auto width = ids.size() / static_cast<size_t>(batch.count),
             predictions = places.size() / static_cast<size_t>(batch.count);
  std::vector<Row> result;
  for (size_t r = 0; r < static_cast<size_t>(batch.count); ++r) {
    const auto part = [&](const std::vector<int32_t>& all) {
      return std::vector<int32_t>(all.begin() + static_cast<std::ptrdiff_t>(r * width),
                                  all.begin() + static_cast<std::ptrdiff_t>((r + 1) * width));
    };
    Row row{part(ids), part(types), part(attention), {}, 0, next[r]};
    row.length = std::accumulate(row.attention.begin(), row.attention.end(), 0);
    row.original = row.ids;
    for (size_t k = r * predictions; k < (r + 1) * predictions; ++k)
      if (labels[k] >= 0) row.original[static_cast<size_t>(places[k])] = labels[k];
    result.push_back(std::move(row));
  }
  return result;
}

TEST(BertBatches, MaskingFollowsBert) {
  constexpr int kWords = 5000;
  const SampleCorpus sample(2000, kWords);
  const BertBatchOptions options{.sequence_length = 128, .max_predictions = 20, .seed = 3};
  const auto source = make_bert_batches(sample.open(), options);
  const Batch batch = source->make(0, 1500);
  const auto places = ints(batch, "masked_positions"), labels = ints(batch, "masked_labels"),
             ids = ints(batch, "input_ids");
  const auto all = rows_of(batch);
  double masked = 0, shown_mask = 0, kept = 0, random = 0;
  std::vector<double> by_place(8);
  for (size_t r = 0; r < all.size(); ++r) {
    int32_t number = 0, before = -1;
    bool ended = false;
    for (size_t k = r * 20; k < (r + 1) * 20; ++k) {
      if (labels[k] < 0) {
        EXPECT_EQ(places[k], 0);
        ended = true;
        continue;
      }
      ASSERT_FALSE(ended);
      ASSERT_GT(places[k], before);
      before = places[k];
      ASSERT_LT(places[k], all[r].length);
      const int32_t shown = ids[r * 128 + static_cast<size_t>(places[k])];
      ASSERT_NE(labels[k], 2);  // [CLS]
      ASSERT_NE(labels[k], 3);  // [SEP]
      ++number;
      (shown == 4 ? shown_mask : shown == labels[k] ? kept : random) += 1;
      by_place[static_cast<size_t>(places[k] * 8 / all[r].length)] += 1;
    }
    ASSERT_EQ(number, std::min(20, std::max(1, static_cast<int>(std::nearbyint(0.15 * all[r].length)))));
    masked += number;
  }
  const auto within = [&](double count, double share) {
    EXPECT_NEAR(count, masked * share, 4 * std::sqrt(masked * share * (1 - share)));
  };
  within(shown_mask, 0.8);
  within(kept, 0.1);
  within(random, 0.1);
  for (const double count : by_place) EXPECT_NEAR(count / masked, 0.125, 0.02);
}

TEST(BertBatches, WholeWordsAreMaskedTogether) {
  const SampleCorpus sample(300);
  const auto source = make_bert_batches(sample.open(), {.sequence_length = 64,
                                                        .max_predictions = 12,
                                                        .mask_token_share = 1,
                                                        .random_token_share = 0,
                                                        .whole_word = true});
  const Batch batch = source->make(0, 300);
  int words = 0;
  for (const Row& row : rows_of(batch))
    for (size_t p = 1; p < static_cast<size_t>(row.length); ++p)
      if (row.original[p] == 5 && row.original[p - 1] > 5) {  // "##x" after its word
        ++words;
        EXPECT_EQ(row.ids[p] == 4, row.ids[p - 1] == 4);
      }
  EXPECT_GT(words, 100);
}

TEST(BertBatches, PairsHaveBertsForm) {
  const SampleCorpus sample(1500, 500);
  const Corpus corpus = sample.open();
  const auto source = make_bert_batches(corpus, {.sequence_length = 48, .max_predictions = 7, .seed = 1});
  const int64_t count = source->epoch_samples(0);
  const auto all = rows_of(source->make(0, count));
  // Every document as one run of tokens, to find segments in.
  std::vector<std::vector<int32_t>> documents;
  std::map<std::array<int32_t, 4>, std::set<size_t>> where;
  for (int64_t d = 0; d < corpus.counts().documents; ++d) {
    auto& tokens = documents.emplace_back();
    corpus.append_document_part(d, 0, corpus.document_tokens(d), tokens);
    for (size_t i = 0; i + 4 <= tokens.size(); ++i)
      where[{tokens[i], tokens[i + 1], tokens[i + 2], tokens[i + 3]}].insert(documents.size() - 1);
  }
  int random_next = 0, checked = 0, full = 0;
  for (const Row& row : all) {
    const auto length = static_cast<size_t>(row.length);
    ASSERT_EQ(row.original[0], 2);
    ASSERT_EQ(row.original[length - 1], 3);
    const auto a_end =
        static_cast<size_t>(std::find(row.original.begin(), row.original.end(), 3) - row.original.begin());
    ASSERT_GT(a_end, 1u);
    ASSERT_LT(a_end + 1, length - 1);  // a second segment with a token
    for (size_t p = 0; p < row.ids.size(); ++p) {
      ASSERT_EQ(row.types[p], p > a_end && p < length);
      ASSERT_EQ(row.attention[p], p < length);
      if (p >= length) {
        ASSERT_EQ(row.ids[p], 0);
      }
    }
    random_next += row.label;
    full += length == 48;
    const size_t b_size = length - 2 - a_end;
    if (a_end < 5 || b_size < 4) continue;
    const auto tuple = [&](size_t p) {
      return std::array<int32_t, 4>{row.original[p], row.original[p + 1], row.original[p + 2], row.original[p + 3]};
    };
    const auto &a = where.at(tuple(1)), &b = where.at(tuple(a_end + 1));
    if (a.size() > 1 || b.size() > 1) continue;
    ++checked;
    EXPECT_EQ(*a.begin() != *b.begin(), row.label == 1);
  }
  EXPECT_GT(checked, count / 3);
  // A chunk of one sentence always takes a random next, so the share is above one half.
  EXPECT_GT(random_next, count / 2);
  EXPECT_LT(random_next, count * 9 / 10);
  EXPECT_GT(full, count / 2);
}

TEST(BertBatches, EverySentenceOpensInSomePair) {
  // Without random next and with long sequences a document is one pair: all tokens are there.
  const SampleCorpus sample(100, 500, {}, 7, 4, 6);
  const auto source = make_bert_batches(
      sample.open(), {.sequence_length = 96, .max_predictions = 5, .short_sequence_share = 0, .random_next_share = 0});
  int64_t tokens = 0, single = 0;
  for (const Row& row : rows_of(source->make(0, source->epoch_samples(0)))) {
    if (row.label == 0)
      tokens += row.length - 3;
    else
      ++single;
  }
  int64_t expected = 0;
  for (int64_t d = 0; d < sample.open().counts().documents; ++d) {
    const auto range = sample.open().document_sentences(d);
    if (range.last - range.first > 1)
      expected += sample.open().document_tokens(d);
    else
      --single;
  }
  EXPECT_EQ(tokens, expected);
  EXPECT_EQ(single, 0);
}

TEST(BertBatches, PackedSequencesHoldEachTokenOnceAnEpoch) {
  const SampleCorpus sample(80);
  const Corpus corpus = sample.open();
  const auto source =
      make_bert_batches(corpus, {.objective = BertObjective::kMlm, .sequence_length = 32, .max_predictions = 5});
  const int64_t count = source->epoch_samples(0);
  EXPECT_EQ(count, (corpus.counts().tokens + corpus.counts().documents) / 30);
  std::map<int32_t, int64_t> packed, stored;
  for (const Row& row : rows_of(source->make(count, count))) {  // the second epoch
    EXPECT_EQ(row.length, 32);
    EXPECT_EQ(row.label, -1);
    for (size_t p = 1; p < 31; ++p) ++packed[row.original[p]];
  }
  std::vector<int32_t> tokens;
  for (int64_t s = 0; s < corpus.counts().sentences; ++s) corpus.append_sentence(s, tokens);
  for (const int32_t token : tokens) ++stored[token];
  stored[3] = corpus.counts().documents;
  int64_t lost = 0;
  for (const auto& [token, times] : stored) {
    EXPECT_LE(packed[token], times) << token;
    lost += times - packed[token];
  }
  EXPECT_EQ(lost, (corpus.counts().tokens + corpus.counts().documents) % 30);  // the end of the stream
}

TEST(CausalBatches, BlocksAreTheShuffledDocuments) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += "document " + std::to_string(i) + " lower newer " + std::to_string(i * i) + "\n\n";
  write_file_atomic(folder.path() / "a.txt", text);
  const auto tokenizer = load_tokenizer(kDataSamples / "tiny-vocab.json");
  build_corpus({folder.path() / "a.txt"}, *tokenizer, folder.path() / "corpus");
  const Corpus corpus = Corpus::open(folder.path() / "corpus");
  const CausalBatchOptions options{.sequence_length = 16, .seed = 4};
  const auto source = make_causal_batches(corpus, options);
  expect_pure(*source, *make_causal_batches(corpus, options), 3 * source->epoch_samples(0) + 5);
  // In order, the blocks of an epoch are all the documents.
  const auto ordered = make_causal_batches(corpus, {.sequence_length = 16, .shuffle = false});
  const int64_t count = ordered->epoch_samples(0);
  const Batch batch = ordered->make(0, count);
  const auto ids = ints(batch, "input_ids"), labels = ints(batch, "labels");
  EXPECT_TRUE(std::equal(ids.begin() + 1, ids.end(), labels.begin()));
  const std::string decoded = tokenizer->decode(ids);
  EXPECT_TRUE(decoded.starts_with("document 0 lower newer 0<|endoftext|>document 1 lower newer 1<|endoftext|>"));
  // Shuffled, each document comes once, whole but where a block's edge cuts it.
  const auto shuffled = ints(source->make(count, count), "input_ids");
  EXPECT_NE(shuffled, ids);
  int64_t ends = 0;
  for (const int32_t id : shuffled) ends += id == tokenizer->special().end_of_text;
  EXPECT_GE(ends, 38);
  EXPECT_LE(ends, 40);
}

TEST(CausalBatches, ColumnsAreTextsThatGoOn) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 40; ++i) text += "document " + std::to_string(i) + " lower newer\n\n";
  write_file_atomic(folder.path() / "a.txt", text);
  build_corpus({folder.path() / "a.txt"}, *load_tokenizer(kDataSamples / "tiny-vocab.json"), folder.path() / "corpus");
  const Corpus corpus = Corpus::open(folder.path() / "corpus");
  for (const bool shuffle : {false, true}) {
    const CausalBatchOptions options{.sequence_length = 6, .shuffle = shuffle, .seed = 4, .columns = 3};
    const auto source = make_causal_batches(corpus, options);
    const int64_t samples = source->epoch_samples(0), windows = samples / 3;
    ASSERT_EQ(samples % 3, 0);
    ASSERT_GT(windows, 5);
    expect_pure(*source, *make_causal_batches(corpus, options), 2 * samples + 5);
    const auto ids = ints(source->make(0, samples), "input_ids"), labels = ints(source->make(0, samples), "labels");
    for (int64_t i = 0; i + 3 < samples; ++i)
      EXPECT_EQ(labels[static_cast<size_t>(6 * i + 5)], ids[static_cast<size_t>(6 * (i + 3))]) << "sample " << i;
    // Column after column, the samples are the text.
    std::vector<int32_t> joined;
    for (int64_t column = 0; column < 3; ++column)
      for (int64_t window = 0; window < windows; ++window)
        for (int64_t t = 0; t < 6; ++t) joined.push_back(ids[static_cast<size_t>(6 * (3 * window + column) + t)]);
    const auto whole = make_causal_batches(corpus, {.sequence_length = 6, .shuffle = false});
    if (!shuffle) EXPECT_EQ(joined, ints(whole->make(0, samples), "input_ids"));
    EXPECT_NE(source->identity(),
              make_causal_batches(corpus, {.sequence_length = 6, .shuffle = shuffle, .seed = 4})->identity());
  }
  EXPECT_THROW(make_causal_batches(corpus, {.sequence_length = 6, .columns = 1000}), Error);
}

TEST(CausalBatches, AShortCorpusIsPadded) {
  const TemporaryFolder folder;
  write_file_atomic(folder.path() / "a.txt", "low lower");
  build_corpus({folder.path() / "a.txt"}, *load_tokenizer(kDataSamples / "tiny-vocab.json"), folder.path() / "corpus");
  const auto source = make_causal_batches(Corpus::open(folder.path() / "corpus"), {.sequence_length = 5});
  EXPECT_EQ(source->epoch_samples(0), 1);
  EXPECT_THAT(ints(source->make(3, 1), "input_ids"), testing::ElementsAre(257, 260, 268, 268, 268));
  EXPECT_THAT(ints(source->make(3, 1), "labels"), testing::ElementsAre(260, 268, -1, -1, -1));
}

/// The n-th token is about as frequent as 1/n: alike from one power of two to the next, which are.
TEST(SyntheticBatches, AreFullAndAsFrequentAsWords) {
  const BertBatchOptions bert{.sequence_length = 32, .max_predictions = 5, .seed = 2};
  const auto source = make_synthetic_bert_batches(100, bert);
  expect_pure(*source, *make_synthetic_bert_batches(100, bert), 64);
  std::vector<double> times(100);
  double labels = 0;
  for (const Row& row : rows_of(source->make(int64_t{5} << 33, 1000))) {
    ASSERT_EQ(row.length, 32);
    ASSERT_EQ(std::count(row.original.begin(), row.original.end(), 3), 2);
    for (const int32_t id : row.original) ++times[static_cast<size_t>(id)];
    labels += row.label;
  }
  for (int rank = 1; rank <= 95; ++rank) {
    const int octave = std::bit_width(static_cast<unsigned>(rank)) - 1, least = 1 << octave;
    const double expected = 29000 / 7.0 / (std::min(2 * least - 1, 95) - least + 1);
    EXPECT_NEAR(times[static_cast<size_t>(rank + 4)], expected, 5 * std::sqrt(expected)) << rank;
  }
  EXPECT_NEAR(labels, 500, 4 * 15.8);
  const auto causal = make_synthetic_causal_batches(64, {.sequence_length = 16, .seed = 2});
  expect_pure(*causal, *make_synthetic_causal_batches(64, {.sequence_length = 16, .seed = 2}), 64);
  const Batch batch = causal->make(7, 2);
  const auto ids = ints(batch, "input_ids"), next = ints(batch, "labels");
  EXPECT_TRUE(std::equal(ids.begin() + 1, ids.begin() + 16, next.begin()));
  EXPECT_EQ(causal->epoch_samples(0), 0);
}

TEST(Batches, BadOptionsAndCorporaAreNamed) {
  const SampleCorpus sample(3);
  const auto bert = [&](BertBatchOptions options) {
    return error_text([&] { make_bert_batches(sample.open(), options); });
  };
  EXPECT_THAT(bert({.sequence_length = 4}),
              HasSubstr("data option sequence_length is out of range; found 4; expected 8 to"));
  EXPECT_THAT(bert({.sequence_length = 16, .max_predictions = 20}),
              HasSubstr("max_predictions is out of range; found 20; expected 1 to 16"));
  EXPECT_THAT(bert({.masked_share = 1.5}), HasSubstr("masked_share is out of range; found 1.5; expected 0 to 1"));
  EXPECT_THAT(
      error_text([&] { make_causal_batches(sample.open(), {}); }),
      HasSubstr(
          "the vocabulary has no token <|endoftext|>, which causal language modelling needs; found 506 tokens of kind "
          "wordpiece; expected <|endoftext|> among them. Train a vocabulary"));
  EXPECT_THAT(error_text([&] { make_synthetic_bert_batches(3, {}); }),
              HasSubstr("the vocabulary is too small for synthetic data"));
  const SampleCorpus single(1);
  EXPECT_THAT(
      error_text([&] { make_bert_batches(single.open(), {}); }),
      HasSubstr("next-sentence prediction takes sentences from two documents; found 1 document; expected 2 or more"));
  const TemporaryFolder folder;
  write_file_atomic(folder.path() / "a.txt", "low\n\nlower");
  build_corpus({folder.path() / "a.txt"}, WordPieceTokenizer(Vocabulary({"[UNK]", "[PAD]", "[CLS]", "[SEP]", "low"})),
               folder.path() / "corpus");
  EXPECT_THAT(error_text([&] { make_bert_batches(Corpus::open(folder.path() / "corpus"), {}); }),
              HasSubstr("the vocabulary has no token [MASK], which BERT's pretraining needs"));
  const auto source = make_synthetic_causal_batches(10, {.sequence_length = 4});
  EXPECT_THAT(error_text([&] { source->make(-1, 2); }),
              HasSubstr("a batch of samples that cannot be; found 2 samples from -1"));
  EXPECT_THAT(error_text([&] { source->make(0, 1).at("input_idz"); }),
              HasSubstr("a batch has no tensor 'input_idz'; expected one of input_ids, labels"));
}

/// What packed rows hold: for each sequence its tensors as an unpacked row has them.
struct Sequence {
  std::vector<int32_t> ids, types, places, labels;
  int32_t next;
  friend bool operator==(const Sequence&, const Sequence&) = default;
  friend auto operator<=>(const Sequence&, const Sequence&) = default;
};

std::vector<Sequence> sequences_of_rows(const Batch& batch) {
  std::vector<Sequence> result;
  const auto ids = ints(batch, "input_ids"), types = ints(batch, "token_type_ids"),
             mask = ints(batch, "attention_mask"), places = ints(batch, "masked_positions"),
             labels = ints(batch, "masked_labels"), next = ints(batch, "next_sentence_label");
  const size_t count = next.size(), width = ids.size() / count, words = places.size() / count;
  for (size_t row = 0; row < count; ++row) {
    Sequence sequence{{}, {}, {}, {}, next[row]};
    for (size_t i = row * width; i < (row + 1) * width && mask[i] != 0; ++i)
      sequence.ids.push_back(ids[i]), sequence.types.push_back(types[i]);
    for (size_t i = row * words; i < (row + 1) * words; ++i)
      if (labels[i] >= 0) sequence.places.push_back(places[i]), sequence.labels.push_back(labels[i]);
    result.push_back(std::move(sequence));
  }
  return result;
}

/// The same of packed rows; each row is looked at on the way.
std::vector<Sequence> sequences_of_packs(const Batch& batch, size_t depth) {
  std::vector<Sequence> result;
  const auto ids = ints(batch, "input_ids"), types = ints(batch, "token_type_ids"),
             segments = ints(batch, "segment_ids"), positions = ints(batch, "position_ids"),
             places = ints(batch, "masked_positions"), labels = ints(batch, "masked_labels"),
             firsts = ints(batch, "first_positions"), next = ints(batch, "next_sentence_label");
  const size_t count = firsts.size() / depth, width = ids.size() / count, words = places.size() / count;
  for (size_t row = 0; row < count; ++row) {
    size_t at = 0, word = row * words;
    for (size_t s = 0; s < depth; ++s) {
      const size_t begin = at;
      Sequence sequence{{}, {}, {}, {}, next[row * depth + s]};
      for (; at < width && segments[row * width + at] == static_cast<int32_t>(s + 1); ++at) {
        EXPECT_EQ(positions[row * width + at], static_cast<int32_t>(at - begin));
        sequence.ids.push_back(ids[row * width + at]), sequence.types.push_back(types[row * width + at]);
      }
      if (at == begin) {  // no more sequences: neither labels nor places
        EXPECT_EQ(sequence.next, -1);
        EXPECT_EQ(firsts[row * depth + s], 0);
        continue;
      }
      EXPECT_EQ(firsts[row * depth + s], static_cast<int32_t>(begin));
      for (; word < (row + 1) * words && labels[word] >= 0 && places[word] < static_cast<int32_t>(at); ++word) {
        sequence.places.push_back(places[word] - static_cast<int32_t>(begin));
        sequence.labels.push_back(labels[word]);
      }
      result.push_back(std::move(sequence));
    }
    for (; word < (row + 1) * words; ++word) EXPECT_EQ(labels[word], -1);
    for (; at < width; ++at)
      EXPECT_EQ(segments[row * width + at] + ids[row * width + at] + types[row * width + at], 0) << row << ' ' << at;
  }
  return result;
}

TEST(PackedBatches, AnEpochHoldsItsSamplesOnceEach) {
  const SampleCorpus sample(150, 500, {}, 7, 4, 20);
  for (const BertObjective objective : {BertObjective::kMlmNsp, BertObjective::kMlmDocuments}) {
    const BertBatchOptions options{
        .objective = objective, .sequence_length = 64, .max_predictions = 10, .variants = 2, .seed = 9};
    const std::shared_ptr<const SequenceSource> samples = make_bert_batches(sample.open(), options);
    for (const auto& [algorithm, depth] : {std::pair{PackingAlgorithm::kLpfhp, int64_t{3}},
                                           {PackingAlgorithm::kNnlshp, int64_t{2}},
                                           {PackingAlgorithm::kSpfhp, int64_t{8}}}) {
      const PackedBatchOptions packing{.algorithm = algorithm,
                                       .depth = depth,
                                       .sequence_length = 64,
                                       .max_predictions = static_cast<int32_t>(10 + depth),
                                       .seed = 9};
      const auto packed = make_packed_batches(samples, packing), again = make_packed_batches(samples, packing);
      expect_pure(*packed, *again, 3 * packed->epoch_samples(0));
      int64_t row = 0, first = 0;
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        const int64_t rows = packed->epoch_samples(epoch), count = samples->epoch_samples(epoch);
        EXPECT_EQ(packed->epoch_of(row), epoch);
        EXPECT_LT(rows, count * 4 / 5);
        auto found = sequences_of_packs(packed->make(row, rows), static_cast<size_t>(depth));
        auto expected = sequences_of_rows(samples->make(first, count));
        std::sort(found.begin(), found.end());
        std::sort(expected.begin(), expected.end());
        EXPECT_TRUE(found == expected) << epoch;
        row += rows;
        first += count;
      }
    }
  }
}

TEST(PackedBatches, KnowsLengthsWithoutMakingSamples) {
  const SampleCorpus sample(60);
  for (const BertObjective objective : {BertObjective::kMlmNsp, BertObjective::kMlm, BertObjective::kMlmDocuments}) {
    const auto source = make_bert_batches(
        sample.open(), {.objective = objective, .sequence_length = 48, .max_predictions = 10, .variants = 2});
    for (int64_t i = 0; i < 300; ++i)
      ASSERT_EQ(source->sample_length(i), length_by_mask(*source, i)) << static_cast<int>(objective) << i;
  }
  const auto varied = make_synthetic_bert_batches(100, {.sequence_length = 64, .vary_lengths = true});
  std::set<int32_t> lengths;
  for (int64_t i = 0; i < 1000; ++i) {
    const int32_t length = varied->sample_length(i);
    ASSERT_EQ(length, length_by_mask(*varied, i));
    ASSERT_TRUE(length >= 8 && length <= 64);
    lengths.insert(length);
  }
  EXPECT_EQ(lengths.size(), 57u);
  EXPECT_EQ(make_synthetic_bert_batches(100, {.sequence_length = 64})->sample_length(3), 64);
}

TEST(PackedBatches, PacksWithoutEpochsToo) {
  const std::shared_ptr<const SequenceSource> samples =
      make_synthetic_bert_batches(100, {.sequence_length = 32, .max_predictions = 5, .vary_lengths = true});
  const PackedBatchOptions options{.sequence_length = 32, .max_predictions = 8};
  const auto packed = make_packed_batches(samples, options), again = make_packed_batches(samples, options);
  EXPECT_EQ(packed->epoch_samples(0), 0);
  EXPECT_EQ(packed->epoch_of(123456), 0);
  expect_pure(*packed, *again, 5000);
}

TEST(PackedBatches, RefusesADepthThatCannotBe) {
  const std::shared_ptr<const SequenceSource> samples =
      make_synthetic_bert_batches(100, {.sequence_length = 32, .max_predictions = 5});
  for (const int64_t depth : {0, -1, 33})
    EXPECT_THAT(error_text([&] { make_packed_batches(samples, {.depth = depth, .sequence_length = 32}); }),
                testing::AllOf(HasSubstr("the depth of packing is out of range"), HasSubstr(std::to_string(depth)),
                               HasSubstr("1 to 32 sequences a row")));
}

}  // namespace
}  // namespace ramet::tests
