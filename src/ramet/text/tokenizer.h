#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/hash.h"
#include "ramet/text/vocabulary.h"

namespace ramet {
class ThreadTeam;
}  // namespace ramet

namespace ramet::text {

/// Ids of the tokens with a role; -1 where the vocabulary has none.
struct SpecialTokens {
  int32_t unknown = -1;      ///< [UNK]
  int32_t padding = -1;      ///< [PAD]
  int32_t classify = -1;     ///< [CLS]
  int32_t separator = -1;    ///< [SEP]
  int32_t mask = -1;         ///< [MASK]
  int32_t end_of_text = -1;  ///< <|endoftext|>
  friend bool operator==(const SpecialTokens&, const SpecialTokens&) = default;
};

/// Where a token came from: bytes [begin, end) of the text that was encoded.
struct TokenSpan {
  uint32_t begin = 0, end = 0;
  friend bool operator==(const TokenSpan&, const TokenSpan&) = default;
};

/// Tokens of one text, with the place of each.
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<TokenSpan> spans;
};

/// How text such as "[MASK]" or "<|endoftext|>" is read.
enum class SpecialText {
  kAsTokens,  ///< each occurrence is that special token (what a person types into `predict`)
  kAsText     ///< ordinary characters (what stands in a corpus)
};

/// Text to token ids and back. Encoding is safe from many threads at once. Texts are at most 4 GiB each.
/// Bytes that are not UTF-8 never fail here: WordPiece drops them as it drops U+FFFD, BPE keeps them as bytes.
/// (Building a corpus refuses them, naming the place.)
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// "wordpiece" or "bpe".
  virtual std::string_view kind() const = 0;
  /// Appends the tokens of `text` to `ids` and, if asked for, the place of each to `spans`. No [CLS] or [SEP] is added.
  virtual void encode_into(std::string_view text, std::vector<int32_t>& ids, std::vector<TokenSpan>* spans,
                           SpecialText special) const = 0;
  /// Tokens as text: WordPiece joins words with one space and pieces without; BPE gives the exact bytes.
  /// Ids outside the vocabulary are an Error.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;
  /// Whether `id` begins a word, for whole-word masking.
  virtual bool starts_word(int32_t id) const = 0;
  /// Writes the public file format into `folder` (made if absent), each file atomically: vocab.txt, or vocab.json
  /// and merges.txt; and tokenizer_config.json, which keeps the options.
  virtual void save(const std::filesystem::path& folder) const = 0;

  std::vector<int32_t> encode(std::string_view text, SpecialText special = SpecialText::kAsTokens) const;
  Encoding encode_with_spans(std::string_view text, SpecialText special = SpecialText::kAsTokens) const;
  /// Encodes every text; the result does not depend on the number of threads.
  std::vector<std::vector<int32_t>> encode_batch(std::span<const std::string_view> texts, ThreadTeam& team,
                                                 SpecialText special = SpecialText::kAsTokens) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  int32_t vocabulary_size() const { return vocabulary_.size(); }
  const SpecialTokens& special() const { return special_; }
  /// The id of a special token, or Error naming it, `user` (what needs it) and the remedy.
  int32_t require_special(std::string_view token, std::string_view user) const;
  /// A hash over kind, options, vocabulary and merges: equal hashes encode equally.
  Hash hash() const { return hash_; }

 protected:
  explicit Tokenizer(Vocabulary vocabulary);
  const std::string& checked_token(int32_t id) const;
  Vocabulary vocabulary_;
  SpecialTokens special_;
  Hash hash_;
};

/// Reads a tokenizer from its public files. `path` is a folder (vocab.txt; or vocab.json or encoder.json with
/// merges.txt or vocab.bpe; options from tokenizer_config.json where present; else tokenizer.json) or one of these files, which may have a
/// prefix
/// ("gpt2-encoder.json" with "gpt2-merges.bpe"); any other file is read as vocab.txt. Throws Error that names the
/// file and line.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path);

/// Byte spans as spans counted in code points of `text` (what SQuAD's answer_start counts).
std::vector<TokenSpan> spans_in_characters(std::string_view text, std::span<const TokenSpan> spans);

}  // namespace ramet::text
