#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/text/bpe.h"
#include "ramet/text/wordpiece.h"

namespace ramet::text {

/// Called now and then while a vocabulary is trained: the part at work ("read", "count", "merge") and how far it is.
using VocabularyProgress = std::function<void(std::string_view part, int64_t done, int64_t total)>;

/// What both trainers share.
struct TrainVocabularyOptions {
  int32_t vocabulary_size = 30522;  ///< all tokens, special ones included
  int64_t min_frequency = 2;        ///< a pair that occurs less is not merged
  int threads = 0;                  ///< 0: all available processors
  VocabularyProgress progress = {};
};

/// WordPiece's vocabulary.
struct TrainWordPieceOptions : TrainVocabularyOptions {
  WordPieceOptions tokenizer = {};
  int32_t alphabet_limit = 1000;  ///< most frequent characters kept; words with others are left out
  std::vector<std::string> special_tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
};

/// Byte-level BPE's vocabulary.
struct TrainBpeOptions : TrainVocabularyOptions {
  TrainBpeOptions() { vocabulary_size = 50257; }
  BpeOptions tokenizer = {};
  std::vector<std::string> special_tokens = {"<|endoftext|>"};  ///< take the last ids, as GPT-2's does
};

/// Trains on UTF-8 text files. Pairs are merged by count, the most frequent first (as Hugging Face's WordPiece trainer
/// does; Google never published BERT's own), equal counts by the tokens' byte order, so that the result depends on the
/// text and the options only, not on threads. Ids: special tokens, alphabet, merges (WordPiece); the 256 bytes in
/// GPT-2's order, merges, special tokens (BPE). A text that holds too few pairs gives a smaller vocabulary. Errors:
/// invalid UTF-8 (file, line, byte), no text at all, a size too small for the alphabet.
std::unique_ptr<WordPieceTokenizer> train_wordpiece(const std::vector<std::filesystem::path>& files,
                                                    const TrainWordPieceOptions& options);
std::unique_ptr<BpeTokenizer> train_bpe(const std::vector<std::filesystem::path>& files,
                                        const TrainBpeOptions& options);
/// The same from texts in memory.
std::unique_ptr<WordPieceTokenizer> train_wordpiece_texts(std::span<const std::string_view> texts,
                                                          const TrainWordPieceOptions& options);
std::unique_ptr<BpeTokenizer> train_bpe_texts(std::span<const std::string_view> texts, const TrainBpeOptions& options);

}  // namespace ramet::text
