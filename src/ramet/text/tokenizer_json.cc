#include "ramet/text/tokenizer_json.h"

#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/text/bpe.h"
#include "ramet/text/wordpiece.h"

namespace ramet::text {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class TokenizerFile {
 public:
  TokenizerFile(const json& file, const fs::path& path) : file_(file), path_(path) {}

  std::unique_ptr<Tokenizer> read() const {
    const json& model = table(file_, "model", "model");
    // Older files leave the type out: only BPE has merges.
    const std::string type = model.contains("type")     ? text(model, "type", "model.type")
                             : model.contains("merges") ? "BPE"
                                                        : "WordPiece";
    if (type == "WordPiece") return wordpiece(model);
    if (type == "BPE") return bpe(model);
    refuse("a tokenizer of a kind that is not built in", "model.type", type, "WordPiece or BPE");
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& key, const std::string& found,
                           const std::string& expected) const {
    throw Error({.what = what,
                 .where = path_.string() + " '" + key + "'",
                 .found = found.substr(0, 200),
                 .expected = expected,
                 .remedy = "Where vocab.txt, or vocab.json with merges.txt, lie beside it, name one of these"});
  }
  const json& table(const json& parent, const char* key, const std::string& name) const {
    if (!parent.contains(key) || !parent[key].is_object()) refuse("a part is missing", name, "nothing", "a table");
    return parent[key];
  }
  std::string text(const json& parent, const char* key, const std::string& name) const {
    if (!parent.contains(key) || !parent[key].is_string()) refuse("not a text", name, dump(parent, key), "a text");
    return parent[key].get<std::string>();
  }
  static std::string dump(const json& parent, const char* key) {
    return parent.contains(key) ? parent[key].dump(-1, ' ', false, json::error_handler_t::replace) : "nothing";
  }
  bool flag(const json& parent, const char* key, const std::string& name, bool otherwise) const {
    if (!parent.contains(key) || parent[key].is_null()) return otherwise;
    if (!parent[key].is_boolean()) refuse("not a flag", name, dump(parent, key), "true or false");
    return parent[key].get<bool>();
  }
  /// The type of a part, or of each part of a Sequence of them; empty when there is none.
  std::vector<const json*> parts(const char* key, const char* inner) const {
    if (!file_.contains(key) || file_[key].is_null()) return {};
    const json& part = table(file_, key, key);
    if (text(part, "type", std::string(key) + ".type") != "Sequence") return {&part};
    std::vector<const json*> all;
    if (!part.contains(inner) || !part[inner].is_array()) refuse("a part is missing", key, "nothing", "a list");
    for (const json& each : part[inner])
      if (each.is_object()) all.push_back(&each);
    return all;
  }

