#include "ramet/text/tasks/conll.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/text/tasks/json_file.h"
#include "ramet/text/tasks/records.h"
#include "ramet/text/unicode.h"

namespace ramet::text {
namespace {

std::vector<std::string_view> split_blanks(std::string_view line) {
  std::vector<std::string_view> cells;
  for (size_t begin = line.find_first_not_of(" \t"); begin != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(" \t", begin), line.size());
    cells.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(" \t", end);
  }
  return cells;
}

/// A label's prefix ('B' of "B-NP", 'O', '[') and type ("NP").
struct Tag {
  char prefix = 'O';
  std::string_view type;
};

Tag parse_tag(std::string_view label) {
  if (label == "O" || label.empty()) return {};
  const size_t dash = label.find('-');
  if (dash == std::string_view::npos) return {label.front(), {}};
  return {label.front(), label.substr(dash + 1)};
}

bool chunk_ends(Tag before, Tag now) {
  if (before.prefix == 'O') return false;
  if (before.prefix == 'E' || before.prefix == 'S' || before.prefix == ']' || before.prefix == '[') return true;
  if (now.prefix == 'B' || now.prefix == 'S' || now.prefix == 'O' || now.prefix == '[') return true;
  return before.type != now.type;
}

bool chunk_begins(Tag before, Tag now) {
  if (now.prefix == 'O') return false;
  if (now.prefix == 'B' || now.prefix == 'S' || now.prefix == '[' || now.prefix == ']') return true;
  if (before.prefix == 'O' || before.prefix == 'E' || before.prefix == 'S' || before.prefix == ']' ||
      before.prefix == '[')
    return true;
  return before.type != now.type;
}

}  // namespace

ConllFile read_conll(const std::filesystem::path& path, int word_column, int label_column) {
  ConllFile file;
  file.path = path.string();
  const std::string text = read_file(path);
  file.hash = hash_text(text);
  require_utf8(text, file.path);
  size_t columns = 0;
  const auto place = [&](int column, int64_t line) {
    const int64_t at = column < 0 ? static_cast<int64_t>(columns) + column : column;
    if (at < 0 || at >= static_cast<int64_t>(columns))
      throw Error({.what = "no column " + std::to_string(column),
                   .where = file.path + ":" + std::to_string(line),
                   .found = std::to_string(columns) + (columns == 1 ? " column" : " columns"),
                   .expected = "a word, and behind it its labels, separated by blanks"});
    return static_cast<size_t>(at);
  };
  LabelledWords sentence;
  const auto flush = [&] {
    if (!sentence.words.empty()) file.sentences.push_back(std::move(sentence));
    sentence = {};
  };
  int64_t number = 0;
  std::string_view rest = text;
  if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);
  while (!rest.empty()) {
    ++number;
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::vector<std::string_view> cells = split_blanks(line);
    if (cells.empty()) {
      flush();
      continue;
    }
    if (cells.front() == "-DOCSTART-") continue;
    if (columns == 0) columns = cells.size();
    if (cells.size() != columns)
      throw Error({.what = "a line with " + std::to_string(cells.size()) + (cells.size() == 1 ? " column" : " columns"),
                   .where = file.path + ":" + std::to_string(number),
                   .found = in_quotes(line),
                   .expected = std::to_string(columns) + ", as on the first line"});
    if (sentence.words.empty()) sentence.line = number;
    sentence.words.emplace_back(cells[place(word_column, number)]);
    if (label_column != kNoLabels) sentence.labels.emplace_back(cells[place(label_column, number)]);
  }
  flush();
  if (file.sentences.empty())
    throw Error({.what = "no words", .where = file.path, .expected = "a word on each line, with its labels"});
  return file;
}

ConllFile read_word_lists(const std::filesystem::path& path, const std::string& words, const std::string& labels,
                          bool needs_labels) {
  const RecordFile records = read_json_lines(path, {{{words}, true}, {{labels}, needs_labels}});
  ConllFile file{records.path, {}, records.hash};
  for (const Record& record : records.records) {
    LabelledWords sentence{record.line, record.values[0], record.values[1]};
    if (sentence.words.empty()) continue;
    const bool labelled = records.present[1];
    if (labelled && sentence.labels.size() != sentence.words.size())
      throw Error({.what = "as many labels as words are needed",
                   .where = records.where(record),
                   .found = std::to_string(sentence.labels.size()) + " labels",
                   .expected = std::to_string(sentence.words.size())});
    file.sentences.push_back(std::move(sentence));
  }
  if (file.sentences.empty()) throw Error({.what = "no words", .where = file.path, .expected = "lists of words"});
  return file;
}

std::vector<Chunk> chunks_of(std::span<const std::string> labels) {
  std::vector<Chunk> chunks;
  Tag before;
  bool open = false;
  for (size_t i = 0; i < labels.size(); ++i) {
    const Tag now = parse_tag(labels[i]);
    if (open && chunk_ends(before, now)) {
      chunks.back().end = i;
      open = false;
    }
    if (chunk_begins(before, now)) {
      if (open) chunks.back().end = i;
      chunks.push_back({i, i + 1, std::string(now.type)});
      open = true;
    }
    before = now;
  }
  if (open) chunks.back().end = labels.size();
  return chunks;
}

void ChunkScores::add(std::span<const std::string> expected, std::span<const std::string> found) {
  if (expected.size() != found.size())
    internal_error("ChunkScores", std::to_string(found.size()) + " labels for " + std::to_string(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) right_words += expected[i] == found[i];
  words += static_cast<int64_t>(expected.size());
  const std::vector<Chunk> wanted = chunks_of(expected), given = chunks_of(found);
  for (const Chunk& chunk : wanted) ++all.expected, ++types[chunk.type].expected;
  for (const Chunk& chunk : given) {
    ++all.found, ++types[chunk.type].found;
    if (std::find(wanted.begin(), wanted.end(), chunk) != wanted.end()) ++all.both, ++types[chunk.type].both;
  }
}

Metrics ChunkScores::metrics() const {
  const double right = words == 0 ? 0 : 100.0 * static_cast<double>(right_words) / static_cast<double>(words);
  return {{"f1", all.f1()}, {"precision", all.precision()}, {"recall", all.recall()}, {"accuracy", right}};
}

}  // namespace ramet::text
