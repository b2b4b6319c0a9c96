#include <algorithm>
#include <charconv>
#include <set>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/text/tasks/json_file.h"
#include "ramet/text/tasks/text_kinds.h"

namespace ramet::text {
namespace {

/// Whether the first line of a file names the text column: files of a kind without a head have one in their test set.
bool has_head(const std::filesystem::path& path, const TextKind& kind) {
  const MappedFile file(path);
  std::string_view line = file.view().substr(0, file.view().find_first_of("\r\n"));
  if (line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find('\t', begin), line.size());
    if (std::find(kind.text.begin(), kind.text.end(), line.substr(begin, end - begin)) != kind.text.end()) return true;
    begin = end + 1;
  }
  return false;
}

/// Sorted by number when all are numbers, else by bytes.
std::vector<std::string> sorted_labels(const std::set<std::string>& names) {
  std::vector<std::string> labels(names.begin(), names.end());
  if (std::all_of(labels.begin(), labels.end(), [](const auto& name) { return as_number(name).has_value(); }))
    std::sort(labels.begin(), labels.end(), [](const auto& a, const auto& b) {
      return std::pair(*as_number(a), a) < std::pair(*as_number(b), b);
    });
  return labels;
}

class ExampleReader {
 public:
  ExampleReader(const TextKind& kind, const RecordFile& file, const std::vector<std::string>& labels)
      : kind_(kind), file_(file), labels_(labels) {}

  TextExample read(const Record& record, int64_t number) const {
    TextExample example;
    example.line = record.line;
    example.id = record.has(kIdColumn) ? record.at(kIdColumn) : std::to_string(number);
    if (record.values[kTextColumn].empty()) refuse(record, "no text", "an empty list", "words");
    example.text = record.at(kTextColumn);
    example.has_pair = !kind_.pair.empty() && kind_.head != TaskHead::kChoice;
    if (example.has_pair) {
      if (!record.has(kPairColumn)) refuse(record, "no second text", "an empty list", "a text");
      example.pair = record.at(kPairColumn);
    }
    if (kind_.assemble) kind_.assemble(record, file_.where(record), example);
    if (record.has(kLabelColumn)) read_label(record, example);
    return example;
  }

 private:
  [[noreturn]] void refuse(const Record& record, const std::string& what, const std::string& found,
                           const std::string& expected) const {
    throw Error({.what = what, .where = file_.where(record), .found = found, .expected = expected});
  }

  void read_label(const Record& record, TextExample& example) const {
    const std::string& name = record.at(kLabelColumn);
    if (kind_.head == TaskHead::kRegression) {
      const auto value = as_number(name);
      if (!value) refuse(record, "a score that is no number", in_quotes(name), "a number");
      example.value = *value;
      return;
    }
    if (kind_.head == TaskHead::kChoice) {
      const auto& choices = example.choices;
      const auto number = as_number(name);
      if (const auto at = std::find(choices.begin(), choices.end(), name); at != choices.end())
        example.label = static_cast<int32_t>(at - choices.begin());
      else if (number && *number >= 0 && *number < static_cast<double>(choices.size()) && std::floor(*number) == *number)
        example.label = static_cast<int32_t>(*number);
      else
        refuse(record, "an answer that is none of the choices", in_quotes(name),
               "0 to " + std::to_string(choices.size() - 1) + ", or " + list_of(choices));
      return;
    }
    const auto at = std::find(labels_.begin(), labels_.end(), name);
    if (at == labels_.end()) refuse(record, "a label outside the set", in_quotes(name), list_of(labels_));
    example.label = static_cast<int32_t>(at - labels_.begin());
  }

  const TextKind& kind_;
  const RecordFile& file_;
  const std::vector<std::string>& labels_;
};

}  // namespace

std::optional<double> as_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

const TextKind* find_text_kind(std::string_view name) {
  for (const auto* kinds : {&glue_kinds(), &clue_kinds()})
    for (const TextKind& kind : *kinds)
      if (kind.name == name) return &kind;
  return nullptr;
}

