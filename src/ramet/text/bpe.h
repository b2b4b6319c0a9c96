#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ramet/text/tokenizer.h"

namespace ramet::text {

/// Options of byte-level BPE (openai/gpt-2, encoder.py).
struct BpeOptions {
  bool add_prefix_space = false;  ///< encode "word" as " word"; GPT-2 does not
};

/// One merge: two token strings in the byte alphabet, in the order of their ranks.
using BpeMerges = std::vector<std::pair<std::string, std::string>>;

/// GPT-2's byte-level BPE: text is cut by GPT-2's pattern, each piece is spelt in a 256-letter alphabet of bytes, and
/// pairs are merged by rank. decode(encode(x)) == x for any bytes x.
/// <|endoftext|> in the text is that token (SpecialText::kAsTokens).
class BpeTokenizer final : public Tokenizer {
 public:
  /// Error when one of the 256 byte letters or the result of a merge is missing from the vocabulary.
  BpeTokenizer(Vocabulary vocabulary, BpeMerges merges, BpeOptions options = {});
  ~BpeTokenizer() override;
  /// Reads vocab.json (or encoder.json) and merges.txt (or vocab.bpe).
  static std::unique_ptr<BpeTokenizer> load(const std::filesystem::path& vocab_json,
                                            const std::filesystem::path& merges_txt, BpeOptions options = {});

  std::string_view kind() const override { return "bpe"; }
  void encode_into(std::string_view text, std::vector<int32_t>& ids, std::vector<TokenSpan>* spans,
                   SpecialText special) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  bool starts_word(int32_t id) const override;
  void save(const std::filesystem::path& folder) const override;
  const BpeMerges& merges() const { return merges_; }
  const BpeOptions& options() const { return options_; }

 private:
  struct Tables;
  BpeMerges merges_;
  BpeOptions options_;
  std::unique_ptr<const Tables> tables_;
};

/// The pieces that GPT-2's pattern cuts a text into, in order; joined they are the text:
/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
void for_each_bpe_word(std::string_view text, const std::function<void(std::string_view)>& word);
/// Bytes spelt in GPT-2's printable alphabet (UTF-8), and back; spelling that is not in the alphabet is an Error.
std::string bytes_to_letters(std::string_view bytes);
std::string letters_to_bytes(std::string_view letters);

}  // namespace ramet::text
