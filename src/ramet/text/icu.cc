// The one file that knows ICU. Its stand-in for builds without ICU is no_icu.cc.
#include <unicode/brkiter.h>
#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utext.h>

#include "ramet/base/error.h"
#include "ramet/text/unicode.h"

namespace ramet::text {

bool is_unicode_letter(uint32_t c) { return (U_MASK(u_charType(static_cast<UChar32>(c))) & U_GC_L_MASK) != 0; }
bool is_unicode_number(uint32_t c) { return (U_MASK(u_charType(static_cast<UChar32>(c))) & U_GC_N_MASK) != 0; }
bool is_unicode_space(uint32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)); }
bool is_unicode_control(uint32_t c) {
  return (U_MASK(u_charType(static_cast<UChar32>(c))) & (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK)) != 0;
}
bool is_unicode_punctuation(uint32_t c) {
  if (c < 0x80) return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  return (U_MASK(u_charType(static_cast<UChar32>(c))) & U_GC_P_MASK) != 0;
}
bool is_nonspacing_mark(uint32_t c) { return u_charType(static_cast<UChar32>(c)) == U_NON_SPACING_MARK; }

uint32_t lower_case(uint32_t c) { return static_cast<uint32_t>(u_tolower(static_cast<UChar32>(c))); }

std::u32string lower_case(std::string_view text) {
  icu::UnicodeString unicode = icu::UnicodeString::fromUTF8({text.data(), static_cast<int32_t>(text.size())});
  unicode.toLower(icu::Locale::getRoot());
  std::u32string characters;
  for (int32_t i = 0; i < unicode.length(); i = unicode.moveIndex32(i, 1))
    characters += static_cast<char32_t>(unicode.char32At(i));
  return characters;
}

int combining_class(uint32_t c) { return u_getCombiningClass(static_cast<UChar32>(c)); }

int decompose(uint32_t c, Decomposition& parts) {
  static const icu::Normalizer2* const nfd = [] {
    UErrorCode status = U_ZERO_ERROR;
    const icu::Normalizer2* found = icu::Normalizer2::getNFDInstance(status);
    if (U_FAILURE(status)) internal_error("decompose", std::string("ICU gives no NFD: ") + u_errorName(status));
    return found;
  }();
  icu::UnicodeString text;
  if (!nfd->getDecomposition(static_cast<UChar32>(c), text)) return 0;
  int count = 0;
  for (int32_t i = 0; i < text.length(); i = text.moveIndex32(i, 1))
    parts.at(static_cast<size_t>(count++)) = static_cast<uint32_t>(text.char32At(i));
  return count;
}

struct SentenceBreaks::State {
  std::unique_ptr<icu::BreakIterator> iterator;
  UText text = UTEXT_INITIALIZER;
};

SentenceBreaks::SentenceBreaks() : state_(std::make_unique<State>()) {
  UErrorCode status = U_ZERO_ERROR;
  state_->iterator.reset(icu::BreakIterator::createSentenceInstance(icu::Locale("en@ss=standard"), status));
  if (U_FAILURE(status))
    throw Error({.what = std::string("ICU gives no sentence rules: ") + u_errorName(status),
                 .remedy = "Install ICU's data (Debian: libicu72); a wheel of the Python package has none"},
                ErrorKind::kFailure);
}

SentenceBreaks::~SentenceBreaks() { utext_close(&state_->text); }

void SentenceBreaks::each(std::string_view text, const std::function<void(size_t, size_t)>& sentence) {
  UErrorCode status = U_ZERO_ERROR;
  utext_openUTF8(&state_->text, text.data(), static_cast<int64_t>(text.size()), &status);
  state_->iterator->setText(&state_->text, status);
  if (U_FAILURE(status)) internal_error("SentenceBreaks::each", u_errorName(status));
  auto begin = static_cast<size_t>(state_->iterator->first());
  for (int32_t next = state_->iterator->next(); next != icu::BreakIterator::DONE; next = state_->iterator->next()) {
    sentence(begin, static_cast<size_t>(next));
    begin = static_cast<size_t>(next);
  }
}

}  // namespace ramet::text
