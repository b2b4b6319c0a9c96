#include "ramet/text/unicode.h"

#include <algorithm>
#include <cstring>

#include "ramet/base/error.h"

namespace ramet::text {

uint32_t next_code_point(std::string_view text, size_t& position, bool* invalid) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint32_t lead = byte(position);
  if (lead < 0x80) return ++position, lead;
  const int length = lead >= 0xC2 && lead < 0xE0   ? 2
                     : lead >= 0xE0 && lead < 0xF0 ? 3
                     : lead >= 0xF0 && lead < 0xF5 ? 4
                                                   : 0;
  const auto bad = [&] {
    ++position;
    if (invalid) *invalid = true;
    return kReplacementCharacter;
  };
  if (length == 0 || text.size() - position < static_cast<size_t>(length)) return bad();
  uint32_t c = lead & (0x7Fu >> length);
  for (int i = 1; i < length; ++i) {
    const uint32_t next = byte(position + static_cast<size_t>(i));
    if ((next & 0xC0) != 0x80) return bad();
    c = c << 6 | (next & 0x3F);
  }
  if ((length == 3 && (c < 0x800 || (c >= 0xD800 && c < 0xE000))) || (length == 4 && (c < 0x10000 || c > 0x10FFFF)))
    return bad();
  position += static_cast<size_t>(length);
  return c;
}

void append_utf8(uint32_t c, std::string& text) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xC0 | c >> 6);
    text += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    text += static_cast<char>(0xE0 | c >> 12);
    text += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    text += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    text += static_cast<char>(0xF0 | c >> 18);
    text += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    text += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    text += static_cast<char>(0x80 | (c & 0x3F));
  }
}

size_t find_invalid_utf8(std::string_view text) {
  size_t position = 0;
  while (position < text.size()) {
    uint64_t eight;
    if (text.size() - position >= 8 &&
        (std::memcpy(&eight, text.data() + position, 8), (eight & 0x8080808080808080ull) == 0)) {
      position += 8;
      continue;
    }
    const size_t before = position;
    bool invalid = false;
    next_code_point(text, position, &invalid);
    if (invalid) return before;
  }
  return std::string_view::npos;
}

void require_utf8(std::string_view text, const std::string& where) {
  const size_t bad = find_invalid_utf8(text);
  if (bad == std::string_view::npos) return;
  const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bad), '\n') + 1;
  static const char* digits = "0123456789ABCDEF";
  const auto value = static_cast<uint8_t>(text[bad]);
  throw Error({.what = "invalid UTF-8",
               .where = where + ":" + std::to_string(line) + ", byte offset " + std::to_string(bad),
               .found = std::string("byte 0x") + digits[value >> 4] + digits[value & 15],
               .expected = "UTF-8 text",
               .remedy = "Convert the file, for example with iconv -f latin1 -t utf-8, or remove the bytes"});
}

bool is_cjk_ideograph(uint32_t c) {
  if (c < 0x3400) return false;
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) ||
         (c >= 0x2B820 && c <= 0x2CEAF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

}  // namespace ramet::text
