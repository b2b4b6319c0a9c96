#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::text {

/// Tokens by id and ids by token. Immutable once built.
class Vocabulary {
 public:
  Vocabulary() = default;
  /// Takes tokens in id order. `where` names their source in the Error for a token given twice or an empty list.
  explicit Vocabulary(std::vector<std::string> tokens, const std::string& where = "vocabulary");

  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  const std::string& token(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  const std::vector<std::string>& tokens() const { return tokens_; }
  /// The id of `token`, or -1.
  int32_t find(std::string_view token) const;

 private:
  std::vector<std::string> tokens_;
  std::vector<int32_t> slots_;  // open addressing, -1 is free
};

/// vocab.txt: one token a line, the line number (from 0) is the id. Error names file and line.
Vocabulary read_vocabulary_text(const std::filesystem::path& path);
/// vocab.json or encoder.json: an object of token to id, ids 0..n-1 each once. Error names the file and the token.
Vocabulary read_vocabulary_json(const std::filesystem::path& path);
/// The same formats, written atomically.
void write_vocabulary_text(const std::filesystem::path& path, const Vocabulary& vocabulary);
void write_vocabulary_json(const std::filesystem::path& path, const Vocabulary& vocabulary);

}  // namespace ramet::text
