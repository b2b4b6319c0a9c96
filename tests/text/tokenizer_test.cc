#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/rng.h"
#include "ramet/base/thread_team.h"
#include "ramet/text/bpe.h"
#include "ramet/text/unicode.h"
#include "ramet/text/wordpiece.h"
#include "text/temporary_folder.h"
#include "support/errors.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const fs::path kSamples = fs::path(RAMET_SOURCE_DIR) / "tests/samples/data";

std::unique_ptr<WordPieceTokenizer> tiny_wordpiece(WordPieceOptions options = {}) {
  return WordPieceTokenizer::load(kSamples / "tiny-vocab.txt", options);
}
std::unique_ptr<BpeTokenizer> tiny_bpe(BpeOptions options = {}) {
  return BpeTokenizer::load(kSamples / "tiny-vocab.json", kSamples / "tiny-merges.txt", options);
}

/// Random bytes, or text-like bytes that cut words, blanks and broken sequences.
std::string random_bytes(const RandomStream& random, uint64_t base, size_t size) {
  static const std::string_view kParts[] = {
      " ", "  ", "\n", "low", "er", "'s", "é", "日", "\xF0\x9F\x98\x80", "\xC3", "\x80", "12", "…", "\xC2\xA0", "\t"};
  std::string text;
  for (uint64_t i = 0; text.size() < size; ++i) {
    const uint32_t bits = random.bits(base + i);
    if (bits & 1)
      text += static_cast<char>(bits >> 8);
    else
      text += kParts[(bits >> 8) % std::size(kParts)];
  }
  return text;
}

// Expected ids and places are Hugging Face's for the same vocabulary file.
TEST(WordPiece, TinyVocabularyGivesThePeersTokens) {
  const auto tokenizer = tiny_wordpiece();
  EXPECT_THAT(tokenizer->encode("UNaffable, unwanted running."), ElementsAre(6, 7, 8, 16, 6, 9, 12, 14, 15, 17));
  EXPECT_THAT(tokenizer->encode("The lowest Café[MASK]!"), ElementsAre(5, 19, 23, 4, 26));
  EXPECT_THAT(tokenizer->encode("日本 unknownword a's"), ElementsAre(24, 25, 1, 21, 27, 28));
  EXPECT_THAT(tokenizer->encode("the\u0301 loweste runn ing aaa"), ElementsAre(5, 19, 30, 14, 1, 21, 22, 22));
}

TEST(WordPiece, PlacesAreBytesOfTheOriginalText) {
  const auto tokenizer = tiny_wordpiece();
  const std::string text = "The lowest Café[MASK]!";
  const Encoding encoding = tokenizer->encode_with_spans(text);
  EXPECT_THAT(encoding.spans,
              ElementsAre(TokenSpan{0, 3}, TokenSpan{4, 10}, TokenSpan{11, 16}, TokenSpan{16, 22}, TokenSpan{22, 23}));
  EXPECT_THAT(spans_in_characters(text, encoding.spans),
              ElementsAre(TokenSpan{0, 3}, TokenSpan{4, 10}, TokenSpan{11, 15}, TokenSpan{15, 21}, TokenSpan{21, 22}));
}

TEST(WordPiece, SpecialTokensAreTextInACorpus) {
  const auto tokenizer = tiny_wordpiece();
  EXPECT_THAT(tokenizer->encode("the[MASK]", SpecialText::kAsText), ElementsAre(5, 1, 1, 1));
  EXPECT_THAT(tokenizer->encode("the[MASK] [mask]"), ElementsAre(5, 4, 1, 1, 1));
}

TEST(WordPiece, AWordOfMoreThanTheLimitIsUnknown) {
  const auto tokenizer = tiny_wordpiece();
  EXPECT_EQ(tokenizer->encode(std::string(100, 'a')).size(), 100u);
  EXPECT_THAT(tokenizer->encode(std::string(101, 'a') + " a"), ElementsAre(1, 21));
  const Encoding encoding = tokenizer->encode_with_spans(std::string(5000, 'a') + " a");
  EXPECT_THAT(encoding.ids, ElementsAre(1, 21));
  EXPECT_THAT(encoding.spans, ElementsAre(TokenSpan{0, 5000}, TokenSpan{5001, 5002}));
}

