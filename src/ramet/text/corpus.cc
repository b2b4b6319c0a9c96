#include "ramet/text/corpus.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/text/corpus_manifest.h"
#include "ramet/text/shard.h"

namespace ramet::text {
namespace fs = std::filesystem;

namespace {

[[noreturn]] void bad_manifest(const fs::path& path, const std::string& what, const std::string& found = "",
                               const std::string& expected = "") {
  throw Error({.what = "damaged corpus manifest: " + what,
               .where = path.string() + ", offset 0",
               .found = found,
               .expected = expected,
               .remedy = "Build the corpus again, or copy it again from where it is whole"});
}

CorpusCounts read_counts(const nlohmann::json& json) {
  return {json.at("documents").get<int64_t>(), json.at("sentences").get<int64_t>(), json.at("tokens").get<int64_t>()};
}

}  // namespace

std::string manifest_checksum(const nlohmann::ordered_json& manifest) {
  nlohmann::ordered_json rest = manifest;
  rest.erase("checksum");
  return hash_text(rest.dump()).hex();
}

Hash corpus_hash(std::string_view tokenizer_hash, const std::vector<std::string>& shard_hashes) {
  Hasher hasher;
  hasher.update(tokenizer_hash);
  for (const std::string& hash : shard_hashes) hasher.update(hash);
  return hasher.digest();
}

struct Corpus::State {
  fs::path folder;
  std::unique_ptr<Tokenizer> tokenizer;
  CorpusCounts counts;
  Hash hash;
  struct Part {
    Shard shard;
    int64_t first_document, first_sentence;
  };
  std::vector<Part> parts;

  const Part& part_of(int64_t index, int64_t Part::* first) const {
    auto next = std::upper_bound(parts.begin(), parts.end(), index,
                                 [first](int64_t i, const Part& part) { return i < part.*first; });
    return *(next - 1);
  }
  const Part& of_document(int64_t document) const { return part_of(document, &Part::first_document); }
  const Part& of_sentence(int64_t sentence) const { return part_of(sentence, &Part::first_sentence); }

  void open_shards(const fs::path& path, const nlohmann::json& manifest, const nlohmann::json& split,
                   CorpusCheck check) {
    std::vector<std::string> hashes;
    for (const auto& entry : split.at("shards")) {
      const auto name = entry.at("file").get<std::string>();
      if (name.empty() || name.find('/') != std::string::npos || name == "..")
        bad_manifest(path, "a shard outside the folder", "'" + name + "'");
      parts.push_back({Shard(folder / name, tokenizer->vocabulary_size(), check), counts.documents, counts.sentences});
      const Shard& shard = parts.back().shard;
      if (!(shard.counts() == read_counts(entry)))
        bad_manifest(path, "shard '" + name + "' is not the one that was built",
                     std::to_string(shard.counts().tokens) + " tokens", std::to_string(read_counts(entry).tokens));
      counts.documents += shard.counts().documents;
      counts.sentences += shard.counts().sentences;
      counts.tokens += shard.counts().tokens;
      hashes.push_back(entry.at("hash").get<std::string>());
    }
    if (!(counts == read_counts(split))) bad_manifest(path, "its totals are not those of its shards");
    hash = corpus_hash(manifest.at("tokenizer").at("hash").get<std::string>(), hashes);
  }
};

Corpus Corpus::open(const fs::path& folder, std::string_view split, CorpusCheck check) {
  const fs::path path = folder / "manifest.json";
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    throw Error({.what = "no corpus here (no manifest.json)",
                 .where = folder.string(),
                 .remedy = "Build one from text files with `ramet corpus`"});
  const auto ordered = nlohmann::ordered_json::parse(read_file(path), nullptr, false);
  if (!ordered.is_object()) bad_manifest(path, "not a JSON object");
  if (ordered.value("format", nlohmann::ordered_json()) != "ramet-corpus") bad_manifest(path, "not of a corpus");
  if (ordered.value("version", nlohmann::ordered_json()) != 1)
    bad_manifest(path, "unknown version", ordered.value("version", nlohmann::ordered_json()).dump(), "1");
  if (ordered.value("checksum", nlohmann::ordered_json()) != manifest_checksum(ordered))
    bad_manifest(path, "its checksum is wrong");
  const nlohmann::json manifest = ordered;
  auto state = std::make_shared<State>();
  try {
    state->folder = folder;
    state->tokenizer = load_tokenizer(folder / "tokenizer");
    if (const auto& built = manifest.at("tokenizer").at("hash"); built != state->tokenizer->hash().hex())
      throw Error({.what = "the tokenizer is not the one that built the corpus",
                   .where = (folder / "tokenizer").string() + ", offset 0",
                   .found = state->tokenizer->hash().hex(),
                   .expected = built.get<std::string>(),
                   .remedy = "Put its files back, or build the corpus again"});
    const auto& splits = manifest.at("splits");
    if (!splits.contains(split)) {
      std::string there;
      for (const auto& [name, ignored_split] : splits.items()) there += (there.empty() ? "" : ", ") + name;
      throw Error({.what = "the corpus has no split '" + std::string(split) + "'",
                   .where = path.string(),
                   .expected = there,
                   .remedy = "Build it with a held-out share, as in `ramet corpus --heldout 0.01`"});
    }
    state->open_shards(path, manifest, splits.at(std::string(split)), check);
  } catch (const nlohmann::json::exception& error) {
    bad_manifest(path, std::string("a key is missing or of another kind (") + error.what() + ")");
  }
  if (state->counts.documents == 0)
    throw Error({.what = "split '" + std::string(split) + "' is empty", .where = path.string()});
  return Corpus(state);
}

const CorpusCounts& Corpus::counts() const { return state_->counts; }
const Tokenizer& Corpus::tokenizer() const { return *state_->tokenizer; }
Hash Corpus::hash() const { return state_->hash; }
const fs::path& Corpus::folder() const { return state_->folder; }

Corpus::Range Corpus::document_sentences(int64_t document) const {
  const auto& part = state_->of_document(document);
  const int64_t local = document - part.first_document;
  return {part.first_sentence + part.shard.document_begin(local),
          part.first_sentence + part.shard.document_begin(local + 1)};
}

int64_t Corpus::document_tokens(int64_t document) const {
  const auto& part = state_->of_document(document);
  const int64_t local = document - part.first_document;
  return int64_t{part.shard.sentence_begin(part.shard.document_begin(local + 1))} -
         part.shard.sentence_begin(part.shard.document_begin(local));
}

int64_t Corpus::document_of_sentence(int64_t sentence) const {
  const auto& part = state_->of_sentence(sentence);
  return part.first_document + part.shard.document_of_sentence(sentence - part.first_sentence);
}

int32_t Corpus::sentence_length(int64_t sentence) const {
  const auto& part = state_->of_sentence(sentence);
  const int64_t local = sentence - part.first_sentence;
  return static_cast<int32_t>(part.shard.sentence_begin(local + 1) - part.shard.sentence_begin(local));
}

void Corpus::append_sentence(int64_t sentence, std::vector<int32_t>& tokens) const {
  const auto& part = state_->of_sentence(sentence);
  const int64_t local = sentence - part.first_sentence;
  part.shard.append(part.shard.sentence_begin(local), part.shard.sentence_begin(local + 1), tokens);
}

void Corpus::append_document_part(int64_t document, int64_t begin, int64_t end, std::vector<int32_t>& tokens) const {
  const auto& part = state_->of_document(document);
  const int64_t first = part.shard.sentence_begin(part.shard.document_begin(document - part.first_document));
  part.shard.append(first + begin, first + end, tokens);
}

}  // namespace ramet::text
