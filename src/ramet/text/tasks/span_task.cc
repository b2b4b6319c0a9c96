// Reading comprehension: SQuAD 1.1 and 2.0 and the like.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/text/tasks/answer_metrics.h"
#include "ramet/text/tasks/row_builder.h"
#include "ramet/text/tasks/span_windows.h"
#include "ramet/text/tasks/task_kinds.h"

namespace ramet::text {
namespace {

enum class Measure { kSquad, kSquad2, kCmrc };

struct SpanKind {
  const char* name;
  Measure measure;
  AbsentAnswer absent;
  std::vector<std::string> train, dev, test;
};

const std::vector<SpanKind>& kinds() {
  static const std::vector<SpanKind> all = {
      {"squad", Measure::kSquad, AbsentAnswer::kRefuse, {"train-v1.1.json"}, {"dev-v1.1.json"}, {}},
      {"squad2", Measure::kSquad2, AbsentAnswer::kRefuse, {"train-v2.0.json"}, {"dev-v2.0.json"}, {}},
      {"xquad", Measure::kSquad, AbsentAnswer::kRefuse, {}, {"xquad.en.json"}, {}},
      {"cmrc2018", Measure::kCmrc, AbsentAnswer::kKeep, {"train.json", "cmrc2018_train.json"},
       {"dev.json", "cmrc2018_dev.json"}, {"test.json", "trial.json", "cmrc2018_trial.json"}},
      {"drcd", Measure::kCmrc, AbsentAnswer::kKeep, {"train.json", "DRCD_training.json"}, {"dev.json", "DRCD_dev.json"},
       {"test.json", "DRCD_test.json"}}};
  return all;
}

struct SpanSetting {
  const SpanKind* kind;
  TaskOptions options;
  std::shared_ptr<const Tokenizer> tokenizer;
  bool may_be_null() const { return kind->measure == Measure::kSquad2; }
};

class SpanSplit final : public TaskSplit {
 public:
  /// For training, questions whose answer has no place are left out.
  SpanSplit(std::shared_ptr<const SpanSetting> setting, QuestionAnswers data, int64_t limit, bool training)
      : setting_(std::move(setting)), data_(std::move(data)) {
    if (limit > 0 && static_cast<size_t>(limit) < data_.questions.size())
      data_.questions.resize(static_cast<size_t>(limit));
    contexts_.resize(data_.contexts.size());
    if (training)
      std::erase_if(data_.questions, [](const Question& question) {
        const auto placed = [](const Answer& answer) { return answer.placed; };
        return !question.impossible && std::none_of(question.answers.begin(), question.answers.end(), placed);
      });
    if (data_.questions.empty())
      throw Error({.what = "no question has an answer that stands in its context", .where = data_.path});
    for (size_t q = 0; q < data_.questions.size(); ++q) add_question(q);
  }

  int64_t examples() const override { return static_cast<int64_t>(data_.questions.size()); }
  int64_t features() const override { return static_cast<int64_t>(features_.size()); }
  bool labelled() const override { return data_.labelled; }

  TaskFeature feature(int64_t index) const override {
    if (index < 0 || index >= features())
      internal_error("SpanSplit::feature", "index " + std::to_string(index) + " of " + std::to_string(features()));
    const Feature& at = features_[static_cast<size_t>(index)];
    const Question& question = data_.questions[at.question];
    const Asked& asked = asked_[at.question];
    const Encoding& context = contexts_[question.context];
    TaskFeature feature;
    feature.rows.push_back(framed_row(setting_->options.frame, asked.ids,
                                      std::span(context.ids).subspan(at.window.first, at.window.count)));
    if (!question.answered()) return feature;
    feature.start = feature.end = 0;
    if (!asked.answer) {
      if (!question.impossible) feature.start = feature.end = -1;  // it has no place
      return feature;
    }
    const size_t last = at.window.first + at.window.count;
    if (asked.answer->first < at.window.first || asked.answer->last >= last) return feature;
    const size_t begin = context_begin(at.question);
    feature.start = static_cast<int32_t>(begin + asked.answer->first - at.window.first);
    feature.end = static_cast<int32_t>(begin + asked.answer->last - at.window.first);
    return feature;
  }

