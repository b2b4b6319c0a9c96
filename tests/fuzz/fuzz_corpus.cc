#include <nlohmann/json.hpp>

#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/text/corpus.h"
#include "ramet/text/corpus_manifest.h"
#include "ramet/text/wordpiece.h"

using namespace ramet::tests;

namespace {

/// A small corpus, whole but for its manifest.
const std::filesystem::path& corpus_folder() {
  static const std::filesystem::path folder = [] {
    const auto base = fuzz::empty_folder("corpus");
    write_file_atomic(base / "text.txt", "the a b\nthe the\n\nb a\na a a b\n");
    const WordPieceTokenizer tokenizer(Vocabulary({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "b"}));
    build_corpus({base / "text.txt"}, tokenizer, base / "corpus", {.heldout = 0.5, .threads = 1});
    return base / "corpus";
  }();
  return folder;
}

}  // namespace

// Behind 'r' the manifest as it is; else with its checksum made right, so that mutations get past it.
RAMET_FUZZ_TARGET(corpus, std::string_view input) {
  std::string text(input.substr(std::min<size_t>(1, input.size())));
  if (!input.starts_with('r')) {
    auto manifest = nlohmann::ordered_json::parse(text, nullptr, false);
    if (manifest.is_object()) {
      try {
        manifest["checksum"] = manifest_checksum(manifest);
        text = manifest.dump();
      } catch (const nlohmann::json::exception&) {  // what cannot be written, such as invalid UTF-8, stays as it is
      }
    }
  }
  write_file_atomic(corpus_folder() / "manifest.json", text);
  for (const auto check : {CorpusCheck::kFull, CorpusCheck::kStructure}) {
    const Corpus corpus = Corpus::open(corpus_folder(), "train", check);
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < corpus.counts().sentences; ++i) corpus.append_sentence(i, tokens);
    if (static_cast<int64_t>(tokens.size()) != corpus.counts().tokens) internal_error("corpus", "tokens are missing");
  }
}

RAMET_FUZZ_SEEDS(corpus) {
  const std::string manifest = read_file(corpus_folder() / "manifest.json");
  return {.inputs = {"c" + manifest, "r" + manifest},
          .words = {"\"splits\"", "\"train\"", "\"shards\":[]", "\"file\":\"..\"", "\"documents\":-1", "null", "{}",
                    "[]", "1e999", "\"tokenizer\":{}", "\"version\":1", "\"format\":\"ramet-corpus\"", "\\ud800"}};
}
