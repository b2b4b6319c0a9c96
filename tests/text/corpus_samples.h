#pragma once

#include <string>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/rng.h"
#include "ramet/text/bpe.h"
#include "ramet/text/corpus.h"
#include "ramet/text/wordpiece.h"
#include "text/temporary_folder.h"

namespace ramet::tests {

inline const std::filesystem::path kDataSamples = std::filesystem::path(RAMET_SOURCE_DIR) / "tests/samples/data";

/// A vocabulary of special tokens, "w0" to "w(words-1)" and "##x"; a text in these words has one token a word.
inline std::unique_ptr<WordPieceTokenizer> word_tokenizer(int words) {
  std::vector<std::string> tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##x"};
  for (int i = 0; i < words; ++i) tokens.push_back("w" + std::to_string(i));
  return std::make_unique<WordPieceTokenizer>(Vocabulary(std::move(tokens)));
}

/// Documents of random sentences of words, one sentence a line. Every fifth word is two tokens ("w7x").
inline std::string random_text(int documents, int words, uint64_t seed, uint32_t most_sentences = 12,
                               uint32_t most_words = 30) {
  std::string text;
  const RandomStream random(seed, RandomPurpose::kTest, 0, 0);
  uint64_t draw = 0;
  for (int d = 0; d < documents; ++d) {
    const uint32_t sentences = 1 + random.below(draw++, most_sentences);
    for (uint32_t s = 0; s < sentences; ++s) {
      const uint32_t length = 1 + random.below(draw++, most_words);
      for (uint32_t w = 0; w < length; ++w) {
        const uint32_t word = random.below(draw++, static_cast<uint32_t>(words));
        text += (w ? " w" : "w") + std::to_string(word) + (word % 5 == 0 ? "x" : "");
      }
      text += '\n';
    }
    text += '\n';
  }
  return text;
}

/// A corpus of `random_text` in a folder of its own.
struct SampleCorpus {
  explicit SampleCorpus(int documents, int words = 500, BuildCorpusOptions options = {}, uint64_t seed = 7,
                        uint32_t most_sentences = 12, uint32_t most_words = 30) {
    write_file_atomic(folder.path() / "text.txt", random_text(documents, words, seed, most_sentences, most_words));
    summary = build_corpus({folder.path() / "text.txt"}, *word_tokenizer(words), folder.path() / "corpus", options);
  }
  Corpus open(std::string_view split = "train") const { return Corpus::open(folder.path() / "corpus", split); }
  TemporaryFolder folder;
  CorpusSummary summary;
};

template <typename Body>
std::string error_text(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace ramet::tests