  std::vector<std::pair<std::string, double>> score(std::span<const TaskOutputs> runs) const override {
    if (!labelled()) refuse_score(data_.path);
    const PredictedAnswers answers = predict(runs);
    switch (setting_->kind->measure) {
      case Measure::kSquad: return score_squad(data_, answers);
      case Measure::kSquad2: return score_squad2(data_, answers);
      case Measure::kCmrc: return score_cmrc(data_, answers);
    }
    return {};
  }

  void write_predictions(std::span<const TaskOutputs> runs, const std::filesystem::path& path) const override {
    const PredictedAnswers answers = predict(runs);
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    for (const Question& question : data_.questions) json[question.id] = answers.at(question.id);
    write_file_atomic(path, json.dump(1) + "\n");
  }

 private:
  struct Feature {
    size_t question;
    SpanWindow window;
  };
  struct Asked {
    std::vector<int32_t> ids;          // of the question, cut
    std::optional<TokenRange> answer;  // in the context's tokens
    size_t first_feature = 0, features = 0;
  };

  /// Where the context begins in a row.
  size_t context_begin(size_t question) const {
    return 1 + asked_[question].ids.size() + (setting_->options.frame.two_separators ? 2 : 1);
  }

  void add_question(size_t number) {
    const TaskOptions& options = setting_->options;
    const Question& question = data_.questions[number];
    Encoding& context = contexts_[question.context];
    if (context.ids.empty())
      setting_->tokenizer->encode_into(data_.contexts[question.context], context.ids, &context.spans,
                                       SpecialText::kAsText);
    Asked asked;
    asked.ids = plain_ids(*setting_->tokenizer, question.text);
    asked.ids.resize(std::min(asked.ids.size(), static_cast<size_t>(options.max_query)));
    const auto first = std::find_if(question.answers.begin(), question.answers.end(),
                                    [](const Answer& answer) { return answer.placed; });
    if (first != question.answers.end()) asked.answer = tokens_of_place(context.spans, first->place);
    asked.first_feature = features_.size();
    const size_t room = static_cast<size_t>(options.max_length) - asked.ids.size() - special_tokens(options.frame, true);
    for (const SpanWindow& window : make_windows(context.ids.size(), room, static_cast<size_t>(options.stride)))
      features_.push_back({number, window});
    asked.features = features_.size() - asked.first_feature;
    asked_.push_back(std::move(asked));
  }

  SpanAnswers answers_of(size_t question, const TaskOutputs& run) const {
    const Asked& asked = asked_[question];
    const Encoding& context = contexts_[data_.questions[question].context];
    const size_t begin = context_begin(question), length = static_cast<size_t>(setting_->options.max_length);
    std::vector<WindowLogits> windows;
    for (size_t f = asked.first_feature; f < asked.first_feature + asked.features; ++f) {
      const std::span<const float> values = run.of(static_cast<int64_t>(f));
      const SpanWindow& window = features_[f].window;
      windows.push_back({window, values.subspan(begin, window.count), values.subspan(length + begin, window.count),
                         values[0], values[length]});
    }
    const SpanOptions options{static_cast<size_t>(setting_->options.n_best),
                              static_cast<size_t>(setting_->options.max_answer)};
    return find_answers(data_.contexts[data_.questions[question].context], context.spans, windows, options,
                        setting_->may_be_null());
  }

  PredictedAnswers predict(std::span<const TaskOutputs> runs) const {
    check_outputs(runs, features(), 2 * setting_->options.max_length);
    PredictedAnswers answers;
    for (size_t q = 0; q < data_.questions.size(); ++q) {
      std::vector<SpanAnswers> lists;
      for (const TaskOutputs& run : runs) lists.push_back(answers_of(q, run));
      answers[data_.questions[q].id] = vote(lists, setting_->may_be_null(), setting_->options.null_threshold);
    }
    return answers;
  }