  /// The vocabulary with the added tokens behind it, in order of ids.
  Vocabulary vocabulary(const json& model) const {
    std::vector<std::string> tokens;
    std::vector<bool> there;
    const auto put = [&](const std::string& token, const json& id, const std::string& key) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() >= 10'000'000)
        refuse("not an id", key, id.dump(), "0 to 9999999");
      const auto at = id.get<size_t>();
      if (at >= tokens.size()) tokens.resize(at + 1), there.resize(at + 1);
      if (there[at] && tokens[at] != token) refuse("an id given twice", key, std::to_string(at), "each once");
      tokens[at] = token;
      there[at] = true;
    };
    for (const auto& [token, id] : table(model, "vocab", "model.vocab").items()) put(token, id, "model.vocab");
    if (file_.contains("added_tokens") && file_["added_tokens"].is_array())
      for (const json& added : file_["added_tokens"])
        if (added.is_object() && added.contains("id"))
          put(text(added, "content", "added_tokens"), added["id"], "added_tokens");
    for (size_t id = 0; id < there.size(); ++id)
      if (!there[id]) refuse("an id without a token", "model.vocab", std::to_string(id), "all from 0");
    return Vocabulary(std::move(tokens), path_.string());
  }

  std::unique_ptr<Tokenizer> wordpiece(const json& model) const {
    if (model.contains("continuing_subword_prefix") && model["continuing_subword_prefix"] != "##")
      refuse("pieces of a kind that is not built in", "model.continuing_subword_prefix",
             dump(model, "continuing_subword_prefix"), "##");
    WordPieceOptions options;
    options.lower_case = options.clean_text = options.split_cjk = false;
    for (const json* part : parts("normalizer", "normalizers")) {
      if (const std::string type = text(*part, "type", "normalizer.type"); type != "BertNormalizer")
        refuse("a normalizer of a kind that is not built in", "normalizer.type", type, "BertNormalizer");
      options.lower_case = flag(*part, "lowercase", "normalizer.lowercase", true);
      options.clean_text = flag(*part, "clean_text", "normalizer.clean_text", true);
      options.split_cjk = flag(*part, "handle_chinese_chars", "normalizer.handle_chinese_chars", true);
      if (part->contains("strip_accents") && !(*part)["strip_accents"].is_null())
        options.strip_accents = flag(*part, "strip_accents", "normalizer.strip_accents", true);
    }
    for (const json* part : parts("pre_tokenizer", "pretokenizers"))
      if (const std::string type = text(*part, "type", "pre_tokenizer.type"); type != "BertPreTokenizer")
        refuse("words cut in a way that is not built in", "pre_tokenizer.type", type, "BertPreTokenizer");
    if (model.contains("max_input_chars_per_word")) {
      const json& most = model["max_input_chars_per_word"];
      if (!most.is_number_unsigned() || most.get<uint64_t>() < 1 || most.get<uint64_t>() > 1'000'000)
        refuse("out of range", "model.max_input_chars_per_word", most.dump(), "1 to 1000000");
      options.max_word_characters = most.get<int>();
    }
    return std::make_unique<WordPieceTokenizer>(vocabulary(model), options);
  }

  std::unique_ptr<Tokenizer> bpe(const json& model) const {
    BpeOptions options;
    bool bytes = false;
    for (const json* part : parts("pre_tokenizer", "pretokenizers")) {
      if (const std::string type = text(*part, "type", "pre_tokenizer.type"); type != "ByteLevel")
        refuse("words cut in a way that is not built in", "pre_tokenizer.type", type, "ByteLevel");
      options.add_prefix_space = flag(*part, "add_prefix_space", "pre_tokenizer.add_prefix_space", true);
      bytes = flag(*part, "use_regex", "pre_tokenizer.use_regex", true);
    }
    if (!bytes) refuse("a BPE that is not of bytes", "pre_tokenizer", dump(file_, "pre_tokenizer"), "ByteLevel");
    if (!parts("normalizer", "normalizers").empty())
      refuse("a normalizer of a kind that is not built in", "normalizer", dump(file_, "normalizer"), "none");
    if (!model.contains("merges") || !model["merges"].is_array())
      refuse("a part is missing", "model.merges", "nothing", "a list");
    BpeMerges merges;
    for (const json& merge : model["merges"]) merges.push_back(merge_of(merge));
    return std::make_unique<BpeTokenizer>(vocabulary(model), std::move(merges), options);
  }

  /// "a b", or since 2024 ["a", "b"].
  std::pair<std::string, std::string> merge_of(const json& merge) const {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    const std::string both = merge.is_string() ? merge.get<std::string>() : "";
    const size_t space = both.find(' ');
    if (space == 0 || space == std::string::npos || space + 1 >= both.size())
      refuse("not a merge", "model.merges", merge.dump(-1, ' ', false, json::error_handler_t::replace), "two tokens");
    return {both.substr(0, space), both.substr(space + 1)};
  }

  const json& file_;
  const fs::path& path_;
};

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer_json(const fs::path& path) {
  const json file = json::parse(read_file(path), nullptr, false);
  if (!file.is_object()) throw Error({.what = "not a tokenizer", .where = path.string(), .expected = "a JSON object"});
  return TokenizerFile(file, path).read();
}

}  // namespace ramet::text
