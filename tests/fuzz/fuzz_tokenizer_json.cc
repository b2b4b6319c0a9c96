#include "fuzz/fuzz_target.h"
#include "ramet/base/file.h"
#include "ramet/text/tokenizer_json.h"

using namespace ramet::tests;

RAMET_FUZZ_TARGET(tokenizer_json, std::string_view input) {
  const auto tokenizer = load_tokenizer_json(fuzz::as_file(input));
  (void)tokenizer->encode("ab [UNK] ba");
}

RAMET_FUZZ_SEEDS(tokenizer_json) {
  return {.inputs = {R"({"added_tokens":[{"id":0,"content":"[UNK]","special":true}],"normalizer":{"type":)"
                     R"("BertNormalizer","lowercase":true,"strip_accents":null},"pre_tokenizer":{"type":)"
                     R"("BertPreTokenizer"},"model":{"type":"WordPiece","vocab":{"[UNK]":0,"a":1,"##b":2}}})",
                     R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"model":{"type":"BPE",)"
                     R"("vocab":{"a":0,"b":1,"ab":2},"merges":["a b",["a","b"]]}})"},
          .words = {"\"type\":", "\"vocab\":{}", "\"merges\":[]", "\"id\":", "null", "true", "1e9", "-1", "\"Sequence\"",
                    "\"normalizers\":[]", "\"max_input_chars_per_word\":0"}};
}