TEST(WordPiece, CasedKeepsCaseAndAccents) {
  const auto tokenizer = tiny_wordpiece({.lower_case = false});
  EXPECT_THAT(tokenizer->encode("The the café cafe"), ElementsAre(1, 5, 1, 23));
}

TEST(WordPiece, DecodeJoinsPieces) {
  const auto tokenizer = tiny_wordpiece();
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("unaffable running, the")), "unaffable running , the");
  EXPECT_THAT(error_of([&] { tokenizer->decode(std::vector<int32_t>{31}); }),
              HasSubstr("a token id outside the vocabulary; found 31; expected 0 to 30"));
  EXPECT_TRUE(tokenizer->starts_word(5));
  EXPECT_FALSE(tokenizer->starts_word(7));
}

TEST(WordPiece, RandomBytesNeverFailAndSpansAgreeWithIds) {
  const auto tokenizer = tiny_wordpiece();
  const RandomStream random(1, RandomPurpose::kTest, 0, 0);
  for (uint64_t i = 0; i < 500; ++i) {
    const std::string text = random_bytes(random, i << 20, 1 + i % 200);
    const Encoding encoding = tokenizer->encode_with_spans(text);
    EXPECT_EQ(encoding.ids, tokenizer->encode(text));
    for (const TokenSpan span : encoding.spans) {
      EXPECT_LT(span.begin, span.end);
      EXPECT_LE(span.end, text.size());
    }
  }
}

TEST(WordPiece, AVocabularyWithoutUnknownIsRefused) {
  EXPECT_THAT(error_of([] { WordPieceTokenizer(Vocabulary({"[PAD]", "the"})); }),
              HasSubstr("the vocabulary has no token [UNK], which WordPiece needs"));
}

TEST(WordPiece, SavedAndLoadedItIsTheSame) {
  const TemporaryFolder folder;
  const auto tokenizer =
      tiny_wordpiece({.lower_case = false, .strip_accents = true, .split_cjk = false, .max_word_characters = 50});
  tokenizer->save(folder.path() / "t");
  const auto loaded = load_tokenizer(folder.path() / "t");
  EXPECT_EQ(loaded->kind(), "wordpiece");
  EXPECT_EQ(loaded->hash(), tokenizer->hash());
  EXPECT_NE(loaded->hash(), tiny_wordpiece()->hash());
}

TEST(Bpe, TinyVocabularyGivesThePeersTokens) {
  const auto tokenizer = tiny_bpe();
  EXPECT_THAT(tokenizer->encode("low lower lowest"), ElementsAre(257, 260, 259, 68, 82, 83));
  EXPECT_THAT(tokenizer->encode(" newer lower"), ElementsAre(264, 260));
  EXPECT_THAT(tokenizer->encode(" widow's"), ElementsAre(220, 86, 265, 78, 86, 6, 82));
  EXPECT_THAT(tokenizer->encode("naïve\n\n  low"), ElementsAre(77, 64, 127, 107, 85, 68, 198, 198, 220, 259));
}

TEST(Bpe, ThePatternCutsAsGpt2sDoes) {
  const auto cut = [](std::string_view text) {
    std::string cuts;
    for_each_bpe_word(text, [&](std::string_view word) { cuts += std::string(word) + "|"; });
    return cuts;
  };
  EXPECT_EQ(cut("I'm here, you'll see 's"), "I|'m| here|,| you|'ll| see| '|s|");
  EXPECT_EQ(cut("don't DON'T 'tis"), "don|'t| DON|'|T| '|tis|");
  EXPECT_EQ(cut("a  b   c "), "a| | b|  | c| |");
  EXPECT_EQ(cut("x=1+22;\n\n\ty"), "x|=|1|+|22|;|\n\n|\t|y|");
  EXPECT_EQ(cut(" \n x"), " \n| x|");
  EXPECT_EQ(cut("½²abc٣"), "½²|abc|٣|");
  EXPECT_EQ(cut("a\u3000\u3000b"), "a|\u3000|\u3000|b|");
  EXPECT_EQ(cut("'"), "'|");
}

