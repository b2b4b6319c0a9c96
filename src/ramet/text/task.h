#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ramet/text/task_head.h"
#include "ramet/text/tokenizer.h"

namespace ramet::text {

/// One row of the model's input: with its special tokens, at most TaskOptions::max_length long, without padding.
struct TaskRow {
  std::vector<int32_t> input_ids;
  std::vector<int32_t> token_type_ids;  ///< 0 or 1; as many
};

/// The model's input: an example, or one window of a long example. Unknown fields have a value that says so.
struct TaskFeature {
  std::vector<TaskRow> rows;  ///< one; kChoice: one a choice, the same number in every feature
  int32_t label = -1;         ///< kClassification, kChoice; -1: not known
  float value = 0;            ///< kRegression; NaN: not known
  int32_t start = -1,  ///< kSpan: places in the row, both inside; 0 and 0: no answer in this window; -1: not known
      end = -1;
  std::vector<int32_t> token_labels;  ///< kTokens: one a token of the row; -1: not counted (special, later pieces)
};

/// A model's outputs for all features of a split, in their order: `width` numbers a feature, before any softmax.
/// kClassification: a logit a label; kRegression: the number; kSpan: max_length logits of the start, then max_length of
/// the end; kTokens: max_length x labels; kChoice: a logit a choice. Places behind a row's end are undefined.
struct TaskOutputs {
  int64_t width = 0;
  std::vector<float> values;
  std::span<const float> of(int64_t feature) const {
    return std::span(values).subspan(static_cast<size_t>(feature * width), static_cast<size_t>(width));
  }
};

/// Features of one file (or set of files) of a task, and what their answers are worth. Safe from many threads.
class TaskSplit {
 public:
  virtual ~TaskSplit() = default;
  virtual int64_t examples() const = 0;
  virtual int64_t features() const = 0;  ///< at least as many; a long text makes several windows
  virtual TaskFeature feature(int64_t index) const = 0;
  virtual bool labelled() const = 0;  ///< false: a test file, of which only predictions can be made
  /// The task's metrics in percent or as published ("accuracy", "f1", "exact_match", "matthews", "pearson", ...), the
  /// one that decides first. Several runs are an ensemble: logits are averaged (kSpan: the n-best lists vote). Error
  /// when the split is not labelled.
  virtual std::vector<std::pair<std::string, double>> score(std::span<const TaskOutputs> runs) const = 0;
  /// Answers in the public format of the task: SQuAD's JSON of id to text, GLUE's TSV of index and prediction, CoNLL's
  /// columns, CLUE's JSON lines. Written atomically.
  virtual void write_predictions(std::span<const TaskOutputs> runs, const std::filesystem::path& path) const = 0;
};

/// How special tokens frame the texts of a row: BERT [CLS] a [SEP] b [SEP]; RoBERTa <s> a </s></s> b </s>.
struct TaskFrame {
  int32_t classify = -1, separator = -1, padding = -1;
  bool two_separators = false;  ///< between a and b
  bool types = true;            ///< b and its separator have type 1; false: all 0
};

/// The options of a recipe's [task] table.
struct TaskOptions {
  std::string kind;                        ///< one of task_names()
  std::filesystem::path data;              ///< folder of the published files, found by their published names; or empty
  std::filesystem::path train, dev, test;  ///< files, instead of those of `data`; empty: none
  std::string text, pair, label, id;       ///< names (or numbers, from 0) of columns; empty: the kind's
  std::vector<std::string> labels;         ///< in order of their classes; empty: the kind's or the file's
  int64_t max_length = 128;                ///< tokens of a row
  int64_t stride = 128, max_query = 64, max_answer = 30;  ///< kSpan: tokens
  int64_t n_best = 20;                                    ///< kSpan
  double null_threshold = 0;                              ///< kSpan with questions that have no answer (SQuAD 2.0)
  int64_t limit_train = 0, limit_dev = 0;                 ///< only so many examples, the first; 0: all
  TaskFrame frame;
  /// Begins the `where` of errors about an option: the option's name is added ("task.label"). May be empty.
  std::string where;
};

/// A data set with its splits, opened once.
class TaskSet {
 public:
  virtual ~TaskSet() = default;
  virtual TaskHead head() const = 0;
  virtual const std::vector<std::string>& labels() const = 0;  ///< kClassification, kTokens; else empty
  virtual int64_t choices() const = 0;                         ///< kChoice: rows of a feature; else 1
  /// The metric that decides which checkpoint is best, the first that `score` gives; higher is better.
  virtual std::string metric() const = 0;
  virtual std::shared_ptr<const TaskSplit> train() const = 0;  ///< null where there is no file
  virtual std::shared_ptr<const TaskSplit> dev() const = 0;    ///< of MNLI the matched one
  virtual std::shared_ptr<const TaskSplit> test() const = 0;
  /// Of all files' content and of the options that shape features: part of a run's data hash.
  virtual std::string hash() const = 0;
};

/// Names of kinds: "cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli", "squad", "squad2", "conll",
/// "tnews", ..., and "classification", "regression", "tokens", "choice" for files of one's own.
std::vector<std::string> task_names();
/// Those with published files and measures: all but the last four.
std::vector<std::string> published_task_names();
/// Reads the files. Throws Error for kinds that are not known, missing files, and contents that are not as the format
/// says, with file and line.
std::unique_ptr<TaskSet> open_task(const TaskOptions& options, std::shared_ptr<const Tokenizer> tokenizer);

}  // namespace ramet::text
