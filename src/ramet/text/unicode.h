#pragma once

#include <cstdint>
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

/// Unicode's classes as the tokenizers use them (ICU's data).
bool is_unicode_letter(uint32_t c);       ///< \p{L}
bool is_unicode_number(uint32_t c);       ///< \p{N}
bool is_unicode_space(uint32_t c);        ///< White_Space
bool is_unicode_control(uint32_t c);      ///< Cc, Cf, Co
bool is_unicode_punctuation(uint32_t c);  ///< P*, and BERT's ASCII symbols
bool is_nonspacing_mark(uint32_t c);      ///< Mn
bool is_cjk_ideograph(uint32_t c);        ///< the blocks that BERT puts blanks around

}  // namespace ramet::text
