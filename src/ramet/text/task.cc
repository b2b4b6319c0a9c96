#include "ramet/text/task.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/base/words.h"
#include "ramet/text/tasks/row_builder.h"
#include "ramet/text/tasks/task_kinds.h"

namespace ramet::text {
namespace {

namespace fs = std::filesystem;

/// Kinds for files of one's own.
const std::vector<std::string> kOwnKinds = {"classification", "regression", "choice"};

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const size_t first = text.find_first_not_of(' ', begin);
    if (first < end) {
      const size_t last = text.find_last_not_of(' ', end - 1);
      names.push_back(text.substr(first, last - first + 1));
    }
    begin = end + 1;
  }
  return names;
}

/// The choices of an own file: those of the first column, which may be a list, and those of more columns.
void gather_choices(const Record& record, const std::string&, TextExample& example) {
  example.choices = record.values[kPairColumn];
  for (size_t i = kTextColumns; i < record.values.size(); ++i)
    example.choices.insert(example.choices.end(), record.values[i].begin(), record.values[i].end());
}

TextKind own_kind(const TaskOptions& options) {
  if (options.text.empty())
    throw Error({.what = "the column of the text is not named",
                 .where = option_place(options, "text"),
                 .expected = "a column's name, or its number from 0, as task.kind = \"" + options.kind +
                             "\" knows no file of its own"});
  TextKind kind;
  kind.name = options.kind;
  kind.text = {"text"}, kind.label = {"label"}, kind.id = {"id"};
  kind.predictions = PredictionFormat::kJsonLines;
  if (options.kind == "regression") {
    kind.head = TaskHead::kRegression;
    kind.metrics = {TaskMetric::kPearson, TaskMetric::kSpearman};
  } else if (options.kind == "choice") {
    kind.head = TaskHead::kChoice;
    if (options.pair.empty())
      throw Error({.what = "the columns of the choices are not named",
                   .where = option_place(options, "pair"),
                   .expected = "a column that holds a list, or columns separated by commas"});
  } else {
    kind.metrics = {TaskMetric::kAccuracy, TaskMetric::kMacroF1};
  }
  return kind;
}

/// A kind with the columns and labels that the options name instead of its own.
TextKind adapted(TextKind kind, const TaskOptions& options) {
  if (!options.text.empty()) kind.text = {options.text}, kind.columns.clear();
  if (!options.label.empty()) kind.label = {options.label};
  if (!options.id.empty()) kind.id = {options.id};
  if (!options.pair.empty() && kind.head == TaskHead::kChoice) {
    const std::vector<std::string> columns = split_names(options.pair);
    kind.pair = {columns.empty() ? options.pair : columns.front()};
    if (!kind.assemble && columns.size() > 1) kind.more_columns.assign(columns.begin() + 1, columns.end());
    if (!kind.assemble) kind.assemble = gather_choices;
  } else if (!options.pair.empty()) {
    kind.pair = {options.pair};
  }
  if (!options.labels.empty()) kind.labels = options.labels;
  return kind;
}

}  // namespace

std::vector<std::string> published_task_names() {
  std::vector<std::string> names;
  for (const auto* kinds : {&glue_kinds(), &clue_kinds()})
    for (const TextKind& kind : *kinds) names.push_back(kind.name);
  for (const auto* kinds : {&span_kinds(), &token_kinds()}) names.insert(names.end(), kinds->begin(), kinds->end());
  return names;
}

std::vector<std::string> task_names() {
  std::vector<std::string> names = published_task_names();
  names.insert(names.end(), kOwnKinds.begin(), kOwnKinds.end());
  return names;
}

std::unique_ptr<TaskSet> open_task(const TaskOptions& options, std::shared_ptr<const Tokenizer> tokenizer) {
  const auto is_one = [&](const std::vector<std::string>& kinds) {
    return std::find(kinds.begin(), kinds.end(), options.kind) != kinds.end();
  };
  if (const TextKind* kind = find_text_kind(options.kind))
    return open_text_task(adapted(*kind, options), options, std::move(tokenizer));
  if (is_one(kOwnKinds)) return open_text_task(adapted(own_kind(options), options), options, std::move(tokenizer));
  if (is_one(span_kinds())) return open_span_task(options, std::move(tokenizer));
  if (is_one(token_kinds())) return open_token_task(options, std::move(tokenizer));
  const std::vector<std::string> names = task_names();
  const std::string near = nearest_name(options.kind, names);
  const std::string all = listed(names);
  throw Error({.what = "no such kind of task",
               .where = option_place(options, "kind"),
               .found = "'" + options.kind.substr(0, 80) + "'",
               .expected = near.empty() ? "one of " + all : "perhaps '" + near + "', or another of " + all});
}

