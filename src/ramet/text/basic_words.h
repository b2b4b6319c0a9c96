#pragma once

// BERT's basic tokenizer as one scan over the text that passes each word to a sink. Inside data/ only: the tokenizer
// and the vocabulary trainer share it.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ramet/text/unicode.h"
#include "ramet/text/wordpiece.h"

namespace ramet::text {

/// The class of an ASCII byte; letters carry their lower-case form.
struct AsciiRules {
  enum Kind : uint8_t { kLetter, kSpace, kPunctuation, kDrop, kHigh };
  std::array<Kind, 256> kind;
  std::array<char, 256> letter;
  bool lower, strip, clean, cjk;

  explicit AsciiRules(const WordPieceOptions& options);
};

/// Builds words byte by byte. With `kSpans` every byte of a word knows which bytes of the text it came from.
template <bool kSpans>
class BasicWords {
 public:
  /// A word that is longer than this many characters is cut there; `characters` says how many it had.
  BasicWords(const AsciiRules& rules, int max_characters) : rules_(rules), max_characters_(max_characters) {
    word_.resize(static_cast<size_t>(max_characters) * 4 + 64);
    if (kSpans) sources_.resize(word_.size());
  }

  const char* data() const { return word_.data(); }
  size_t readable() const { return word_.size(); }
  std::string_view view() const { return {word_.data(), size_}; }
  int characters() const { return characters_; }
  const TokenSpan* sources() const { return sources_.data(); }
  TokenSpan whole() const { return {sources_[0].begin, last_end_}; }

  /// Scans text[begin, end); `sink()` is called when a word is ready.
  template <typename Sink>
  void scan(std::string_view text, size_t begin, size_t end, Sink&& sink) {
    const std::string_view part = text.substr(0, end);
    size_t i = begin;
    while (i < end) {
      const auto byte = static_cast<uint8_t>(part[i]);
      switch (rules_.kind[byte]) {
        case AsciiRules::kLetter:
          append_byte(rules_.letter[byte], i);
          ++i;
          break;
        case AsciiRules::kSpace:
          flush(sink);
          ++i;
          break;
        case AsciiRules::kPunctuation:
          flush(sink);
          append_byte(static_cast<char>(byte), i);
          flush(sink);
          ++i;
          break;
        case AsciiRules::kDrop: ++i; break;
        case AsciiRules::kHigh: {
          const size_t start = i;
          const uint32_t c = next_code_point(part, i);
          code_point(c, {static_cast<uint32_t>(start), static_cast<uint32_t>(i)}, sink);
          break;
        }
      }
    }
    flush(sink);
  }

 private:
  template <typename Sink>
  void flush(Sink&& sink) {
    if (size_ == 0) return;
    sink();
    size_ = 0;
    characters_ = 0;
  }

  void append_byte(char c, size_t at) {
    if (++characters_ > max_characters_) {
      last_end_ = static_cast<uint32_t>(at + 1);
      return;
    }
    if (kSpans) {
      sources_[size_] = {static_cast<uint32_t>(at), static_cast<uint32_t>(at + 1)};
      last_end_ = static_cast<uint32_t>(at + 1);
    }
    word_[size_++] = c;
  }

  void append(uint32_t c, TokenSpan source) {
    last_end_ = source.end;
    if (++characters_ > max_characters_) return;
    char bytes[4];
    const size_t length = encode(c, bytes);
    size_t at = size_;
    // Canonical order: a mark goes before those of a higher class (only marks other than Mn are left here).
    if (const int rank = c < 0x300 || !rules_.strip ? 0 : combining_class(c); rank != 0)
      while (at > 0) {
        size_t previous = at - 1;
        while (previous > 0 && (static_cast<uint8_t>(word_[previous]) & 0xC0) == 0x80) --previous;
        size_t cursor = previous;
        if (combining_class(next_code_point({word_.data(), size_}, cursor)) <= rank) break;
        at = previous;
      }
    std::copy_backward(word_.begin() + static_cast<std::ptrdiff_t>(at),
                       word_.begin() + static_cast<std::ptrdiff_t>(size_),
                       word_.begin() + static_cast<std::ptrdiff_t>(size_ + length));
    if (kSpans)
      std::copy_backward(sources_.begin() + static_cast<std::ptrdiff_t>(at),
                         sources_.begin() + static_cast<std::ptrdiff_t>(size_),
                         sources_.begin() + static_cast<std::ptrdiff_t>(size_ + length));
    for (size_t k = 0; k < length; ++k) {
      word_[at + k] = bytes[k];
      if (kSpans) sources_[at + k] = source;
    }
    size_ += length;
  }

  static size_t encode(uint32_t c, char* bytes) {
    if (c < 0x80) return bytes[0] = static_cast<char>(c), 1;
    const size_t length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static constexpr uint8_t kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t k = length - 1; k > 0; --k, c >>= 6) bytes[k] = static_cast<char>(0x80 | (c & 0x3F));
    bytes[0] = static_cast<char>(kLead[length] | c);
    return length;
  }

  template <typename Sink>
  void code_point(uint32_t c, TokenSpan source, Sink&& sink) {
    if (rules_.clean && (c == kReplacementCharacter || is_unicode_control(c))) return;
    if (is_unicode_space(c)) return flush(sink);
    const bool alone = rules_.cjk && is_cjk_ideograph(c);
    if (alone) flush(sink);
    decomposed(c, source, sink);
    if (alone) flush(sink);
  }

  template <typename Sink>
  void decomposed(uint32_t c, TokenSpan source, Sink&& sink) {
    if (!rules_.strip) return folded(c, source, sink);
    Decomposition parts;
    const int count = c < 0xC0 ? 0 : decompose(c, parts);
    if (count == 0 && !is_nonspacing_mark(c)) folded(c, source, sink);
    for (size_t i = 0; i < static_cast<size_t>(count); ++i)
      if (!is_nonspacing_mark(parts[i])) folded(parts[i], source, sink);
  }

  template <typename Sink>
  void folded(uint32_t c, TokenSpan source, Sink&& sink) {
    if (rules_.lower) {
      if (c == 0x130) {  // the one character whose lower case is two
        append('i', source);
        return append(0x307, source);
      }
      c = lower_case(c);
    }
    if (!is_unicode_punctuation(c)) return append(c, source);
    flush(sink);
    append(c, source);
    flush(sink);
  }

  const AsciiRules& rules_;
  int max_characters_;
  std::vector<char> word_;
  std::vector<TokenSpan> sources_;
  size_t size_ = 0;
  int characters_ = 0;
  uint32_t last_end_ = 0;
};

}  // namespace ramet::text
