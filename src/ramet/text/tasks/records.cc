#include "ramet/text/tasks/records.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/text/tasks/json_file.h"
#include "ramet/text/unicode.h"

namespace ramet::text {
namespace {

/// The lines of a text without their ends.
template <typename Line>
void for_each_line(std::string_view text, Line&& line) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  int64_t number = 1;
  for (size_t begin = 0; begin < text.size(); ++number) {
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view part = text.substr(begin, end - begin);
    if (part.ends_with('\r')) part.remove_suffix(1);
    line(number, part);
    begin = end + 1;
  }
}

std::vector<std::string_view> split_tabs(std::string_view line) {
  std::vector<std::string_view> cells;
  for (size_t begin = 0;;) {
    const size_t end = line.find('\t', begin);
    cells.push_back(line.substr(begin, end - begin));
    if (end == std::string_view::npos) return cells;
    begin = end + 1;
  }
}

std::optional<size_t> as_index(const std::string& name) {
  size_t index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (name.empty() || error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return index;
}

/// The column of each wish; -1: none.
std::vector<int64_t> find_columns(const std::vector<std::string>& columns, const std::vector<ColumnWish>& wishes,
                                  const std::string& where) {
  std::vector<int64_t> found;
  for (const ColumnWish& wish : wishes) {
    int64_t column = -1;
    for (const std::string& name : wish.names) {
      const auto at = std::find(columns.begin(), columns.end(), name);
      if (at != columns.end()) column = at - columns.begin();
      if (const auto index = as_index(name); column < 0 && index && *index < columns.size())
        column = static_cast<int64_t>(*index);
      if (column >= 0) break;
    }
    if (column < 0 && wish.required)
      throw Error({.what = "no column " + list_of(wish.names),
                   .where = where,
                   .found = "columns " + list_of(columns, "and"),
                   .expected = "a column of that name",
                   .remedy = "Check that the file is the one that its task publishes, or name its columns"});
    found.push_back(column);
  }
  return found;
}

/// Whether all that must be there is asked for by number: then there is no head.
bool all_by_number(const std::vector<ColumnWish>& wishes) {
  for (const ColumnWish& wish : wishes)
    for (const std::string& name : wish.names)
      if (wish.required && !as_index(name)) return false;
  return true;
}

/// The value at a dotted name, or null: the whole name is tried as one key first.
const nlohmann::json* find_member(const nlohmann::json& object, std::string_view name) {
  const nlohmann::json* value = &object;
  while (true) {
    if (!value->is_object()) return nullptr;
    if (const auto member = value->find(std::string(name)); member != value->end()) return &*member;
    const size_t dot = name.find('.');
    if (dot == std::string_view::npos) return nullptr;
    const auto member = value->find(std::string(name.substr(0, dot)));
    if (member == value->end()) return nullptr;
    value = &*member;
    name.remove_prefix(dot + 1);
  }
}

}  // namespace

std::string list_of(const std::vector<std::string>& names, const char* last) {
  constexpr size_t kMost = 12;
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMost; ++i) {
    if (i > 0) text += i + 1 == names.size() ? " " + std::string(last) + " " : ", ";
    text += in_quotes(names[i]);
  }
  if (names.size() > kMost) text += ", ... (" + std::to_string(names.size()) + " in all)";
  return names.empty() ? "none" : text;
}

RecordFile read_tsv(const std::filesystem::path& path, const std::vector<ColumnWish>& wishes,
                    const RecordFormat& format) {
  RecordFile file;
  file.path = path.string();
  std::string text = read_file(path);
  file.hash = hash_text(text);
  require_utf8(text, file.path);
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  std::vector<std::string> columns = format.columns;
  std::vector<int64_t> places;
  const bool head_wanted = columns.empty() && !all_by_number(wishes);
  for_each_line(text, [&](int64_t number, std::string_view line) {
    const std::vector<std::string_view> cells = split_tabs(line);
    if (places.empty()) {
      if (head_wanted) {
        columns.assign(cells.begin(), cells.end());
      } else if (columns.empty()) {
        for (size_t i = 0; i < cells.size(); ++i) columns.push_back(std::to_string(i));
      }
      places = find_columns(columns, wishes, file.path + ":" + std::to_string(number));
      for (const int64_t place : places) file.present.push_back(place >= 0);
      if (head_wanted) return;
    }
    if (cells.size() != columns.size()) {
      if (format.skip_other_widths) {
        ++file.skipped;
        return;
      }
      throw Error({.what = "a row with " + std::to_string(cells.size()) + (cells.size() == 1 ? " column" : " columns"),
                   .where = file.path + ":" + std::to_string(number),
                   .found = in_quotes(line),
                   .expected = std::to_string(columns.size()) + " columns separated by tabs: " +
                               list_of(columns, "and")});
    }
    Record record{number, {}};
    for (const int64_t place : places) {
      record.values.emplace_back();
      if (place >= 0) record.values.back().emplace_back(cells[static_cast<size_t>(place)]);
    }
    file.records.push_back(std::move(record));
  });
  if (places.empty())
    throw Error({.what = "an empty file", .where = file.path, .expected = "rows of columns separated by tabs"});
  return file;
}

RecordFile read_json_lines(const std::filesystem::path& path, const std::vector<ColumnWish>& wishes) {
  RecordFile file;
  file.path = path.string();
  const std::string text = read_file(path);
  file.hash = hash_text(text);
  file.present.assign(wishes.size(), false);
  for_each_line(text, [&](int64_t number, std::string_view line) {
    if (line.find_first_not_of(" \t") == std::string_view::npos) return;
    const JsonFile document(file.path, std::string(line), number);
    const JsonNode root = document.root();
    if (!root.json().is_object())
      root.fail("not an object", describe(root.json()), "a JSON object on each line");
    Record record{number, {}};
    for (size_t w = 0; w < wishes.size(); ++w) {
      auto& values = record.values.emplace_back();
      const nlohmann::json* found = nullptr;
      for (const std::string& name : wishes[w].names)
        if (found = find_member(root.json(), name); found && !found->is_null()) break;
      if (!found || found->is_null()) {
        if (wishes[w].required)
          root.fail("no " + list_of(wishes[w].names), describe(root.json()),
                    wishes[w].names.size() > 1 ? "one of them" : "a member of that name",
                    "Check that the file is the one that its task publishes, or name its columns");
        continue;
      }
      file.present[w] = true;
      const JsonNode node(document, *found);
      if (!found->is_array()) {
        values.push_back(node.scalar());
        continue;
      }
      for (size_t i = 0; i < found->size(); ++i) values.push_back(node[i].scalar());
    }
    file.records.push_back(std::move(record));
  });
  if (file.records.empty())
    throw Error({.what = "an empty file", .where = file.path, .expected = "a JSON object on each line"});
  return file;
}

RecordFile read_records(const std::filesystem::path& path, const std::vector<ColumnWish>& wishes,
                        const RecordFormat& format) {
  const MappedFile start(path);
  std::string_view text = start.view().substr(0, 4096);
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{' ? read_json_lines(path, wishes)
                                                               : read_tsv(path, wishes, format);
}

}  // namespace ramet::text
