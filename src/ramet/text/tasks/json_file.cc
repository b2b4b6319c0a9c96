#include "ramet/text/tasks/json_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/base/file.h"

namespace ramet::text {
namespace {

using nlohmann::json;

/// One step from a value to the next one inside it.
struct Step {
  const std::string* key = nullptr;  // null: an element of an array
  size_t index = 0;                  // of the element, or of the member in the order of the file's text
};

/// The way from `root` to `wanted`, by looking at every value: only for errors. Without recursion, as input may nest.
std::vector<Step> way_to(const json& root, const json& wanted) {
  struct Frame {
    json::const_iterator at, end;
    size_t index = 0;
  };
  std::vector<Frame> stack;
  std::vector<Step> way;
  if (&root == &wanted) return way;
  stack.push_back({root.begin(), root.end()});
  while (!stack.empty()) {
    Frame& top = stack.back();
    if (top.at == top.end) {
      stack.pop_back();
      if (!stack.empty()) ++stack.back().at, ++stack.back().index;
      continue;
    }
    const json& value = *top.at;
    if (&value == &wanted) break;
    if (value.is_structured())
      stack.push_back({value.begin(), value.end()});
    else
      ++top.at, ++top.index;
  }
  const json* holder = &root;
  for (const Frame& frame : stack) {
    way.push_back({holder->is_object() ? &frame.at.key() : nullptr, frame.index});
    holder = &*frame.at;
  }
  return way;
}

/// Walks over JSON text that is known to be well formed.
class Scanner {
 public:
  Scanner(std::string_view text) : text_(text) { blanks(); }
  size_t position() const { return at_; }

  void enter_element(size_t index) {
    open();
    for (size_t i = 0; i < index && at_ < text_.size(); ++i) next_value();
  }
  /// The last member of that key is the one that counts.
  void enter_member(const std::string& key) {
    open();
    size_t found = at_;
    while (at_ < text_.size() && text_[at_] == '"') {
      const size_t begin = at_;
      skip_value();
      const json name = json::parse(text_.substr(begin, at_ - begin), nullptr, false);
      blanks();
      ++at_;  // the colon
      blanks();
      if (name.is_string() && name.get_ref<const std::string&>() == key) found = at_;
      next_value();
    }
    at_ = found;
  }

 private:
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
      ++at_;
  }
  void open() {
    ++at_;
    blanks();
  }
  void next_value() {
    skip_value();
    blanks();
    if (at_ < text_.size() && text_[at_] == ',') ++at_;
    blanks();
  }
  void skip_value() {
    size_t depth = 0;
    do {
      const char c = text_[at_];
      if (c == '"') {
        for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) at_ += text_[at_] == '\\';
        ++at_;
      } else if (c == '{' || c == '[') {
        ++depth, ++at_;
      } else if (c == '}' || c == ']') {
        if (depth == 0) return;
        --depth, ++at_;
      } else if (depth == 0) {
        while (at_ < text_.size() && std::string_view(",]} \t\r\n:").find(text_[at_]) == std::string_view::npos) ++at_;
        return;
      } else {
        ++at_;
      }
    } while (depth > 0 && at_ < text_.size());
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr size_t kMost = 60;
  if (text.size() <= kMost) return "'" + std::string(text) + "'";
  size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return "'" + std::string(text.substr(0, end)) + "...'";
}

std::string describe(const nlohmann::json& value) {
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  if (value.is_array()) return "an array of " + std::to_string(value.size());
  if (value.is_object()) {
    if (value.empty()) return "an object without members";
    std::string keys;
    for (auto member = value.begin(); member != value.end() && keys.size() < 60; ++member)
      keys += (keys.empty() ? "" : ", ") + in_quotes(member.key());
    return "an object with " + keys;
  }
  return value.dump();
}

JsonFile::JsonFile(const std::filesystem::path& path) : name_(path.string()), text_(read_file(path)) { parse(); }
JsonFile::JsonFile(std::string name, std::string text, int64_t first_line)
    : name_(std::move(name)), text_(std::move(text)), first_line_(first_line) {
  parse();
}
JsonFile::~JsonFile() = default;

void JsonFile::parse() {
  if (text_.starts_with("\xEF\xBB\xBF")) text_.erase(0, 3);
  try {
    root_ = std::make_unique<json>(json::parse(text_));
  } catch (const json::exception& error) {
    size_t byte = text_.size();
    if (const auto* syntax = dynamic_cast<const json::parse_error*>(&error)) byte = std::min(byte, syntax->byte);
    if (byte > 0) --byte;
    const auto lines = std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(byte), '\n');
    const size_t begin = byte == 0 ? 0 : text_.rfind('\n', byte - 1) + 1;  // npos + 1 is 0
    std::string reason = error.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while ...; last read: '...'"
    if (const size_t colon = reason.find(": "); reason.starts_with("[") && colon != std::string::npos)
      reason.erase(0, colon + 2);
    throw Error({.what = "not JSON: " + reason.substr(0, reason.find("; last read")),
                 .where = name_ + ":" + std::to_string(first_line_ + lines) + ", column " +
                          std::to_string(byte - begin + 1),
                 .found = text_.empty()         ? "an empty file"
                          : byte + 1 >= text_.size() ? "the end of the text"
                                                     : in_quotes(std::string_view(text_).substr(byte, 20)),
                 .expected = "JSON in UTF-8"});
  }
}

