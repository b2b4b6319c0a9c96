#include "ramet/text/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "ramet/text/sentences.h"
#include "text/corpus_samples.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> sentences_of(std::string_view text, SentenceRule rule, bool keep_space, int blank_lines = 1) {
  std::vector<std::string> sentences;
  SentenceSplitter splitter;
  for (const TextRange document : find_documents(text, blank_lines)) {
    sentences.push_back("#");
    for (const TextRange part : cut_document(text, document, rule, 1))
      for_each_sentence(text, document, part, rule, keep_space, splitter,
                        [&](std::string_view sentence) { sentences.emplace_back(sentence); });
  }
  return sentences;
}

std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files[fs::relative(entry.path(), folder).string()] = read_file(entry.path());
  return files;
}

TEST(Sentences, LinesAndDocuments) {
  const std::string text = "\xEF\xBB\xBF\n  One. Two.\r\nThree\n \t\n\nFour\n";
  EXPECT_THAT(sentences_of(text, SentenceRule::kLines, false), ElementsAre("#", "One. Two.", "Three", "#", "Four"));
  EXPECT_THAT(sentences_of(text, SentenceRule::kSplitLines, false),
              ElementsAre("#", "One.", "Two.", "Three", "#", "Four"));
  EXPECT_THAT(sentences_of(text, SentenceRule::kLines, false, 0), ElementsAre("#", "One. Two.", "Three", "Four"));
  EXPECT_THAT(sentences_of(text, SentenceRule::kLines, false, 3), ElementsAre("#", "One. Two.", "Three", "Four"));
  EXPECT_THAT(sentences_of(" \n\n", SentenceRule::kLines, false), ElementsAre());
}

TEST(Sentences, ProseIsJoinedOverLinesAndSplit) {
  const std::string text = "Call me Ishmael. Some years\nago, Mr. Smith asked: \"Why?\" He\nsmiled.\n\nA new paragraph";
  EXPECT_THAT(sentences_of(text, SentenceRule::kProse, false, 2),
              ElementsAre("#", "Call me Ishmael.", "Some years ago, Mr. Smith asked: \"Why?\"", "He smiled.",
                          "A new paragraph"));
  EXPECT_THAT(sentences_of(text, SentenceRule::kProse, true, 2),
              ElementsAre("#", "Call me Ishmael.", " Some years ago, Mr. Smith asked: \"Why?\"", " He smiled.",
                          "\n\nA new paragraph"));
}

TEST(Sentences, WithTheirBlanksTheyAreTheDocument) {
  const std::string text = "  One.  Two. \n\n\tThree.\n Four";
  std::string joined;
  for (const auto& sentence : sentences_of(text, SentenceRule::kSplitLines, true, 2))
    if (sentence != "#") joined += sentence;
  EXPECT_EQ(joined, "One.  Two. \n\n\tThree.\n Four");
}

TEST(Corpus, HoldsTheTokensOfItsTexts) {
  const TemporaryFolder folder;
  write_file_atomic(folder.path() / "a.txt", "w1 w2 w5x\nw3\n\nw4 nothing\n");
  write_file_atomic(folder.path() / "b.txt", "\n\nw9\n[MASK]\n");
  const CorpusSummary summary =
      build_corpus({folder.path() / "a.txt", folder.path() / "b.txt"}, *word_tokenizer(10), folder.path() / "corpus/");
  EXPECT_EQ(summary.train, (CorpusCounts{3, 5, 11}));
  EXPECT_EQ(summary.unknown_tokens, 4);  // nothing [ MASK ]
  const Corpus corpus = Corpus::open(folder.path() / "corpus");
  EXPECT_EQ(corpus.counts(), summary.train);
  EXPECT_EQ(corpus.document_sentences(1).first, 2);
  EXPECT_EQ(corpus.document_sentences(1).last, 3);
  EXPECT_EQ(corpus.document_of_sentence(4), 2);
  EXPECT_EQ(corpus.document_tokens(0), 5);
  std::vector<int32_t> tokens;
  corpus.append_sentence(0, tokens);
  EXPECT_THAT(tokens, ElementsAre(7, 8, 11, 5));
  tokens.clear();
  corpus.append_document_part(0, 3, 5, tokens);
  EXPECT_THAT(tokens, ElementsAre(5, 9));
  EXPECT_EQ(corpus.tokenizer().hash(), word_tokenizer(10)->hash());
}

TEST(Corpus, ByteLevelDocumentsComeBackAsTheyWere) {
  const TemporaryFolder folder;
  const std::string text = "Low  lower.\nThe newest. And more!  Yes\n\nsecond  document's";
  write_file_atomic(folder.path() / "a.txt", text);
  const auto tokenizer = load_tokenizer(kDataSamples / "tiny-vocab.json");
  for (const SentenceRule rule : {SentenceRule::kLines, SentenceRule::kSplitLines}) {
    build_corpus({folder.path() / "a.txt"}, *tokenizer, folder.path() / "corpus", {.sentences = rule, .replace = true});
    const Corpus corpus = Corpus::open(folder.path() / "corpus");
    ASSERT_EQ(corpus.counts().documents, 2);
    std::vector<int32_t> tokens;
    corpus.append_document_part(0, 0, corpus.document_tokens(0), tokens);
    EXPECT_EQ(tokens, tokenizer->encode(text.substr(0, text.find("\n\n"))));
    EXPECT_EQ(corpus.document_sentences(0).last, rule == SentenceRule::kLines ? 2 : 4);
  }
}

