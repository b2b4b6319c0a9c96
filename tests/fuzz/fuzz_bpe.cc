#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/text/bpe.h"

using namespace ramet::tests;

namespace {

const BpeTokenizer& tokenizer() {
  static const BpeTokenizer instance = [] {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.push_back(bytes_to_letters(std::string(1, static_cast<char>(byte))));
    const BpeMerges merges = {{"t", "h"}, {"th", "e"}, {"a", "a"}, {"aa", "aa"}, {bytes_to_letters(" "), "a"}};
    for (const auto& [left, right] : merges) tokens.push_back(left + right);
    tokens.push_back("<|endoftext|>");
    return BpeTokenizer(Vocabulary(std::move(tokens)), merges);
  }();
  return instance;
}

}  // namespace

RAMET_FUZZ_TARGET(bpe, std::string_view input) {
  for (const auto special : {SpecialText::kAsTokens, SpecialText::kAsText})
    if (tokenizer().decode(tokenizer().encode(input, special)) != input)
      internal_error("bpe", "bytes do not survive encoding and decoding");
  std::string joined;
  for_each_bpe_word(input, [&](std::string_view word) { joined += word; });
  if (joined != input) internal_error("bpe", "the pieces are not the text");
}

RAMET_FUZZ_SEEDS(bpe) {
  return {.inputs = {"the aaaa aaaaaa isn't  12 x\n\n", "caf\xc3\xa9 \xe4\xb8\xad<|endoftext|>\xff\xfe",
                     std::string(300, 'a')},
          .words = {"<|endoftext|>", "'ll", " the", "\xc2\xa0", "\xe2\x80\xa8", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                    "aaaa"}};
}
