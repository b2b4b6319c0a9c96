// Stands in for icu.cc in builds without ICU: ASCII alone.
#include <cstdio>

#include "ramet/base/error.h"
#include "ramet/text/unicode.h"

namespace ramet::text {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& found) {
  throw Error({.what = what,
               .where = "a build of Ramet without ICU",
               .found = found,
               .expected = "ASCII text",
               .remedy = "Install libicu-dev (scripts/setup.sh does), then configure and build again"},
              ErrorKind::kFailure);
}

uint32_t ascii(uint32_t c) {
  if (c < 0x80) return c;
  char name[16];
  std::snprintf(name, sizeof name, "U+%04X", c);
  refuse("a character outside ASCII needs Unicode's tables", name);
}

bool is_between(uint32_t c, char first, char last) {
  return c >= static_cast<uint32_t>(first) && c <= static_cast<uint32_t>(last);
}

}  // namespace

bool is_unicode_letter(uint32_t c) { return is_between(ascii(c), 'a', 'z') || is_between(c, 'A', 'Z'); }
bool is_unicode_number(uint32_t c) { return is_between(ascii(c), '0', '9'); }
bool is_unicode_space(uint32_t c) { return ascii(c) == ' ' || (c >= 9 && c <= 13); }
bool is_unicode_control(uint32_t c) { return ascii(c) < 0x20 || c == 0x7F; }
bool is_unicode_punctuation(uint32_t c) {
  return is_between(ascii(c), '!', '/') || is_between(c, ':', '@') || is_between(c, '[', '`') ||
         is_between(c, '{', '~');
}
bool is_nonspacing_mark(uint32_t c) { return ascii(c), false; }
int combining_class(uint32_t c) { return ascii(c), 0; }
int decompose(uint32_t c, Decomposition&) { return ascii(c), 0; }

uint32_t lower_case(uint32_t c) { return is_between(ascii(c), 'A', 'Z') ? c + 32 : c; }

std::u32string lower_case(std::string_view text) {
  std::u32string lower;
  for (size_t i = 0; i < text.size();) lower += static_cast<char32_t>(lower_case(next_code_point(text, i)));
  return lower;
}

struct SentenceBreaks::State {};
SentenceBreaks::SentenceBreaks() = default;
SentenceBreaks::~SentenceBreaks() = default;
void SentenceBreaks::each(std::string_view, const std::function<void(size_t, size_t)>&) {
  refuse("the ends of sentences need Unicode's rules", "a text to be cut into sentences");
}

}  // namespace ramet::text
