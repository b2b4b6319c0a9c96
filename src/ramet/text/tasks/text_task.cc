// Tasks on single texts, pairs and choices.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/text/tasks/row_builder.h"
#include "ramet/text/tasks/task_kinds.h"
#include "ramet/text/unicode.h"

namespace ramet::text {
namespace {

/// What the splits of one task share.
struct TextSetting {
  TextKind kind;
  TaskOptions options;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<std::string> labels;
};

/// The class of the highest logit, the first of equals; NaN counts as lowest.
int32_t best_of(std::span<const float> logits) {
  size_t best = 0;
  for (size_t i = 1; i < logits.size(); ++i)
    if (logits[i] > logits[best] || (std::isnan(logits[best]) && !std::isnan(logits[i]))) best = i;
  return static_cast<int32_t>(best);
}

class TextSplit final : public TaskSplit {
 public:
  TextSplit(std::shared_ptr<const TextSetting> setting, TextExamples data)
      : setting_(std::move(setting)), data_(std::move(data)) {
    for (const TextExample& example : data_.examples) {
      Tokens tokens;
      tokens.a = plain_ids(*setting_->tokenizer, example.text);
      if (example.has_pair || example.cloze) tokens.b = plain_ids(*setting_->tokenizer, example.pair);
      for (const std::string& choice : example.choices) tokens.choices.push_back(plain_ids(*setting_->tokenizer, choice));
      tokens_.push_back(std::move(tokens));
    }
  }

  int64_t examples() const override { return static_cast<int64_t>(data_.examples.size()); }
  int64_t features() const override { return examples(); }
  bool labelled() const override { return data_.labelled; }

  TaskFeature feature(int64_t index) const override {
    if (index < 0 || index >= features())
      internal_error("TextSplit::feature", "index " + std::to_string(index) + " of " + std::to_string(features()));
    const TextExample& example = data_.examples[static_cast<size_t>(index)];
    const Tokens& tokens = tokens_[static_cast<size_t>(index)];
    const TaskFrame& frame = setting_->options.frame;
    const auto most = static_cast<size_t>(setting_->options.max_length);
    TaskFeature feature;
    feature.label = example.label;
    feature.value = static_cast<float>(example.value);
    if (setting_->kind.head != TaskHead::kChoice) {
      feature.rows.push_back(example.has_pair ? pair_row(frame, tokens.a, tokens.b, most)
                                              : single_row(frame, tokens.a, most));
      return feature;
    }
    for (const auto& choice : tokens.choices)
      feature.rows.push_back(example.cloze ? cloze_row(tokens, choice) : pair_row(frame, tokens.a, choice, most));
    return feature;
  }

  std::vector<std::pair<std::string, double>> score(std::span<const TaskOutputs> runs) const override {
    if (!labelled()) refuse_score(data_.path);
    const TextKind& kind = setting_->kind;
    const TaskOutputs mean = averaged(runs);
    Metrics metrics;
    if (kind.head == TaskHead::kRegression) {
      std::vector<double> expected, found;
      for (int64_t i = 0; i < features(); ++i) {
        expected.push_back(data_.examples[static_cast<size_t>(i)].value);
        found.push_back(double{mean.of(i)[0]});
      }
      for (const TaskMetric metric : kind.metrics)
        metrics.emplace_back(metric_name(metric), measure(metric, expected, found));
      return metrics;
    }
    std::vector<int32_t> expected, found;
    for (int64_t i = 0; i < features(); ++i) {
      expected.push_back(data_.examples[static_cast<size_t>(i)].label);
      found.push_back(best_of(mean.of(i)));
    }
    const auto classes = static_cast<int32_t>(mean.width);
    for (const TaskMetric metric : kind.metrics)
      metrics.emplace_back(metric_name(metric), measure(metric, kind, expected, found, classes));
    return metrics;
  }

  void write_predictions(std::span<const TaskOutputs> runs, const std::filesystem::path& path) const override {
    const TaskOutputs mean = averaged(runs);
    const PredictionFormat format = setting_->kind.predictions;
    std::string text = format == PredictionFormat::kGlue ? "index\tprediction\n" : "";
    for (int64_t i = 0; i < features(); ++i) {
      const std::string& id = data_.examples[static_cast<size_t>(i)].id;
      const std::string answer = answer_text(mean.of(i));
      if (format == PredictionFormat::kGlue) {
        text += id + "\t" + answer + "\n";
        continue;
      }
      nlohmann::ordered_json line;
      int64_t number = 0;
      const auto [end, status] = std::from_chars(id.data(), id.data() + id.size(), number);
      if (status == std::errc() && end == id.data() + id.size() && std::to_string(number) == id)
        line["id"] = number;
      else
        line["id"] = id;
      if (format == PredictionFormat::kJsonAnswers)
        line["answer"] = best_of(mean.of(i));
      else
        line["label"] = answer;
      text += line.dump() + "\n";
    }
    write_file_atomic(path, text);
  }

 private:
  struct Tokens {
    std::vector<int32_t> a, b;
    std::vector<std::vector<int32_t>> choices;
  };

