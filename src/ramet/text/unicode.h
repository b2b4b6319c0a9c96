#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "ramet/base/house.h"

namespace ramet::text {

/// U+FFFD, what `next_code_point` gives for a byte that begins no valid sequence.
inline constexpr uint32_t kReplacementCharacter = 0xFFFD;

/// Reads the code point at `text[position]` and moves `position` past it; strict UTF-8 (no surrogates, no overlong
/// forms). A byte that begins no valid sequence gives U+FFFD, sets `*invalid` if given, and counts one byte.
uint32_t next_code_point(std::string_view text, size_t& position, bool* invalid = nullptr);
void append_utf8(uint32_t code_point, std::string& text);
/// Offset of the first byte that is not UTF-8, or npos.
size_t find_invalid_utf8(std::string_view text);

/// Throws Error naming `where`, line and byte offset of the first byte of `text` that is not UTF-8.
void require_utf8(std::string_view text, const std::string& where);

bool is_cjk_ideograph(uint32_t c);  ///< the blocks that BERT puts blanks around

// What follows needs Unicode's tables: icu.cc takes them from ICU. Builds without ICU link no_icu.cc in its place,
// where all of it works for ASCII and throws Error (kFailure) for any other character.

/// Unicode's classes as the tokenizers use them.
bool is_unicode_letter(uint32_t c);       ///< \p{L}
bool is_unicode_number(uint32_t c);       ///< \p{N}
bool is_unicode_space(uint32_t c);        ///< White_Space
bool is_unicode_control(uint32_t c);      ///< Cc, Cf, Co
bool is_unicode_punctuation(uint32_t c);  ///< P*, and BERT's ASCII symbols
bool is_nonspacing_mark(uint32_t c);      ///< Mn

/// The lower case of one character, where it is one character; else the character.
uint32_t lower_case(uint32_t c);
/// A text in lower case by the rules of no language: characters may become several.
std::u32string lower_case(std::string_view text);
/// Canonical_Combining_Class: how marks after a letter are ordered.
int combining_class(uint32_t c);

/// The full canonical decomposition (NFD) of a character, in `parts`; 0 when the character has none.
using Decomposition = std::array<uint32_t, 8>;
int decompose(uint32_t c, Decomposition& parts);

/// Where sentences end by Unicode's rules (UAX 29) with English abbreviations kept together. One object a thread.
class SentenceBreaks {
 public:
  SentenceBreaks();
  ~SentenceBreaks();
  /// Calls `sentence(begin, end)` for each range of bytes between two ends, white space included.
  void each(std::string_view text, const std::function<void(size_t begin, size_t end)>& sentence);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ramet::text