std::string JsonFile::where(const json& value) const {
  const std::vector<Step> way = way_to(*root_, value);
  Scanner scanner(text_);
  std::string place;
  for (const Step& step : way) {
    if (step.key) {
      scanner.enter_member(*step.key);
      place += (place.empty() ? "" : ".") + (step.key->size() <= 40 ? *step.key : in_quotes(*step.key));
    } else {
      scanner.enter_element(step.index);
      place += "[" + std::to_string(step.index) + "]";
    }
    if (place.size() > 400) {  // no published format nests so deep
      place += "...";
      break;
    }
  }
  const size_t end = std::min(scanner.position(), text_.size());
  const auto lines = std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(end), '\n');
  return name_ + ":" + std::to_string(first_line_ + lines) + (place.empty() ? "" : " " + place);
}

std::string JsonNode::where() const { return file_->where(*value_); }

void JsonNode::fail(const std::string& what, const std::string& found, const std::string& expected,
                    const std::string& remedy) const {
  throw Error({.what = what, .where = where(), .found = found, .expected = expected, .remedy = remedy});
}

bool JsonNode::is_text() const { return value_->is_string(); }

size_t JsonNode::size() const {
  if (!value_->is_structured()) fail("not a list", describe(*value_), "an array");
  return value_->size();
}

JsonNode JsonNode::operator[](size_t index) const {
  if (!value_->is_array()) fail("not a list", describe(*value_), "an array");
  return {*file_, (*value_)[index]};
}

std::optional<JsonNode> JsonNode::find(std::string_view key) const {
  if (!value_->is_object()) fail("not an object", describe(*value_), "an object with '" + std::string(key) + "'");
  const auto member = value_->find(std::string(key));
  if (member == value_->end() || member->is_null()) return std::nullopt;
  return JsonNode(*file_, *member);
}

JsonNode JsonNode::at(std::string_view key) const {
  const auto member = find(key);
  if (!member) fail("no '" + std::string(key) + "'", describe(*value_), "a member '" + std::string(key) + "'");
  return *member;
}

const std::string& JsonNode::text() const {
  if (!value_->is_string()) fail("not a text", describe(*value_), "a string");
  return value_->get_ref<const std::string&>();
}

std::string JsonNode::scalar() const {
  if (value_->is_string()) return text();
  if (value_->is_structured() || value_->is_null())
    fail("not one value", describe(*value_), "a string, a number, true or false");
  return value_->dump();
}

int64_t JsonNode::integer() const {
  if (!value_->is_number_integer() || (value_->is_number_unsigned() && value_->get<uint64_t>() > INT64_MAX))
    fail("not a whole number", describe(*value_), "a whole number");
  return value_->get<int64_t>();
}

double JsonNode::number() const {
  if (!value_->is_number()) fail("not a number", describe(*value_), "a number");
  return value_->get<double>();
}

bool JsonNode::flag() const {
  if (!value_->is_boolean()) fail("not a flag", describe(*value_), "true or false");
  return value_->get<bool>();
}

}  // namespace ramet::text