TEST(Bpe, BytesOfAnyKindComeBack) {
  const auto tokenizer = tiny_bpe();
  const RandomStream random(2, RandomPurpose::kTest, 0, 0);
  for (uint64_t i = 0; i < 1000; ++i) {
    const std::string text = random_bytes(random, i << 20, 1 + i % 300);
    const Encoding encoding = tokenizer->encode_with_spans(text, SpecialText::kAsText);
    EXPECT_EQ(tokenizer->decode(encoding.ids), text);
    EXPECT_EQ(encoding.ids, tokenizer->encode(text, SpecialText::kAsText));
    uint32_t end = 0;
    for (const TokenSpan span : encoding.spans) {
      EXPECT_EQ(span.begin, end);
      end = span.end;
    }
    EXPECT_EQ(end, text.size());
  }
}

TEST(Bpe, LongWordsAreMergedAsShortOnesAre) {
  const auto tokenizer = tiny_bpe();
  std::string word;
  std::vector<int32_t> expected;
  for (int i = 0; i < 5000; ++i) {
    word += "lower";
    expected.insert(expected.end(), {257, 258});
  }
  EXPECT_EQ(tokenizer->encode(word), expected);
}

TEST(Bpe, EndOfTextIsATokenOnlyWhereAsked) {
  const auto tokenizer = tiny_bpe();
  const int32_t end = tokenizer->special().end_of_text;
  ASSERT_EQ(end, tokenizer->vocabulary_size() - 1);
  EXPECT_THAT(tokenizer->encode("low<|endoftext|> low"), ElementsAre(257, end, 259));
  EXPECT_THAT(tokenizer->encode("<|endoftext|>", SpecialText::kAsText), testing::Not(testing::Contains(end)));
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{257, end}), "low<|endoftext|>");
}

TEST(Bpe, PrefixSpace) {
  const auto tokenizer = tiny_bpe({.add_prefix_space = true});
  const Encoding encoding = tokenizer->encode_with_spans("low new");
  EXPECT_THAT(encoding.ids, ElementsAre(259, 263));
  EXPECT_THAT(encoding.spans, ElementsAre(TokenSpan{0, 3}, TokenSpan{3, 7}));
}

TEST(Bpe, SavedAndLoadedItIsTheSame) {
  const TemporaryFolder folder;
  const auto tokenizer = tiny_bpe();
  tokenizer->save(folder.path());
  const auto loaded = load_tokenizer(folder.path());
  EXPECT_EQ(loaded->kind(), "bpe");
  EXPECT_EQ(loaded->hash(), tokenizer->hash());
  EXPECT_EQ(load_tokenizer(folder.path() / "vocab.json")->hash(), tokenizer->hash());
  EXPECT_EQ(load_tokenizer(folder.path() / "merges.txt")->hash(), tokenizer->hash());
}

TEST(Tokenizer, BatchesDoNotDependOnThreads) {
  const auto tokenizer = tiny_wordpiece();
  const RandomStream random(3, RandomPurpose::kTest, 0, 0);
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < 300; ++i) texts.push_back(random_bytes(random, i << 20, i));
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  ThreadTeam one(1), four(4);
  const auto expected = tokenizer->encode_batch(views, one);
  EXPECT_EQ(tokenizer->encode_batch(views, four), expected);
  EXPECT_EQ(expected[250], tokenizer->encode(texts[250]));
}

TEST(Tokenizer, TwoTokenizersInOneThreadDoNotMixTheirWords) {
  const auto a = tiny_wordpiece(), b = std::make_unique<WordPieceTokenizer>(Vocabulary({"[UNK]", "the", "low"}));
  EXPECT_THAT(a->encode("the"), ElementsAre(5));
  EXPECT_THAT(b->encode("the"), ElementsAre(1));
  EXPECT_THAT(a->encode("the"), ElementsAre(5));
}

