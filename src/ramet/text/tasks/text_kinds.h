#pragma once

// The published tasks on single texts, pairs and choices: what their files are called, their columns, labels, metrics.
// Inside data/ and cli/ only.

#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/text/task.h"
#include "ramet/text/tasks/metrics.h"
#include "ramet/text/tasks/records.h"

namespace ramet::text {

/// One example of such a task.
struct TextExample {
  int64_t line = 0;
  std::string id;
  std::string text, pair;
  bool has_pair = false;
  std::vector<std::string> choices;  ///< kChoice
  /// kChoice: a choice fills the gap between `text` and `pair` (ChID), instead of following `text`.
  bool cloze = false;
  int32_t label = -1;                                      ///< -1: not known
  double value = std::numeric_limits<double>::quiet_NaN();  ///< kRegression; NaN: not known
};

enum class TaskMetric { kAccuracy, kF1, kMacroF1, kMatthews, kPearson, kSpearman };

/// How predictions are published.
enum class PredictionFormat {
  kGlue,         ///< TSV: index, prediction
  kJsonLines,    ///< {"id": ..., "label": "..."}
  kJsonAnswers,  ///< {"id": ..., "answer": N}
};

/// Wishes of a kind's reader, by place.
enum TextColumn : size_t { kTextColumn, kPairColumn, kLabelColumn, kIdColumn, kTextColumns };

struct TextKind {
  std::string name;
  TaskHead head = TaskHead::kClassification;
  std::string folder;                          ///< in the folder of the collection, as published
  std::vector<std::string> train, dev, test;   ///< published names of files, in order of preference
  std::vector<std::string> text, pair, label, id;  ///< names of columns, in order of preference; no pair: single texts
  std::vector<std::string> columns = {};       ///< of files without a head
  std::vector<std::string> labels = {};        ///< classes in their order; empty: those of the training file, sorted
  std::vector<TaskMetric> metrics = {TaskMetric::kAccuracy};
  int32_t positive = 1;                        ///< the class that F1 speaks of
  PredictionFormat predictions = PredictionFormat::kGlue;
  bool skip_other_widths = false;              ///< RecordFormat
  std::string disagreement = {};               ///< the label of rows that annotators did not agree on: left out
  std::vector<std::string> more_columns = {};  ///< wished for behind the four, for `assemble`
  /// Makes the texts of an example from its record, where that is more than two columns. Error parts: `where`.
  void (*assemble)(const Record& record, const std::string& where, TextExample& example) = nullptr;
};

/// All nine of GLUE; of CLUE and FewCLUE those that are no reading comprehension.
const std::vector<TextKind>& glue_kinds();
const std::vector<TextKind>& clue_kinds();
/// A finite number that is the whole of a text, or none.
std::optional<double> as_number(const std::string& text);
/// Null when there is none of that name.
const TextKind* find_text_kind(std::string_view name);

/// "accuracy", "f1", ...
const char* metric_name(TaskMetric metric);
/// In percent.
double measure(TaskMetric metric, const TextKind& kind, std::span<const int32_t> expected,
               std::span<const int32_t> found, int32_t classes);
double measure(TaskMetric metric, std::span<const double> expected, std::span<const double> found);

/// Examples of a file as a kind says.
struct TextExamples {
  std::string path;
  std::vector<TextExample> examples;
  std::vector<std::string> labels;  ///< the kind's, or the file's sorted
  bool labelled = false;
  int64_t skipped = 0;  ///< rows of another width, and rows that annotators did not agree on ("-")
  Hash hash;
};
/// `labels`: the classes, empty for the file's own. Without `needs_labels` a file without the column is read as well.
/// `limit`: only so many examples, the first; 0: all. Error for all that is not as the kind says, with file and line.
TextExamples read_text_examples(const TextKind& kind, const std::filesystem::path& path,
                                const std::vector<std::string>& labels, bool needs_labels, int64_t limit = 0);

}  // namespace ramet::text
