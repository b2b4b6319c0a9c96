#include "ramet/text/vocabulary.h"

#include <bit>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/hash.h"

namespace ramet::text {

Vocabulary::Vocabulary(std::vector<std::string> tokens, const std::string& where) : tokens_(std::move(tokens)) {
  if (tokens_.empty())
    throw Error({.what = "the vocabulary is empty", .where = where, .expected = "one token or more"});
  slots_.assign(std::bit_ceil(tokens_.size() * 2), -1);
  const uint64_t mask = slots_.size() - 1;
  for (int32_t id = 0; id < size(); ++id) {
    uint64_t slot = hash64(token(id)) & mask;
    for (; slots_[slot] >= 0; slot = (slot + 1) & mask)
      if (token(slots_[slot]) == token(id))
        throw Error({.what = "token '" + token(id) + "' is in the vocabulary twice",
                     .where = where,
                     .found = "ids " + std::to_string(slots_[slot]) + " and " + std::to_string(id),
                     .remedy = "Remove one of them"});
    slots_[slot] = id;
  }
}

int32_t Vocabulary::find(std::string_view wanted) const {
  if (slots_.empty()) return -1;
  const uint64_t mask = slots_.size() - 1;
  for (uint64_t slot = hash64(wanted) & mask; slots_[slot] >= 0; slot = (slot + 1) & mask)
    if (tokens_[static_cast<size_t>(slots_[slot])] == wanted) return slots_[slot];
  return -1;
}

Vocabulary read_vocabulary_text(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  std::vector<std::string> tokens;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    std::string line = text.substr(begin, end - begin);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty())
      throw Error({.what = "an empty token",
                   .where = path.string() + ":" + std::to_string(tokens.size() + 1),
                   .expected = "one token a line",
                   .remedy = "Remove the empty line, if the ids of later tokens allow it"});
    tokens.push_back(std::move(line));
    begin = end + 1;
  }
  return Vocabulary(std::move(tokens), path.string());
}

Vocabulary read_vocabulary_json(const std::filesystem::path& path) {
  const auto json = nlohmann::json::parse(read_file(path), nullptr, false);
  const std::string where = path.string();
  if (!json.is_object())
    throw Error({.what = "not a vocabulary", .where = where, .expected = "a JSON object of token to id"});
  std::vector<std::string> tokens(json.size());
  std::vector<bool> seen(json.size());
  for (const auto& [token, id] : json.items()) {
    if (!id.is_number_integer() || id < 0 || id >= static_cast<int64_t>(json.size()) || seen[id.get<size_t>()])
      throw Error({.what = "the id of token '" + token + "' is not of use",
                   .where = where,
                   .found = id.dump(),
                   .expected = "each of 0 to " + std::to_string(json.size() - 1) + " once"});
    seen[id.get<size_t>()] = true;
    tokens[id.get<size_t>()] = token;
  }
  return Vocabulary(std::move(tokens), where);
}

void write_vocabulary_text(const std::filesystem::path& path, const Vocabulary& vocabulary) {
  std::string text;
  for (const auto& token : vocabulary.tokens()) {
    if (token.empty() || token.find_first_of("\r\n") != std::string::npos)
      throw Error({.what = "a token that a line cannot hold", .where = path.string(), .found = "'" + token + "'"});
    text += token + '\n';
  }
  write_file_atomic(path, text);
}

void write_vocabulary_json(const std::filesystem::path& path, const Vocabulary& vocabulary) {
  std::string text = "{";
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (id) text += ", ";
    text += nlohmann::json(vocabulary.token(id)).dump(-1, ' ', true) + ": " + std::to_string(id);
  }
  write_file_atomic(path, text + "}");
}

}  // namespace ramet::text
