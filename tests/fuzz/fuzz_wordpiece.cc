#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/text/wordpiece.h"

using namespace ramet::tests;

namespace {

const WordPieceTokenizer& tokenizer() {
  static const WordPieceTokenizer instance(Vocabulary({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "##b",
                                                       "##a", "b", ".", "é", "##é", "中", "##s", "ok"}));
  return instance;
}

}  // namespace

RAMET_FUZZ_TARGET(wordpiece, std::string_view input) {
  for (const auto special : {SpecialText::kAsTokens, SpecialText::kAsText}) {
    const Encoding encoding = tokenizer().encode_with_spans(input, special);
    if (encoding.ids.size() != encoding.spans.size()) internal_error("wordpiece", "tokens without a place");
    uint32_t last = 0;
    for (const auto& span : encoding.spans) {
      if (span.begin > span.end || span.end > input.size() || span.begin < last)
        internal_error("wordpiece", "a token's place is not in the text or not in order");
      last = span.begin;
    }
    if (tokenizer().encode(input, special) != encoding.ids) internal_error("wordpiece", "places change the tokens");
    (void)tokenizer().decode(encoding.ids);
    (void)spans_in_characters(input, encoding.spans);
  }
}

RAMET_FUZZ_SEEDS(wordpiece) {
  return {.inputs = {"The ab, abab. [MASK] ok", "caf\xc3\xa9 e\xcc\x81 \xe4\xb8\xad\xe6\x96\x87", "a\xff\xc3 b\x01",
                     std::string(300, 'a')},
          .words = {"[MASK]", "[CLS", "\xcc\x81", "\xe4\xb8\xad", "\xf0\x9f\x98\x80", "\xed\xa0\x80", "\xc4\xb0",
                    "\xe2\x80\xa8", "\xef\xbf\xbd", "ab", ".", " "}};
}
