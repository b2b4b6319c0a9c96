#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "ramet/base/error_types.h"
#include "ramet/graphs/lines.h"
#include "ramet/graphs/read.h"

namespace ramet::graphs {
namespace {

constexpr size_t kNoColumn = SIZE_MAX;

bool is_number(std::string_view word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size() && std::isfinite(value);
}

/// Where a line has what.
struct Columns {
  size_t source = 0, target = 1, time = 2, label = kNoColumn;
  size_t features = 3;  ///< all columns from here on, but `label`, are the message
  bool two_kinds = false;
};

/// Reads lines of words, which blanks or commas divide.
class EventReader {
 public:
  EventReader(std::string_view text, const std::string& source) : lines_(text, source), source_(source) {}

  GraphTables read() {
    while (lines_.next()) {
      const std::string_view line = trimmed(lines_.line());
      if (line.empty() || line.front() == '#' || line.front() == '%') continue;
      if (!begun_) commas_ = line.find(',') != std::string_view::npos;
      std::vector<std::string_view> words = commas_ ? split_at(line, ',') : words_of(line);
      for (std::string_view& word : words) word = trimmed(word);
      const bool first = !begun_;
      begun_ = true;
      if (first && words.size() >= 3 && !is_number(words[2]))
        read_header(words);
      else
        read_event(words);
    }
    if (times_.empty())
      throw FormatError({.what = "the file has no events",
                         .where = source_,
                         .expected = "a line 'source target time' for each event"});
    return tables();
  }

 private:
  void read_header(const std::vector<std::string_view>& words) {
    const auto find = [&](std::initializer_list<std::string_view> names) {
      for (size_t i = 0; i < words.size(); ++i)
        if (std::find(names.begin(), names.end(), words[i]) != names.end()) return i;
      return kNoColumn;
    };
    columns_.source = find({"source", "src", "user_id"}), columns_.target = find({"target", "dst", "item_id"});
    columns_.time = find({"time", "timestamp", "t"}), columns_.label = find({"label", "state_label"});
    columns_.two_kinds = find({"item_id"}) != kNoColumn;
    if (columns_.source == kNoColumn || columns_.target == kNoColumn || columns_.time == kNoColumn)
      lines_.fail("the first line does not say which columns events have", lines_.line(),
                  "columns source, target and time, or user_id, item_id and timestamp");
    columns_.features = 0;
    least_ = 1 + std::max({columns_.source, columns_.target, columns_.time,
                           columns_.label == kNoColumn ? size_t{0} : columns_.label});
    fixed_ =
        std::find(words.begin(), words.end(), "comma_separated_list_of_features") == words.end() ? words.size() : 0;
  }

  void read_event(const std::vector<std::string_view>& words) {
    if (fixed_ == 0 && times_.empty()) fixed_ = words.size();
    if (words.size() < least_)
      lines_.fail("a line is no event", lines_.line(),
                  least_ == 3 ? "'source target time', and numbers of a message behind it"
                              : "at least " + std::to_string(least_) + " words, as the first line says");
    if (words.size() != fixed_)
      lines_.fail("a line is no event", lines_.line(), std::to_string(fixed_) + " words, as the lines before");
    edges_.source.push_back(node(words[columns_.source], false));
    edges_.target.push_back(node(words[columns_.target], columns_.two_kinds));
    times_.push_back(lines_.real(words[columns_.time]));
    if (columns_.label != kNoColumn)
      labels_.push_back(static_cast<int32_t>(lines_.whole(words[columns_.label], 0, INT32_MAX)));
    for (size_t i = columns_.features; i < words.size(); ++i)
      if (i != columns_.source && i != columns_.target && i != columns_.time && i != columns_.label)
        messages_.push_back(static_cast<float>(lines_.real(words[i])));
  }

  int32_t node(std::string_view name, bool second_kind) {
    if (name.empty()) lines_.fail("an event has no name of a node", lines_.line());
    if (!columns_.two_kinds) return names_.number_of(name);
    return names_.number_of((second_kind ? "item " : "user ") + std::string(name));
  }

  GraphTables tables() {
    const auto events = std::ssize(times_);
    std::vector<int32_t> order(times_.size()), number(times_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return times_[static_cast<size_t>(a)] < times_[static_cast<size_t>(b)];
    });
    for (size_t i = 0; i < order.size(); ++i) number[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
    GraphTables tables = homogeneous_tables();
    tables.graphs = 1;
    tables.nodes[0].ptr = {0, std::ssize(names_.all())};
    edges_.ptr = {0, events};
    tables.edges[0] = std::move(edges_);
    tables.names["node"] = names_.all();
    const auto of = [](const std::string& name, DType dtype, Shape shape = {}) {
      return Field{.name = name, .per = Per::kEdge, .of = "edge", .dtype = dtype, .shape = std::move(shape)};
    };
    tables.set_field(of("time", DType::kF64), times_);
    tables.set_field(of("event", DType::kI32), number);
    if (!labels_.empty()) tables.set_field(of("label", DType::kI32), labels_);
    if (!messages_.empty()) tables.set_field(of("message", DType::kF32, {std::ssize(messages_) / events}), messages_);
    return tables;
  }

  Lines lines_;
  const std::string source_;
  bool begun_ = false, commas_ = false;
  size_t fixed_ = 0;  ///< words of a line; 0: the first event says
  size_t least_ = 3;  ///< words that a line must have: those that columns_ names
  Columns columns_;
  Names names_;
  EdgeTable edges_;
  std::vector<double> times_;
  std::vector<int32_t> labels_;
  std::vector<float> messages_;
};

}  // namespace

GraphTables parse_events(std::string_view text, const std::string& source) { return EventReader(text, source).read(); }

}  // namespace ramet::graphs
