#include "ramet/text/train_vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ramet/text/merge_trainer.h"
#include "text/corpus_samples.h"

namespace ramet::tests {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Merges by counting every pair again before each: slow and plain.
std::vector<std::string> plain_merges(std::map<std::string, int64_t> counts, bool wordpiece, size_t merges,
                                      int64_t least) {
  struct Word {
    std::vector<std::string> symbols;
    int64_t count;
  };
  std::vector<Word> words;
  for (const auto& [text, count] : counts) {
    Word word{{}, count};
    for (size_t i = 0; i < text.size(); ++i) word.symbols.push_back((wordpiece && i ? "##" : "") + text.substr(i, 1));
    words.push_back(word);
  }
  std::vector<std::string> result;
  while (result.size() < merges) {
    std::map<std::pair<std::string, std::string>, int64_t> pairs;
    for (const Word& word : words)
      for (size_t i = 0; i + 1 < word.symbols.size(); ++i) pairs[{word.symbols[i], word.symbols[i + 1]}] += word.count;
    const auto best = std::max_element(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) {
      return a.second < b.second;  // the first among equals is the first in byte order
    });
    if (best == pairs.end() || best->second < least) break;
    const auto [left, right] = best->first;
    const std::string joined = left + (wordpiece ? right.substr(2) : right);
    if (std::find(result.begin(), result.end(), joined) == result.end()) result.push_back(joined);
    for (Word& word : words)
      for (size_t i = 0; i + 1 < word.symbols.size(); ++i)
        if (word.symbols[i] == left && word.symbols[i + 1] == right) {
          word.symbols[i] = joined;
          word.symbols.erase(word.symbols.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        }
  }
  return result;
}

/// Words of a few letters with many repeats ("aaa", "abab"), so that pairs overlap and counts tie.
std::map<std::string, int64_t> random_words(uint64_t seed, int count) {
  const RandomStream random(seed, RandomPurpose::kTest, 0, 0);
  std::map<std::string, int64_t> words;
  uint64_t draw = 0;
  for (int i = 0; i < count; ++i) {
    std::string word;
    const uint32_t length = 1 + random.below(draw++, 9);
    for (uint32_t k = 0; k < length; ++k) word += static_cast<char>('a' + random.below(draw++, 4));
    words[word] += 1 + random.below(draw++, 5);
  }
  return words;
}

TEST(MergeTrainer, AgreesWithCountingAllPairsEachTime) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto counts = random_words(seed, 150);
    for (const bool wordpiece : {false, true}) {
      std::vector<std::string> symbols;
      for (const std::string prefix : {"", "##"})
        if (prefix.empty() || wordpiece)
          for (const char c : std::string("abcd")) symbols.push_back(prefix + c);
      std::vector<TrainingWord> words;
      for (const auto& [text, count] : counts) {
        TrainingWord word{{}, count};
        for (size_t i = 0; i < text.size(); ++i) word.symbols.push_back(text[i] - 'a' + (wordpiece && i ? 4 : 0));
        words.push_back(word);
      }
      const size_t first = symbols.size();
      MergeTrainer trainer(symbols, words, [wordpiece](const std::string& left, const std::string& right) {
        return left + (wordpiece ? right.substr(2) : right);
      });
      trainer.train(static_cast<int64_t>(first) + 80, 2, {});
      const std::vector<std::string> found(trainer.symbols().begin() + static_cast<std::ptrdiff_t>(first),
                                           trainer.symbols().end());
      ASSERT_EQ(found, plain_merges(counts, wordpiece, 80, 2)) << seed;
    }
  }
}

TEST(TrainWordPiece, LearnsTheMostFrequentPairsFirst) {
  const std::string_view text = "low low low low lower lower newest newest newest newest widest, widest! Low";
  TrainWordPieceOptions options;
  options.vocabulary_size = 35;
  const auto tokenizer = train_wordpiece_texts({&text, 1}, options);
  const auto& tokens = tokenizer->vocabulary().tokens();
  EXPECT_THAT(std::vector<std::string>(tokens.begin(), tokens.begin() + 5),
              ElementsAre("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"));
  // 12 characters, 10 of them letters with "##" too, then merges.
  EXPECT_EQ(tokens[5], "!");
  EXPECT_EQ(tokenizer->vocabulary().find("##!"), -1);
  EXPECT_THAT(std::vector<std::string>(tokens.begin() + 27, tokens.end()),
              ElementsAre("##ow", "low", "##es", "##est", "##ew", "##ewest", "newest", "##dest"));
  EXPECT_THAT(tokenizer->encode("Lowest"),
              ElementsAre(tokenizer->vocabulary().find("low"), tokenizer->vocabulary().find("##est")));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("newest low widow!")), "newest low widow !");
}

