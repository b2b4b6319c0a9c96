#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ramet/text/tokenizer.h"

namespace ramet::text {

/// Options of BERT's tokenizer (google-research/bert, tokenization.py).
struct WordPieceOptions {
  bool lower_case = true;                  ///< lower-case; the "uncased" models
  std::optional<bool> strip_accents = {};  ///< NFD without nonspacing marks (Mn); default: as lower_case
  bool clean_text = true;                  ///< drop control characters, U+0000 and U+FFFD; all white space is a blank
  bool split_cjk = true;                   ///< every CJK ideograph is a word of its own
  int max_word_characters = 100;           ///< a longer word is [UNK]
};

/// BERT's basic tokenizer and WordPiece's greedy longest match, in one pass over the text.
/// Rules follow BERT, with the two readings of Hugging Face's `tokenizers` that all published BERT models are used
/// with: lower-casing is by character (no final sigma), and private-use and surrogate code points count as control.
/// [UNK], [CLS], [SEP], [PAD] and [MASK] in the text are those tokens wherever they stand (SpecialText::kAsTokens).
class WordPieceTokenizer final : public Tokenizer {
 public:
  /// Error when the vocabulary lacks [UNK].
  explicit WordPieceTokenizer(Vocabulary vocabulary, WordPieceOptions options = {});
  ~WordPieceTokenizer() override;
  /// Reads vocab.txt.
  static std::unique_ptr<WordPieceTokenizer> load(const std::filesystem::path& vocab_txt,
                                                  WordPieceOptions options = {});

  std::string_view kind() const override { return "wordpiece"; }
  void encode_into(std::string_view text, std::vector<int32_t>& ids, std::vector<TokenSpan>* spans,
                   SpecialText special) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  bool starts_word(int32_t id) const override;
  void save(const std::filesystem::path& folder) const override;
  const WordPieceOptions& options() const { return options_; }

 private:
  struct Tables;
  WordPieceOptions options_;
  std::unique_ptr<const Tables> tables_;
};

/// The words that WordPiece cuts into pieces: clean, spaced, lower-cased, accents stripped, punctuation apart.
/// Calls `word(text)` for each in order. The vocabulary trainer counts these words.
void for_each_basic_word(std::string_view text, const WordPieceOptions& options,
                         const std::function<void(std::string_view)>& word);

}  // namespace ramet::text
