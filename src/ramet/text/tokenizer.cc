#include "ramet/text/tokenizer.h"

#include <array>
#include <atomic>
#include <nlohmann/json.hpp>
#include <optional>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/thread_team.h"
#include "ramet/text/bpe.h"
#include "ramet/text/tokenizer_json.h"
#include "ramet/text/wordpiece.h"

namespace ramet::text {
namespace fs = std::filesystem;

Tokenizer::Tokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

std::vector<int32_t> Tokenizer::encode(std::string_view text, SpecialText special) const {
  std::vector<int32_t> ids;
  encode_into(text, ids, nullptr, special);
  return ids;
}

Encoding Tokenizer::encode_with_spans(std::string_view text, SpecialText special) const {
  Encoding encoding;
  encode_into(text, encoding.ids, &encoding.spans, special);
  return encoding;
}

std::vector<std::vector<int32_t>> Tokenizer::encode_batch(std::span<const std::string_view> texts, ThreadTeam& team,
                                                          SpecialText special) const {
  std::vector<std::vector<int32_t>> results(texts.size());
  // Texts differ in length, so threads take the next few when they are done; each result has its own place.
  constexpr size_t kTake = 16;
  std::atomic<size_t> taken{0};
  team.run([&](int) {
    std::vector<int32_t> ids;
    for (size_t begin; (begin = taken.fetch_add(kTake)) < texts.size();)
      for (size_t i = begin; i < std::min(begin + kTake, texts.size()); ++i) {
        ids.clear();
        encode_into(texts[i], ids, nullptr, special);
        results[i].assign(ids.begin(), ids.end());
      }
  });
  return results;
}

int32_t Tokenizer::require_special(std::string_view token, std::string_view user) const {
  const int32_t id = vocabulary_.find(token);
  if (id < 0)
    throw Error(
        {.what = "the vocabulary has no token " + std::string(token) + ", which " + std::string(user) + " needs",
         .found = std::to_string(vocabulary_size()) + " tokens of kind " + std::string(kind()),
         .expected = std::string(token) + " among them",
         .remedy = "Train a vocabulary with this special token, or add it to the vocabulary file"});
  return id;
}

const std::string& Tokenizer::checked_token(int32_t id) const {
  if (id < 0 || id >= vocabulary_size())
    throw Error({.what = "a token id outside the vocabulary",
                 .found = std::to_string(id),
                 .expected = "0 to " + std::to_string(vocabulary_size() - 1)});
  return vocabulary_.token(id);
}

namespace {

nlohmann::json read_config(const fs::path& folder) {
  const fs::path path = folder / "tokenizer_config.json";
  if (!fs::exists(path)) return nlohmann::json::object();
  auto json = nlohmann::json::parse(read_file(path), nullptr, false);
  if (!json.is_object())
    throw Error({.what = "not a tokenizer configuration", .where = path.string(), .expected = "a JSON object"});
  return json;
}

bool config_flag(const nlohmann::json& config, const fs::path& folder, const char* key, bool otherwise) {
  if (!config.contains(key) || config[key].is_null()) return otherwise;
  if (!config[key].is_boolean())
    throw Error({.what = std::string("key '") + key + "' is not a flag",
                 .where = (folder / "tokenizer_config.json").string(),
                 .found = config[key].dump(),
                 .expected = "true or false"});
  return config[key].get<bool>();
}

std::unique_ptr<Tokenizer> load_wordpiece(const fs::path& vocab) {
  const fs::path folder = vocab.parent_path();
  const auto config = read_config(folder);
  WordPieceOptions options;
  options.lower_case = config_flag(config, folder, "do_lower_case", options.lower_case);
  if (config.contains("strip_accents") && !config["strip_accents"].is_null())
    options.strip_accents = config_flag(config, folder, "strip_accents", true);
  options.clean_text = config_flag(config, folder, "clean_text", options.clean_text);
  options.split_cjk = config_flag(config, folder, "tokenize_chinese_chars", options.split_cjk);
  if (const auto limit = config.find("max_input_chars_per_word"); limit != config.end()) {
    if (!limit->is_number_integer() || *limit < 1 || *limit > 1000000)
      throw Error({.what = "key 'max_input_chars_per_word' is out of range",
                   .where = (folder / "tokenizer_config.json").string(),
                   .found = limit->dump(),
                   .expected = "1 to 1000000"});
    options.max_word_characters = limit->get<int>();
  }
  return WordPieceTokenizer::load(vocab, options);
}

std::unique_ptr<Tokenizer> load_bpe(const fs::path& json, const fs::path& merges) {
  const fs::path folder = json.parent_path();
  BpeOptions options;
  options.add_prefix_space = config_flag(read_config(folder), folder, "add_prefix_space", options.add_prefix_space);
  return BpeTokenizer::load(json, merges, options);
}

/// The first of `names`, each after `prefix`, that stands in `folder`, or an empty path.
template <size_t N>
fs::path first_there(const fs::path& folder, const std::string& prefix, const std::array<const char*, N>& names) {
  for (const char* name : names)
    if (std::error_code ignored; fs::exists(folder / (prefix + name), ignored)) return folder / (prefix + name);
  return {};
}

constexpr std::array kJsonNames = {"vocab.json", "encoder.json"};
constexpr std::array kMergesNames = {"merges.txt", "vocab.bpe", "merges.bpe"};

/// What stands before a public name in a file's name ("gpt2-" of gpt2-encoder.json), or null when it has none.
template <size_t N>
std::optional<std::string> prefix_of(const std::string& file, const std::array<const char*, N>& names) {
  for (const std::string_view name : names)
    if (file.ends_with(name)) return file.substr(0, file.size() - name.size());
  return {};
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    throw Error({.what = "no tokenizer here",
                 .where = path.string(),
                 .expected = "a folder with vocab.txt, with vocab.json and merges.txt or with tokenizer.json, or one of "
                             "these files",
                 .remedy = "Train one with `ramet vocab`, or name the folder of a published model"});
  const bool folder = fs::is_directory(path, ignored);
  if (!folder && path.filename().string().ends_with("tokenizer.json")) return load_tokenizer_json(path);
  const fs::path base = folder ? path : path.parent_path();
  const std::string file = folder ? "vocab.json" : path.filename().string();
  const auto json_prefix = prefix_of(file, kJsonNames), merges_prefix = prefix_of(file, kMergesNames);
  if (!json_prefix && !merges_prefix) return load_wordpiece(path);
  const std::string prefix = json_prefix ? *json_prefix : *merges_prefix;
  const fs::path json = json_prefix && !folder ? path : first_there(base, prefix, kJsonNames);
  const fs::path merges = merges_prefix ? path : first_there(base, prefix, kMergesNames);
  if (!json.empty() && !merges.empty()) return load_bpe(json, merges);
  if (folder && fs::exists(path / "vocab.txt", ignored)) return load_wordpiece(path / "vocab.txt");
  if (folder && fs::exists(path / "tokenizer.json", ignored)) return load_tokenizer_json(path / "tokenizer.json");
  throw Error({.what = "no whole tokenizer here",
               .where = path.string(),
               .found = json.empty() ? (merges.empty() ? "none of its files" : "merges without vocab.json")
                                     : "vocab.json without merges.txt",
               .expected = "vocab.txt, or vocab.json (encoder.json) with merges.txt (vocab.bpe), or tokenizer.json"});
}

std::vector<TokenSpan> spans_in_characters(std::string_view text, std::span<const TokenSpan> spans) {
  // Characters that begin before each byte offset; one pass, as spans may overlap or step back.
  std::vector<uint32_t> before(text.size() + 1);
  uint32_t count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    before[i] = count;
    count += (static_cast<uint8_t>(text[i]) & 0xC0) != 0x80;
  }
  before[text.size()] = count;
  std::vector<TokenSpan> result;
  result.reserve(spans.size());
  for (const TokenSpan& span : spans) {
    // A span of BPE may begin inside a character: it counts as that character.
    uint32_t begin = before[span.begin];
    if (span.begin < text.size() && (static_cast<uint8_t>(text[span.begin]) & 0xC0) == 0x80 && begin > 0) --begin;
    result.push_back({begin, before[span.end]});
  }
  return result;
}

}  // namespace ramet::text
