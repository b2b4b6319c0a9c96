#pragma once

// GPT-2's pattern by hand, shared inside data/ by the tokenizer and the vocabulary trainer.

#include <array>
#include <cstdint>
#include <string_view>

#include "ramet/text/unicode.h"

namespace ramet::text {

enum class BpeClass : uint8_t { kLetter, kNumber, kSpace, kOther, kHigh };

namespace bpe_words_internal {

constexpr std::array<BpeClass, 256> make_classes() {
  std::array<BpeClass, 256> classes{};
  for (int c = 0; c < 256; ++c)
    classes[static_cast<size_t>(c)] = c >= 0x80                                          ? BpeClass::kHigh
                                      : (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ? BpeClass::kLetter
                                      : c >= '0' && c <= '9'                             ? BpeClass::kNumber
                                      : c == ' ' || (c >= 9 && c <= 13)                  ? BpeClass::kSpace
                                                                                         : BpeClass::kOther;
  return classes;
}
inline constexpr auto kClasses = make_classes();

/// Class of the character at `at` and, in `next`, where it ends. A byte that is not UTF-8 is kOther.
inline BpeClass class_at(std::string_view text, size_t at, size_t& next) {
  const BpeClass fast = kClasses[static_cast<uint8_t>(text[at])];
  next = at + 1;
  if (fast != BpeClass::kHigh) return fast;
  next = at;
  const uint32_t c = next_code_point(text, next);
  return is_unicode_letter(c)   ? BpeClass::kLetter
         : is_unicode_number(c) ? BpeClass::kNumber
         : is_unicode_space(c)  ? BpeClass::kSpace
                                : BpeClass::kOther;
}

/// Where the run of `kind` that begins at `at` ends.
inline size_t run_end(std::string_view text, size_t at, BpeClass kind) {
  size_t next;
  while (at < text.size() && class_at(text, at, next) == kind) at = next;
  return at;
}

/// Length of the contraction at `at` ('s, 't, 're, 've, 'm, 'll, 'd), or 0.
inline size_t contraction(std::string_view text, size_t at) {
  if (text[at] != '\'' || at + 1 >= text.size()) return 0;
  const char a = text[at + 1], b = at + 2 < text.size() ? text[at + 2] : '\0';
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

}  // namespace bpe_words_internal

/// Calls `word(begin, end)` for each piece that GPT-2's pattern cuts (see for_each_bpe_word).
template <typename Word>
void scan_bpe_words(std::string_view text, Word&& word) {
  using namespace bpe_words_internal;
  for (size_t at = 0; at < text.size();) {
    size_t next;
    if (const size_t length = contraction(text, at)) {
      word(at, at + length);
      at += length;
      continue;
    }
    BpeClass kind = class_at(text, at, next);
    // One blank belongs to the run after it.
    if (text[at] == ' ' && at + 1 < text.size()) {
      size_t after;
      const BpeClass following = class_at(text, at + 1, after);
      if (following != BpeClass::kSpace) kind = following, next = after;
    }
    size_t end = run_end(text, next, kind);
    if (kind == BpeClass::kSpace && end < text.size() && end > next) {
      // \s+(?!\S): the last white space of a run before a word is left to the next piece.
      --end;
      while ((static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
    }
    word(at, end);
    at = end;
  }
}

}  // namespace ramet::text