  int64_t width() const {
    switch (setting_->kind.head) {
      case TaskHead::kRegression: return 1;
      case TaskHead::kChoice: return static_cast<int64_t>(data_.examples.front().choices.size());
      default: return static_cast<int64_t>(setting_->labels.size());
    }
  }

  TaskOutputs averaged(std::span<const TaskOutputs> runs) const {
    check_outputs(runs, features(), width());
    return average(runs, features());
  }

  /// The choice in its gap, with as much of the text on both sides as there is room for, halves where both are long.
  TaskRow cloze_row(const Tokens& tokens, const std::vector<int32_t>& choice) const {
    const auto most = static_cast<size_t>(setting_->options.max_length) - special_tokens(setting_->options.frame, false);
    const size_t middle = std::min(choice.size(), most), room = most - middle;
    const PairLengths kept = cut_longest_first(tokens.a.size(), tokens.b.size(), room);
    std::vector<int32_t> ids(tokens.a.end() - static_cast<std::ptrdiff_t>(kept.a), tokens.a.end());
    ids.insert(ids.end(), choice.begin(), choice.begin() + static_cast<std::ptrdiff_t>(middle));
    ids.insert(ids.end(), tokens.b.begin(), tokens.b.begin() + static_cast<std::ptrdiff_t>(kept.b));
    return single_row(setting_->options.frame, ids, static_cast<size_t>(setting_->options.max_length));
  }

  std::string answer_text(std::span<const float> logits) const {
    switch (setting_->kind.head) {
      case TaskHead::kRegression: {
        char text[32];
        std::snprintf(text, sizeof text, "%.6g", double{logits[0]});
        return text;
      }
      case TaskHead::kChoice: return std::to_string(best_of(logits));
      default: return setting_->labels[static_cast<size_t>(best_of(logits))];
    }
  }

  std::shared_ptr<const TextSetting> setting_;
  TextExamples data_;
  std::vector<Tokens> tokens_;
};

class TextTask final : public TaskSet {
 public:
  TextTask(const TextKind& kind, const TaskOptions& options, std::shared_ptr<const Tokenizer> tokenizer)
      : setting_(std::make_shared<TextSetting>(TextSetting{kind, options, std::move(tokenizer), kind.labels})) {
    check_frame(options, !kind.pair.empty());
    const auto train = find_split(options, "train", options.train, kind.folder, kind.train);
    const auto dev = find_split(options, "dev", options.dev, kind.folder, kind.dev);
    const auto test = find_split(options, "test", options.test, kind.folder, kind.test);
    require_files(options, !(train.empty() && dev.empty() && test.empty()), kind.train);
    Hasher hasher;
    hash_options(hasher, options, *setting_->tokenizer);
    // The training file comes first: it says what the classes are, where nothing else does.
    train_ = open(train, true, options.limit_train, hasher);
    dev_ = open(dev, true, options.limit_dev, hasher);
    test_ = open(test, false, 0, hasher);
    if (kind.head == TaskHead::kClassification && setting_->labels.size() < 2)
      throw Error({.what = "fewer than two classes",
                   .where = (train.empty() ? dev.empty() ? test : dev : train).string(),
                   .found = list_of(setting_->labels),
                   .expected = "two labels or more",
                   .remedy = "Name them with labels"});
    hash_ = hasher.digest().hex();
  }

  TaskHead head() const override { return setting_->kind.head; }
  const std::vector<std::string>& labels() const override { return setting_->labels; }
  int64_t choices() const override { return choices_; }
  std::string metric() const override { return metric_name(setting_->kind.metrics.front()); }
  std::shared_ptr<const TaskSplit> train() const override { return train_; }
  std::shared_ptr<const TaskSplit> dev() const override { return dev_; }
  std::shared_ptr<const TaskSplit> test() const override { return test_; }
  std::string hash() const override { return hash_; }

 private:
  std::shared_ptr<const TaskSplit> open(const std::filesystem::path& path, bool needs_labels, int64_t limit,
                                        Hasher& hasher) {
    if (path.empty()) return nullptr;
    TextExamples data = read_text_examples(setting_->kind, path, setting_->labels, needs_labels, limit);
    if (setting_->labels.empty()) setting_->labels = data.labels;
    hasher.update(data.hash.hex());
    if (setting_->kind.head == TaskHead::kChoice) {
      const auto choices = static_cast<int64_t>(data.examples.front().choices.size());
      if (choices_ != 1 && choices != choices_)
        throw Error({.what = "a number of choices that differs from the other files'",
                     .where = data.path,
                     .found = std::to_string(choices),
                     .expected = std::to_string(choices_)});
      choices_ = choices;
    }
    return std::make_shared<TextSplit>(setting_, std::move(data));
  }

  std::shared_ptr<TextSetting> setting_;
  int64_t choices_ = 1;
  std::shared_ptr<const TaskSplit> train_, dev_, test_;
  std::string hash_;
};

}  // namespace

std::unique_ptr<TaskSet> open_text_task(const TextKind& kind, const TaskOptions& options,
                                     std::shared_ptr<const Tokenizer> tokenizer) {
  return std::make_unique<TextTask>(kind, options, std::move(tokenizer));
}

}  // namespace ramet::text