TEST(Corpus, BytesDoNotDependOnThreads) {
  const TemporaryFolder folder;
  write_file_atomic(folder.path() / "a.txt", random_text(3000, 70000, 1));
  std::map<std::string, std::string> expected;
  for (const int threads : {1, 2, 5}) {
    const fs::path place = folder.path() / std::to_string(threads);
    build_corpus({folder.path() / "a.txt"}, *word_tokenizer(70000), place,
                 {.heldout = 0.1, .shard_bytes = 200000, .threads = threads});
    const auto files = files_of(place);
    if (threads == 1) expected = files;
    EXPECT_GT(files.size(), 6u);  // more than one shard
    EXPECT_EQ(files, expected);
  }
}

TEST(Corpus, ManyShardsReadAsOne) {
  BuildCorpusOptions options;
  const SampleCorpus whole(300, 500, options);
  options.shard_bytes = 1000;
  const SampleCorpus cut(300, 500, options);
  const Corpus a = whole.open(), b = cut.open();
  ASSERT_EQ(a.counts(), b.counts());
  EXPECT_NE(a.hash(), b.hash());
  for (int64_t d = 0; d < a.counts().documents; ++d) {
    ASSERT_EQ(a.document_tokens(d), b.document_tokens(d));
    ASSERT_EQ(a.document_sentences(d).first, b.document_sentences(d).first);
  }
  for (int64_t s = 0; s < a.counts().sentences; ++s) {
    std::vector<int32_t> x, y;
    a.append_sentence(s, x);
    b.append_sentence(s, y);
    ASSERT_EQ(x, y);
    ASSERT_EQ(static_cast<int64_t>(x.size()), b.sentence_length(s));
    ASSERT_EQ(a.document_of_sentence(s), b.document_of_sentence(s));
  }
}

TEST(Corpus, HeldOutDocumentsAreChosenByTheirText) {
  const SampleCorpus sample(2000, 500, {.heldout = 0.1});
  EXPECT_EQ(sample.summary.train.documents + sample.summary.heldout.documents, 2000);
  EXPECT_NEAR(static_cast<double>(sample.summary.heldout.documents), 200, 4 * 13.4);
  EXPECT_EQ(sample.open("heldout").counts(), sample.summary.heldout);
  const SampleCorpus other(2000, 500, {.heldout = 0.1, .heldout_seed = 1});
  EXPECT_NE(other.open("heldout").hash(), sample.open("heldout").hash());
  // A small share of few documents still holds one out, and leaves one to train on.
  const SampleCorpus small(2, 500, {.heldout = 1e-9});
  EXPECT_EQ(small.summary.heldout.documents, 1);
  const SampleCorpus most(3, 500, {.heldout = 0.999999999});
  EXPECT_EQ(most.summary.train.documents, 1);
}

