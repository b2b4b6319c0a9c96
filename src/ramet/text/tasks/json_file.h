#pragma once

// JSON files whose faults are reported with file, line and place. Inside data/ and cli/ only.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "ramet/base/house.h"

namespace ramet::text {

class JsonFile;

/// A value of a JsonFile, which must outlive it. A request that the value does not fit throws Error with the place of
/// the value: "dev.json:12 data[0].paragraphs[3].qas[1].id".
class JsonNode {
 public:
  JsonNode(const JsonFile& file, const nlohmann::json& value) : file_(&file), value_(&value) {}

  const nlohmann::json& json() const { return *value_; }
  bool is_text() const;
  /// Elements of an array, or members of an object; Error for anything else.
  size_t size() const;
  JsonNode operator[](size_t index) const;
  /// The member of an object; Error when there is none.
  JsonNode at(std::string_view key) const;
  /// The member, or none (also when it is null); Error when this is no object.
  std::optional<JsonNode> find(std::string_view key) const;
  const std::string& text() const;
  /// A string, or a number or true or false as a string.
  std::string scalar() const;
  int64_t integer() const;
  double number() const;
  bool flag() const;

  std::string where() const;
  [[noreturn]] void fail(const std::string& what, const std::string& found, const std::string& expected,
                         const std::string& remedy = "") const;

 private:
  const JsonFile* file_;
  const nlohmann::json* value_;
};

/// A JSON document and the text that it was read from.
class JsonFile {
 public:
  /// Error when the file cannot be read or is no JSON, with line and column.
  explicit JsonFile(const std::filesystem::path& path);
  /// The same for text that is at hand; `first_line` is the number of its first line in the file.
  JsonFile(std::string name, std::string text, int64_t first_line = 1);
  ~JsonFile();
  JsonFile(const JsonFile&) = delete;
  JsonFile& operator=(const JsonFile&) = delete;

  JsonNode root() const { return {*this, *root_}; }
  const std::string& name() const { return name_; }
  const std::string& text() const { return text_; }
  /// "FILE:LINE PLACE" of a value of this document.
  std::string where(const nlohmann::json& value) const;

 private:
  void parse();
  std::string name_, text_;
  int64_t first_line_ = 1;
  std::unique_ptr<nlohmann::json> root_;
};

/// A value in a few words, as it is named in errors: "'text'", "12", "an array of 3".
std::string describe(const nlohmann::json& value);
/// Text in quotes, cut after about 60 bytes between characters.
std::string in_quotes(std::string_view text);

}  // namespace ramet::text
