#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/text/tokenizer.h"
#include "ramet/text/vocabulary.h"

using namespace ramet::tests;

namespace {

void check(const Vocabulary& vocabulary) {
  for (int32_t id = 0; id < vocabulary.size(); ++id)
    if (vocabulary.find(vocabulary.token(id)) != id) internal_error("vocabulary", "a token is not at its id");
}

}  // namespace

RAMET_FUZZ_TARGET(vocabulary, std::string_view input) {
  // The first byte says which format the rest is taken for.
  const char kind = input.empty() ? 't' : input.front();
  const std::string_view text = input.substr(std::min<size_t>(1, input.size()));
  if (kind == 't') {
    check(read_vocabulary_text(fuzz::as_file(text)));
  } else if (kind == 'j') {
    check(read_vocabulary_json(fuzz::as_file(text)));
  } else {  // a whole tokenizer: vocabulary, options or merges
    const auto folder = fuzz::empty_folder("vocabulary");
    const size_t cut = text.find('\f');
    write_file_atomic(folder / "vocab.txt", text.substr(0, cut));
    if (cut != text.npos) write_file_atomic(folder / "tokenizer_config.json", text.substr(cut + 1));
    (void)load_tokenizer(folder)->encode("the text");
  }
}

RAMET_FUZZ_SEEDS(vocabulary) {
  return {
      .inputs = {"t[PAD]\n[UNK]\nthe\n##s\n", "j{\"a\": 0, \"b\": 1, \"\\u0120c\": 2}",
                 "k[PAD]\n[UNK]\nthe\n\f{\"do_lower_case\": true, \"strip_accents\": null}"},
      .words = {"[UNK]", "\": 0", "\": 1", "{", "}", "\\ud83d", "\"do_lower_case\"", "false", "null", "\f", "\r\n"}};
}