  std::shared_ptr<const SpanSetting> setting_;
  QuestionAnswers data_;
  std::vector<Encoding> contexts_;
  std::vector<Asked> asked_;  // by question
  std::vector<Feature> features_;
};

void check_positive(const TaskOptions& options, const char* name, int64_t value) {
  if (value >= 1) return;
  throw Error({.what = "too small",
               .where = option_place(options, name),
               .found = std::to_string(value),
               .expected = "1 or more"});
}

class SpanTask final : public TaskSet {
 public:
  SpanTask(const SpanKind& kind, const TaskOptions& options, std::shared_ptr<const Tokenizer> tokenizer)
      : setting_(std::make_shared<SpanSetting>(SpanSetting{&kind, options, std::move(tokenizer)})) {
    check_frame(options, true);
    check_positive(options, "stride", options.stride);
    check_positive(options, "max_query", options.max_query);
    check_positive(options, "max_answer", options.max_answer);
    check_positive(options, "n_best", options.n_best);
    const auto special = static_cast<int64_t>(special_tokens(options.frame, true));
    if (options.max_query + special >= options.max_length)
      throw Error({.what = "questions leave no room for the context",
                   .where = option_place(options, "max_query"),
                   .found = std::to_string(options.max_query) + " tokens of " + std::to_string(options.max_length),
                   .expected = "less than " + std::to_string(options.max_length - special)});
    const auto train = find_split(options, "train", options.train, kind.name, kind.train);
    const auto dev = find_split(options, "dev", options.dev, kind.name, kind.dev);
    const auto test = find_split(options, "test", options.test, kind.name, kind.test);
    require_files(options, !(train.empty() && dev.empty() && test.empty()), kind.dev);
    Hasher hasher;
    hash_options(hasher, options, *setting_->tokenizer);
    train_ = open(train, options.limit_train, hasher, true);
    dev_ = open(dev, options.limit_dev, hasher, false);
    test_ = open(test, 0, hasher, false);
    hash_ = hasher.digest().hex();
  }

  TaskHead head() const override { return TaskHead::kSpan; }
  const std::vector<std::string>& labels() const override { return labels_; }
  int64_t choices() const override { return 1; }
  std::string metric() const override { return "f1"; }
  std::shared_ptr<const TaskSplit> train() const override { return train_; }
  std::shared_ptr<const TaskSplit> dev() const override { return dev_; }
  std::shared_ptr<const TaskSplit> test() const override { return test_; }
  std::string hash() const override { return hash_; }

 private:
  std::shared_ptr<const TaskSplit> open(const std::filesystem::path& path, int64_t limit, Hasher& hasher,
                                        bool training) {
    if (path.empty()) return nullptr;
    QuestionAnswers data = read_question_answers(path, setting_->kind->absent);
    hasher.update(data.hash.hex());
    if (training && !data.labelled)
      throw Error({.what = "questions without an answer in a training file",
                   .where = data.path,
                   .expected = "answers for all, or is_impossible with kind squad2"});
    if (training && !setting_->may_be_null() &&
        std::any_of(data.questions.begin(), data.questions.end(), [](const Question& q) { return q.impossible; }))
      throw Error({.what = "questions that have no answer",
                   .where = data.path,
                   .expected = "an answer for every question",
                   .remedy = "Use task kind squad2"});
    return std::make_shared<SpanSplit>(setting_, std::move(data), limit, training);
  }

  std::shared_ptr<const SpanSetting> setting_;
  std::vector<std::string> labels_;
  std::shared_ptr<const TaskSplit> train_, dev_, test_;
  std::string hash_;
};

}  // namespace

const std::vector<std::string>& span_kinds() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const SpanKind& kind : kinds()) list.emplace_back(kind.name);
    return list;
  }();
  return names;
}

std::unique_ptr<TaskSet> open_span_task(const TaskOptions& options, std::shared_ptr<const Tokenizer> tokenizer) {
  const auto kind = std::find_if(kinds().begin(), kinds().end(),
                                 [&](const SpanKind& one) { return one.name == options.kind; });
  return std::make_unique<SpanTask>(*kind, options, std::move(tokenizer));
}

}  // namespace ramet::text