TEST(Corpus, BadTextsAreNamedAndNothingIsLeft) {
  const TemporaryFolder folder;
  const auto tokenizer = word_tokenizer(10);
  const fs::path text = folder.path() / "a.txt", place = folder.path() / "corpus";
  const auto build = [&](BuildCorpusOptions options = {}) {
    return error_text([&] { build_corpus({text}, *tokenizer, place, options); });
  };
  EXPECT_THAT(build(), HasSubstr("a.txt: cannot open the file"));
  write_file_atomic(text, "w1\nw2 \xC3\x28\n");
  EXPECT_THAT(build(),
              HasSubstr("a.txt:2, byte offset 6: invalid UTF-8; found byte 0xC3; expected UTF-8 text. Convert"));
  write_file_atomic(text, " \n\n\t");
  EXPECT_THAT(build(), HasSubstr("a.txt: the corpus is empty: no visible character in it"));
  write_file_atomic(text, "");
  EXPECT_THAT(build(), HasSubstr("the corpus is empty"));
  write_file_atomic(text, "\u200b\n");
  EXPECT_THAT(build(), HasSubstr("the corpus is empty: no document gave a token"));
  write_file_atomic(text, "w1 w2\n");
  EXPECT_THAT(build({.heldout = 0.5}), HasSubstr("one document cannot be split into training and held-out text"));
  EXPECT_THAT(build({.heldout = 1.5}), HasSubstr("the held-out share is out of range; found 1.5"));
  EXPECT_THAT(error_text([&] { Corpus::open(place); }), HasSubstr("no corpus here (no manifest.json). Build one"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
  EXPECT_EQ(build(), "no error");
  EXPECT_THAT(build(), HasSubstr("corpus: there is something here already"));
  EXPECT_THAT(error_text([&] { Corpus::open(place, "heldout"); }),
              HasSubstr("the corpus has no split 'heldout'; expected train"));
}

TEST(Corpus, AFailedBuildKeepsTheOldCorpus) {
  const TemporaryFolder folder;
  const auto tokenizer = word_tokenizer(10);
  const fs::path text = folder.path() / "a.txt", place = folder.path() / "corpus";
  write_file_atomic(text, "w1 w2\n");
  build_corpus({text}, *tokenizer, place);
  const auto before = files_of(place);
  write_file_atomic(text, "w1 w2 w3\n\nw4");
  const auto stop = [](std::string_view part, int64_t, int64_t) {
    if (part == "tokenize") throw Error({.what = "stopped"});
  };
  EXPECT_THAT(error_text([&] { build_corpus({text}, *tokenizer, place, {.replace = true, .progress = stop}); }),
              HasSubstr("stopped"));
  EXPECT_EQ(files_of(place), before);
  build_corpus({text}, *tokenizer, place, {.replace = true});
  EXPECT_EQ(Corpus::open(place).counts().documents, 2);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 2);
  // What is no corpus is never replaced.
  write_file_atomic(folder.path() / "precious", "x");
  EXPECT_THAT(error_text([&] { build_corpus({text}, *tokenizer, folder.path(), {.replace = true}); }),
              HasSubstr("this is not a corpus, so it is not replaced"));
}

/// Reads everything that a corpus gives.
int64_t read_all(const Corpus& corpus) {
  std::vector<int32_t> tokens;
  for (int64_t s = 0; s < corpus.counts().sentences; ++s) corpus.append_sentence(s, tokens);
  for (int64_t d = 0; d < corpus.counts().documents; ++d)
    corpus.append_document_part(d, 0, corpus.document_tokens(d), tokens);
  for (const int32_t token : tokens)
    if (token < 0 || token >= corpus.tokenizer().vocabulary_size()) ADD_FAILURE() << "token " << token;
  return static_cast<int64_t>(tokens.size());
}

TEST(Corpus, DamageIsAnErrorThatNamesFileAndOffset) {
  BuildCorpusOptions options;
  options.shard_bytes = 1500;
  const SampleCorpus sample(24, 40, options, 7, 6, 12);
  const fs::path folder = sample.folder.path() / "corpus";
  const int64_t expected = read_all(sample.open());
  const auto files = files_of(folder);
  const RandomStream random(11, RandomPurpose::kTest, 0, 0);
  uint64_t draw = 0;
  // A new file each time: a file system may wait for the disk when one is cut to nothing and written again.
  const auto put = [&](const std::string& name, const std::string& contents) {
    fs::remove(folder / name);
    FileWriter writer(folder / name);
    writer.write(contents);
  };
  int errors = 0, named = 0;
  constexpr int kMutations = 4000;
  for (int i = 0; i < kMutations; ++i) {
    auto victim = std::next(files.begin(), random.below(draw++, static_cast<uint32_t>(files.size())));
    std::string damaged = victim->second;
    const auto size = static_cast<uint32_t>(damaged.size());
    switch (random.below(draw++, 4)) {
      case 0: damaged.resize(random.below(draw++, size)); break;
      case 1: damaged.append(1 + random.below(draw++, 64), '\0'); break;
      case 2: damaged[random.below(draw, size)] = static_cast<char>(random.bits(draw + 1)); break;
      default: damaged[random.below(draw, size)] ^= static_cast<char>(1 << random.below(draw + 1, 8));
    }
    draw += 2;
    put(victim->first, damaged);
    // Without checksums a flipped token may pass, but never a crash or an id outside the vocabulary.
    for (const CorpusCheck check : {CorpusCheck::kFull, CorpusCheck::kStructure}) {
      try {
        const int64_t read = read_all(Corpus::open(folder, "train", check));
        if (check == CorpusCheck::kStructure) continue;
        EXPECT_EQ(read, expected) << victim->first;
        // A shard may not differ by a bit; JSON and text may in white space.
        EXPECT_TRUE(!victim->first.ends_with(".bin") || damaged == victim->second) << victim->first;
      } catch (const Error& error) {
        if (check != CorpusCheck::kFull) continue;
        ++errors;
        named += error.parts().where.find(fs::path(victim->first).filename().string()) != std::string::npos &&
                 error.parts().where.find("offset") != std::string::npos;
        if (victim->first.ends_with(".bin")) {
          EXPECT_THAT(error.what(), HasSubstr("damaged corpus shard")) << victim->first;
          EXPECT_THAT(error.parts().where, HasSubstr(victim->first + ", offset ")) << error.what();
        }
      }
    }
    put(victim->first, victim->second);
  }
  EXPECT_GT(errors, kMutations * 8 / 10);
  EXPECT_GT(named, errors / 2);
  EXPECT_EQ(read_all(sample.open()), expected);
}

TEST(Corpus, AnotherTokenizerInItsFolderIsRefused) {
  const SampleCorpus sample(5);
  word_tokenizer(499)->save(sample.folder.path() / "corpus/tokenizer");
  EXPECT_THAT(error_text([&] { sample.open(); }), HasSubstr("the tokenizer is not the one that built the corpus"));
}

}  // namespace
}  // namespace ramet::tests