fs::path find_split(const TaskOptions& options, const char* option, const fs::path& given, const std::string& folder,
                    const std::vector<std::string>& names) {
  std::error_code none;
  if (!given.empty()) {
    for (const fs::path& path : {given, options.data / given})
      if (fs::is_regular_file(path, none)) return path;
    throw Error({.what = "there is no such file",
                 .where = option_place(options, option),
                 .found = "'" + given.string() + "'",
                 .expected = options.data.empty() ? "a file" : "a file, or one in " + options.data.string()});
  }
  if (options.data.empty()) return {};
  if (!fs::is_directory(options.data, none))
    throw Error({.what = "there is no such folder",
                 .where = option_place(options, "data"),
                 .found = "'" + options.data.string() + "'",
                 .expected = "a folder with the published files"});
  for (const fs::path& place : {options.data / folder, options.data})
    for (const std::string& name : names)
      if (fs::is_regular_file(place / name, none)) return place / name;
  return {};
}

void require_files(const TaskOptions& options, bool any, const std::vector<std::string>& names) {
  if (any) return;
  const std::string list = listed(names);
  throw Error(
      {.what = "no files of task '" + options.kind + "'",
       .where = option_place(options, "data"),
       .found = options.data.empty() ? "neither a folder nor files" : "none of them in '" + options.data.string() + "'",
       .expected = list.empty() ? "files in train, dev or test" : list,
       .remedy = "Give the folder of the published files, or name the files with train, dev and test"});
}

void hash_options(Hasher& hasher, const TaskOptions& options, const Tokenizer& tokenizer) {
  // Not the labels: a run keeps those that it found, and reads the same features with them.
  std::string text = options.kind;
  const auto add = [&](const std::string& value) { text += "\n" + value; };
  for (const std::string* value : {&options.text, &options.pair, &options.label, &options.id}) add(*value);
  for (const int64_t value : {options.max_length, options.stride, options.max_query, options.limit_train})
    add(std::to_string(value));
  const TaskFrame& frame = options.frame;
  for (const int64_t value :
       {int64_t{frame.classify}, int64_t{frame.separator}, int64_t{frame.two_separators}, int64_t{frame.types}})
    add(std::to_string(value));
  add(tokenizer.hash().hex());
  hasher.update(text);
}

void check_outputs(std::span<const TaskOutputs> runs, int64_t features, int64_t width) {
  if (runs.empty()) internal_error("TaskSplit", "no outputs to score");
  for (const TaskOutputs& run : runs)
    if (run.width != width || static_cast<int64_t>(run.values.size()) != features * width)
      internal_error("TaskSplit", "outputs of " + std::to_string(run.values.size()) + " numbers, " +
                                      std::to_string(run.width) + " a feature, for " + std::to_string(features) +
                                      " features of " + std::to_string(width));
}

TaskOutputs average(std::span<const TaskOutputs> runs, int64_t features) {
  if (runs.empty()) internal_error("TaskSplit", "no outputs to score");
  check_outputs(runs, features, runs.front().width);
  TaskOutputs mean = runs.front();
  if (runs.size() == 1) return mean;
  for (size_t i = 0; i < mean.values.size(); ++i) {
    double sum = 0;
    for (const TaskOutputs& run : runs) sum += double{run.values[i]};
    mean.values[i] = static_cast<float>(sum / static_cast<double>(runs.size()));
  }
  return mean;
}

void refuse_score(const std::string& path) {
  throw Error({.what = "a file without labels cannot be scored",
               .where = path,
               .expected = "a labelled file",
               .remedy = "Only predictions can be made for it"});
}

}  // namespace ramet::text