TEST(Tokenizer, BadFilesAreNamed) {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, std::string_view text) {
    write_file_atomic(folder.path() / name, text);
    return folder.path() / name;
  };
  EXPECT_THAT(error_of([&] { load_tokenizer(folder.path() / "none"); }),
              HasSubstr("none: no tokenizer here; expected a folder"));
  EXPECT_THAT(error_of([&] { load_tokenizer(folder.path()); }),
              HasSubstr("no whole tokenizer here; found none of its files"));
  EXPECT_THAT(error_of([&] { load_tokenizer(write("v1.txt", "[UNK]\na\n\nb\n")); }),
              HasSubstr("v1.txt:3: an empty token"));
  EXPECT_THAT(error_of([&] { load_tokenizer(write("v2.txt", "[UNK]\na\nb\na\n")); }),
              HasSubstr("v2.txt: token 'a' is in the vocabulary twice; found ids 1 and 3"));
  EXPECT_THAT(error_of([&] { load_tokenizer(write("v3.txt", "")); }), HasSubstr("v3.txt: the vocabulary is empty"));
  const fs::path merges = write("merges.txt", "#version: 0.2\nl o\nlo w x\n");
  EXPECT_THAT(error_of([&] { load_tokenizer(folder.path()); }), HasSubstr("found merges without vocab.json"));
  EXPECT_THAT(error_of([&] { load_tokenizer(write("vocab.json", "{\"a\": 0, \"b\": 2}")); }),
              HasSubstr("vocab.json: the id of token 'b' is not of use; found 2; expected each of 0 to 1 once"));
  EXPECT_THAT(error_of([&] { load_tokenizer(write("vocab.json", "[1")); }), HasSubstr("vocab.json: not a vocabulary"));
  fs::copy_file(kSamples / "tiny-vocab.json", folder.path() / "vocab.json", fs::copy_options::overwrite_existing);
  EXPECT_THAT(error_of([&] { load_tokenizer(folder.path()); }), HasSubstr("merges.txt:3: not a merge; found 'lo w x'"));
  write("merges.txt", "l o\nz q\n");
  EXPECT_THAT(
      error_of([&] { load_tokenizer(folder.path()); }),
      HasSubstr("merge 1 ('z' 'q') needs token 'zq', which the vocabulary lacks. Take vocabulary and merges from"));
}

TEST(Unicode, Utf8IsStrict) {
  EXPECT_EQ(find_invalid_utf8("plain ascii text é 日 \xF0\x9F\x98\x80"), std::string::npos);
  for (const std::string_view bad :
       {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82", "\x80", "\xFF", "\xE0\x80\x80"})
    EXPECT_EQ(find_invalid_utf8("12345678" + std::string(bad)), 8u);
  EXPECT_THAT(
      error_of([] { require_utf8("one\ntwo \xFFthree", "text.txt"); }),
      HasSubstr("text.txt:2, byte offset 8: invalid UTF-8; found byte 0xFF; expected UTF-8 text. Convert the file"));
}

// ids and places that Hugging Face's tokenizers gave (samples/data/make_vectors.py), for the published vocabularies.
class PublishedVocabularies : public testing::Test {
 protected:
  void SetUp() override {
    const char* data = std::getenv("RAMET_DATA");
    if (!data || !fs::exists(fs::path(data) / "vocab/bert-base-uncased.txt"))
      GTEST_SKIP() << "RAMET_DATA names no folder with vocab/bert-base-uncased.txt";
    vocab_ = fs::path(data) / "vocab";
  }
  void check(const Tokenizer& tokenizer, const char* name) {
    const auto rows = nlohmann::json::parse(read_file(kSamples / "tokenizer-vectors.json"));
    ASSERT_GT(rows.size(), 250u);
    for (const auto& row : rows) {
      const auto text = row["text"].get<std::string>();
      const Encoding encoding = tokenizer.encode_with_spans(text);
      const auto spans = spans_in_characters(text, encoding.spans);
      auto found = nlohmann::json::array();
      for (size_t i = 0; i < spans.size(); ++i) found.push_back({encoding.ids[i], spans[i].begin, spans[i].end});
      EXPECT_EQ(found, row[name]) << row["text"];
      EXPECT_EQ(tokenizer.encode(text), encoding.ids) << row["text"];
    }
  }
  fs::path vocab_;
};

TEST_F(PublishedVocabularies, BertUncased) { check(*load_tokenizer(vocab_ / "bert-base-uncased.txt"), "uncased"); }
TEST_F(PublishedVocabularies, BertChineseCased) {
  check(*WordPieceTokenizer::load(vocab_ / "bert-base-chinese.txt", {.lower_case = false}), "cased");
}
TEST_F(PublishedVocabularies, Gpt2) { check(*load_tokenizer(vocab_ / "gpt2-encoder.json"), "gpt2"); }

}  // namespace
}  // namespace ramet::tests
