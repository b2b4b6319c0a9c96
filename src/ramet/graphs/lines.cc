#include "ramet/graphs/lines.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ramet/base/error_types.h"
#include "ramet/base/words.h"

namespace ramet::graphs {

bool Lines::next() {
  if (rest_.empty()) return false;
  const size_t end = std::min(rest_.find('\n'), rest_.size());
  line_ = rest_.substr(0, end);
  rest_.remove_prefix(std::min(end + 1, rest_.size()));
  if (line_.ends_with('\r')) line_.remove_suffix(1);
  ++number_;
  return true;
}

void Lines::fail(const std::string& what, std::string_view found, const std::string& expected,
                 const std::string& remedy) const {
  throw FormatError({.what = what,
                     .where = number_ > 0 ? source_ + ":" + std::to_string(number_) : source_,
                     .found = found.data() ? "'" + std::string(found.substr(0, 100)) + "'" : "",
                     .expected = expected,
                     .remedy = remedy});
}

int64_t Lines::whole(std::string_view word, int64_t low, int64_t high) const {
  word = trimmed(word);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < low || value > high)
    fail("a number is none, or out of range", word,
         "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  return value;
}

double Lines::real(std::string_view word, const std::string& remedy) const {
  word = trimmed(word);
  if (word.starts_with('+')) word.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || !std::isfinite(value))
    fail("a number is none, or not finite", word, "a finite number", remedy);
  return value;
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> words;
  for (;;) {
    const size_t end = text.find(separator);
    words.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return words;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    const size_t end = std::min(text.find_first_of(" \t"), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

int64_t CsvTable::find(std::string_view column) const {
  const auto found = std::find(header.begin(), header.end(), column);
  return found == header.end() ? -1 : found - header.begin();
}

size_t CsvTable::at(std::string_view column) const {
  const int64_t found = find(column);
  if (found < 0)
    throw FormatError({.what = "the table has no such column",
                       .where = source,
                       .found = "'" + std::string(column) + "'",
                       .expected = "one of " + joined(header)});
  return static_cast<size_t>(found);
}

CsvTable parse_csv(std::string_view text, const std::string& source) {
  CsvTable table{.source = source, .header = {}, .rows = {}, .lines = {}};
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  int64_t line = 1;
  const auto fail = [&](const std::string& what, const std::string& found = "", const std::string& expected = "") {
    throw FormatError(
        {.what = what, .where = source + ":" + std::to_string(line), .found = found, .expected = expected});
  };
  size_t at = 0;
  while (at < text.size()) {
    const int64_t first_line = line;
    std::vector<std::string> row;
    for (bool more = true; more;) {
      std::string cell;
      if (at < text.size() && text[at] == '"') {
        for (++at;; ++at) {
          if (at >= text.size()) fail("a quoted cell does not end");
          if (text[at] == '\n') ++line;
          if (text[at] == '"') {
            if (at + 1 >= text.size() || text[at + 1] != '"') break;
            ++at;
          }
          cell += text[at];
        }
        ++at;
      } else {
        while (at < text.size() && text[at] != ',' && text[at] != '\n') cell += text[at++];
        if (cell.ends_with('\r')) cell.pop_back();
      }
      if (at < text.size() && text[at] == '\r') ++at;
      more = at < text.size() && text[at] == ',';
      if (at < text.size() && !more && text[at] != '\n') fail("something stands behind a quoted cell");
      ++at;
      row.push_back(std::move(cell));
    }
    ++line;
    if (row.size() == 1 && row[0].empty()) continue;  // an empty line
    if (table.header.empty()) {
      table.header = std::move(row);
      continue;
    }
    if (row.size() != table.header.size()) {
      line = first_line;
      fail("a row has another number of cells than the header", std::to_string(row.size()),
           std::to_string(table.header.size()));
    }
    table.rows.push_back(std::move(row));
    table.lines.push_back(first_line);
  }
  if (table.header.empty()) fail("the table has no header");
  return table;
}

int32_t Names::number_of(std::string_view name) {
  const auto [found, is_new] = numbers_.try_emplace(std::string(name), static_cast<int32_t>(names_.size()));
  if (is_new) names_.emplace_back(name);
  return found->second;
}

}  // namespace ramet::graphs