const char* metric_name(TaskMetric metric) {
  switch (metric) {
    case TaskMetric::kAccuracy: return "accuracy";
    case TaskMetric::kF1: return "f1";
    case TaskMetric::kMacroF1: return "macro_f1";
    case TaskMetric::kMatthews: return "matthews";
    case TaskMetric::kPearson: return "pearson";
    case TaskMetric::kSpearman: return "spearman";
  }
  return "";
}

double measure(TaskMetric metric, const TextKind& kind, std::span<const int32_t> expected,
               std::span<const int32_t> found, int32_t classes) {
  switch (metric) {
    case TaskMetric::kAccuracy: return 100 * accuracy(expected, found);
    case TaskMetric::kF1: return 100 * f1_score(expected, found, kind.positive);
    case TaskMetric::kMacroF1: return 100 * macro_f1(expected, found, classes);
    case TaskMetric::kMatthews: return 100 * matthews_correlation(expected, found);
    default: internal_error("measure", "a metric of numbers for classes");
  }
}

double measure(TaskMetric metric, std::span<const double> expected, std::span<const double> found) {
  if (metric == TaskMetric::kPearson) return 100 * pearson_correlation(expected, found);
  if (metric == TaskMetric::kSpearman) return 100 * spearman_correlation(expected, found);
  internal_error("measure", "a metric of classes for numbers");
}

TextExamples read_text_examples(const TextKind& kind, const std::filesystem::path& path,
                                const std::vector<std::string>& labels, bool needs_labels, int64_t limit) {
  std::vector<ColumnWish> wishes(kTextColumns);
  wishes[kTextColumn] = {kind.text, true};
  wishes[kPairColumn] = {kind.pair, !kind.pair.empty()};
  wishes[kLabelColumn] = {kind.label, needs_labels};
  wishes[kIdColumn] = {kind.id, false};
  for (const std::string& name : kind.more_columns) wishes.push_back({{name}, true});
  RecordFormat format{.columns = kind.columns, .skip_other_widths = kind.skip_other_widths};
  if (!format.columns.empty() && has_head(path, kind)) format.columns.clear();
  const RecordFile file = read_records(path, wishes, format);

  TextExamples result;
  result.path = file.path;
  result.skipped = file.skipped;
  result.hash = file.hash;
  result.labels = labels.empty() ? kind.labels : labels;
  result.labelled = file.present[kLabelColumn];
  const bool classes = kind.head == TaskHead::kClassification;
  const auto agreed = [&](const Record& record) {
    return kind.disagreement.empty() || !record.has(kLabelColumn) || record.at(kLabelColumn) != kind.disagreement;
  };
  if (classes && result.labels.empty()) {
    std::set<std::string> names;
    for (const Record& record : file.records)
      if (record.has(kLabelColumn) && agreed(record)) names.insert(record.at(kLabelColumn));
    result.labels = sorted_labels(names);
  }
  const ExampleReader reader(kind, file, result.labels);
  int64_t number = 0;
  for (const Record& record : file.records) {
    if (!agreed(record)) {
      ++result.skipped;
      continue;
    }
    if (limit > 0 && number == limit) break;
    result.examples.push_back(reader.read(record, number++));
    const TextExample& example = result.examples.back();
    if (result.labelled && !record.has(kLabelColumn))
      throw Error({.what = "no label, where other rows have one",
                   .where = file.where(record),
                   .expected = "a label on every row, or on none"});
    if (kind.head == TaskHead::kChoice &&
        (example.choices.size() < 2 || example.choices.size() != result.examples.front().choices.size()))
      throw Error({.what = "a number of choices that differs",
                   .where = file.where(record),
                   .found = std::to_string(example.choices.size()),
                   .expected = std::to_string(std::max<size_t>(2, result.examples.front().choices.size())) +
                               " choices, as many on every row"});
  }
  if (result.examples.empty())
    throw Error({.what = "no examples", .where = file.path, .expected = "at least one row"});
  return result;
}

}  // namespace ramet::text
