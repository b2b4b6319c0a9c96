#include <cstring>

#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/hash.h"
#include "ramet/text/shard.h"

using namespace ramet::tests;

namespace {

constexpr int32_t kVocabulary = 100;

/// Makes the checksums right, as far as there is room for them (offsets as text/shard.h gives them).
void mend(std::string& file) {
  const auto get = [&](size_t at) {
    uint32_t value;
    std::memcpy(&value, file.data() + at, 4);
    return size_t{value};
  };
  const auto put = [&](size_t at, uint32_t value) { std::memcpy(file.data() + at, &value, 4); };
  if (file.size() < 64) return;
  const size_t frame_bytes = get(44), frames = get(48), table = (64 + frames * 4 + 7) / 8 * 8;
  if (table <= file.size() && frame_bytes > 0) {
    for (size_t i = 0; i < frames && table + i * frame_bytes < file.size(); ++i) {
      const size_t at = table + i * frame_bytes;
      put(64 + i * 4, crc32c(file.data() + at, std::min(frame_bytes, file.size() - at)));
    }
    put(52, crc32c(file.data() + 64, table - 64));
  }
  put(60, crc32c(file.data(), 60));
}

}  // namespace

RAMET_FUZZ_TARGET(shard, std::string_view input) {
  std::string file(input.substr(std::min<size_t>(1, input.size())));
  const char kind = input.empty() ? 'r' : input.front();
  if (kind != 'r') mend(file);
  const Shard shard(fuzz::as_file(file), kVocabulary, kind == 's' ? CorpusCheck::kStructure : CorpusCheck::kFull);
  std::vector<int32_t> tokens;
  const CorpusCounts counts = shard.counts();
  for (int64_t document = 0; document < counts.documents; ++document) {
    for (int64_t i = shard.document_begin(document); i < shard.document_begin(document + 1); ++i) {
      if (shard.document_of_sentence(i) != document) internal_error("shard", "a sentence is not in its document");
      shard.append(shard.sentence_begin(i), shard.sentence_begin(i + 1), tokens);
    }
  }
  if (static_cast<int64_t>(tokens.size()) != counts.tokens) internal_error("shard", "tokens are missing");
  for (const int32_t token : tokens)
    if (token < 0 || token >= kVocabulary) internal_error("shard", "a token outside the vocabulary");
}

RAMET_FUZZ_SEEDS(shard) {
  fuzz::Seeds seeds;
  for (const int32_t vocabulary : {kVocabulary, 70000}) {
    ShardBuilder builder(vocabulary);
    builder.add_document({1, 2, 3, 4, 5}, {2, 3});
    builder.add_document({99, 98}, {2});
    const auto path = fuzz::empty_folder("shard") / "shard";
    builder.write(path);
    for (const char kind : {'f', 's', 'r'}) seeds.inputs.push_back(kind + read_file(path));
  }
  return seeds;
}