TEST(TrainBpe, StartsWithGpt2sBytesAndEndsWithTheSpecialToken) {
  const std::string_view text = "low low low low lower lower newest newest newest newest widest widest";
  TrainBpeOptions options;
  options.vocabulary_size = 263;
  const auto tokenizer = train_bpe_texts({&text, 1}, options);
  const auto& tokens = tokenizer->vocabulary().tokens();
  EXPECT_EQ(tokens[0], "!");
  EXPECT_EQ(tokens[255], "\u0143");  // the last of the 256 letters, as in GPT-2
  EXPECT_EQ(tokens[262], "<|endoftext|>");
  EXPECT_EQ(tokenizer->special().end_of_text, 262);
  EXPECT_EQ(tokenizer->merges().size(), 6u);
  EXPECT_EQ(tokenizer->merges()[0], (std::pair<std::string, std::string>("e", "s")));
  EXPECT_EQ(tokenizer->merges()[1], (std::pair<std::string, std::string>("es", "t")));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("any\xFF bytes — é")), "any\xFF bytes — é");
}

TEST(TrainVocabulary, DoesNotDependOnThreads) {
  const TemporaryFolder folder;
  std::string text;
  const RandomStream random(3, RandomPurpose::kTest, 0, 0);
  for (uint64_t draw = 0; text.size() < 1500000;) {  // several pieces for each thread
    const uint32_t length = 1 + random.below(draw++, 6);
    for (uint32_t k = 0; k < length; ++k)
      text += static_cast<char>('a' + random.below(draw, 7) * random.below(draw + 1, 4)), draw += 2;
    text += random.below(draw++, 10) ? " " : "\n";
  }
  write_file_atomic(folder.path() / "a.txt", text);
  write_file_atomic(folder.path() / "b.txt", "Ünïcode 日本語 " + text.substr(0, 1000));
  Hash wordpiece, bpe;
  for (const int threads : {1, 2, 5}) {
    TrainWordPieceOptions w;
    w.vocabulary_size = 600;
    w.threads = threads;
    TrainBpeOptions b;
    b.vocabulary_size = 600;
    b.threads = threads;
    std::vector<std::string> parts;
    w.progress = [&](std::string_view part, int64_t done, int64_t total) {
      EXPECT_LE(done, total);
      if (parts.empty() || parts.back() != part) parts.emplace_back(part);
    };
    const std::vector<std::filesystem::path> files = {folder.path() / "a.txt", folder.path() / "b.txt"};
    const auto one = train_wordpiece(files, w);
    const auto two = train_bpe(files, b);
    EXPECT_THAT(parts, testing::IsSupersetOf({"read", "merge"}));
    EXPECT_EQ(one->vocabulary_size(), 600);
    EXPECT_EQ(two->vocabulary_size(), 600);
    if (threads == 1) wordpiece = one->hash(), bpe = two->hash();
    EXPECT_EQ(one->hash(), wordpiece);
    EXPECT_EQ(two->hash(), bpe);
  }
}

TEST(TrainWordPiece, RareCharactersAreLeftOutAtTheLimit) {
  const std::string_view text = "aaaa bbbb aabb abab caab";
  TrainWordPieceOptions options;
  options.alphabet_limit = 2;
  const auto tokenizer = train_wordpiece_texts({&text, 1}, options);
  EXPECT_EQ(tokenizer->vocabulary().find("c"), -1);
  EXPECT_GE(tokenizer->vocabulary().find("##b"), 0);
  EXPECT_THAT(tokenizer->encode("caab"), ElementsAre(tokenizer->special().unknown));
}

TEST(TrainVocabulary, BadInputIsNamed) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "a.txt";
  TrainWordPieceOptions w;
  TrainBpeOptions b;
  EXPECT_THAT(error_text([&] { train_wordpiece({}, w); }), HasSubstr("no text files given"));
  EXPECT_THAT(error_text([&] { train_bpe({file}, b); }), HasSubstr("a.txt: cannot open the file"));
  write_file_atomic(file, "ok\n\n\x80");
  EXPECT_THAT(error_text([&] { train_bpe({file}, b); }),
              HasSubstr("a.txt:3, byte offset 4: invalid UTF-8; found byte 0x80"));
  write_file_atomic(file, " \n");
  EXPECT_THAT(error_text([&] { train_wordpiece({file}, w); }),
              HasSubstr("a.txt: there is no word to learn a vocabulary from. Check"));
  write_file_atomic(file, "some words");
  w.vocabulary_size = 10;
  EXPECT_THAT(
      error_text([&] { train_wordpiece({file}, w); }),
      HasSubstr("a.txt: the vocabulary is too small; found 10 tokens; expected 19 or more (special tokens and the "
                "alphabet). Raise the size, or lower alphabet_limit"));
  b.vocabulary_size = 256;
  EXPECT_THAT(error_text([&] { train_bpe({file}, b); }),
              HasSubstr("expected 257 or more (256 bytes and the special tokens)"));
}

}  // namespace
}  // namespace ramet::tests
