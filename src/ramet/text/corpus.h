#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/hash.h"
#include "ramet/text/tokenizer.h"

namespace ramet::text {

/// How sentences are separated in a text file.
enum class SentenceRule {
  kLines,       ///< every line is one sentence (BERT's input format)
  kSplitLines,  ///< a line holds one or more sentences; each line is split
  kProse        ///< lines are wrapped prose: a paragraph's lines are joined, then split into sentences
};

/// How a corpus is built from text.
struct BuildCorpusOptions {
  SentenceRule sentences = SentenceRule::kLines;
  /// So many blank lines in a row end a document (fewer end a paragraph); 0: a file is a document.
  int document_blank_lines = 1;
  /// Share of documents set apart as split "heldout", chosen by a hash of their text; at least one where there are two.
  double heldout = 0.0;
  uint64_t heldout_seed = 0;
  int64_t shard_bytes = int64_t{64} << 20;  ///< a shard ends with the document that reaches this size
  bool replace = false;                     ///< put the new corpus in place of one that is there
  int threads = 0;                          ///< 0: all available processors
  std::function<void(std::string_view part, int64_t done, int64_t total)> progress = {};  ///< bytes of text
};

/// Totals of one split.
struct CorpusCounts {
  int64_t documents = 0, sentences = 0, tokens = 0;
  friend bool operator==(const CorpusCounts&, const CorpusCounts&) = default;
};

/// What building a corpus did.
struct CorpusSummary {
  CorpusCounts train, heldout;
  int64_t text_bytes = 0;
  int64_t unknown_tokens = 0;  ///< [UNK] among them
  Hash hash;                   ///< of every shard; independent of threads and of the machine
};

/// Builds a corpus folder from UTF-8 text files: manifest.json, the tokenizer's own files, and shards for each split.
/// The bytes depend on the texts, the tokenizer and the options only, not on threads. The folder appears whole or
/// not at all. Errors: a file with invalid UTF-8 (file, line and byte offset), no document at all, a folder already
/// there.
CorpusSummary build_corpus(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer,
                           const std::filesystem::path& folder, const BuildCorpusOptions& options = {});

/// How much of a corpus is checked when it is opened.
enum class CorpusCheck {
  kFull,      ///< every checksum and every token id
  kStructure  ///< sizes, headers and document structure; token checksums are left
};

/// One split of a corpus, open for reading by memory map. Sentences and documents are numbered over all shards.
/// Opening checks it and throws Error naming file and offset. Copies share the maps.
class Corpus {
 public:
  static Corpus open(const std::filesystem::path& folder, std::string_view split = "train",
                     CorpusCheck check = CorpusCheck::kFull);

  const CorpusCounts& counts() const;
  /// Sentences [first, last) of document `document`.
  struct Range {
    int64_t first = 0, last = 0;
  };
  Range document_sentences(int64_t document) const;
  /// Tokens in document `document`.
  int64_t document_tokens(int64_t document) const;
  int64_t document_of_sentence(int64_t sentence) const;
  int32_t sentence_length(int64_t sentence) const;
  /// Appends the tokens of a sentence.
  void append_sentence(int64_t sentence, std::vector<int32_t>& tokens) const;
  /// Appends tokens [begin, end) of a document.
  void append_document_part(int64_t document, int64_t begin, int64_t end, std::vector<int32_t>& tokens) const;

  /// The tokenizer that it was built with, read from the corpus folder.
  const Tokenizer& tokenizer() const;
  /// Of all shards of this split: batches are a function of it.
  Hash hash() const;
  const std::filesystem::path& folder() const;

 private:
  struct State;
  explicit Corpus(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace ramet::text
