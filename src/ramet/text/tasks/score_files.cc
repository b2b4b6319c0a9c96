#include "ramet/text/tasks/score_files.h"

#include <algorithm>
#include <unordered_map>

#include "ramet/base/error.h"
#include "ramet/base/words.h"
#include "ramet/text/tasks/answer_metrics.h"
#include "ramet/text/tasks/conll.h"
#include "ramet/text/tasks/json_file.h"
#include "ramet/text/tasks/task_kinds.h"

namespace ramet::text {
namespace {

FileScores score_answers(const ScoreRequest& request) {
  const bool chinese = request.kind == "cmrc2018" || request.kind == "drcd";
  const QuestionAnswers data =
      read_question_answers(request.data, chinese ? AbsentAnswer::kKeep : AbsentAnswer::kRefuse);
  if (!data.labelled) refuse_score(data.path);
  const PredictedAnswers predictions = read_predicted_answers(request.predictions);
  FileScores scores;
  scores.scored = static_cast<int64_t>(data.questions.size());
  scores.missing = missing_predictions(data, predictions);
  if (scores.missing == scores.scored)
    throw Error({.what = "no prediction is of a question in the data",
                 .where = request.predictions.string(),
                 .found = std::to_string(predictions.size()) + " predictions of others",
                 .expected = "ids as '" + data.questions.front().id + "' in " + data.path});
  if (chinese) {
    scores.metrics = score_cmrc(data, predictions);
  } else if (request.kind == "squad2") {
    std::unordered_map<std::string, double> probabilities;
    const bool given = !request.no_answer_probabilities.empty();
    if (given) probabilities = read_no_answer_probabilities(request.no_answer_probabilities);
    scores.metrics = score_squad2(data, predictions, given ? &probabilities : nullptr, request.no_answer_threshold);
  } else {
    const auto impossible = [](const Question& question) { return question.impossible; };
    if (std::any_of(data.questions.begin(), data.questions.end(), impossible))
      throw Error({.what = "questions that have no answer",
                   .where = data.path,
                   .expected = "an answer for every question",
                   .remedy = "Score them as squad2"});
    scores.metrics = score_squad(data, predictions);
  }
  return scores;
}

/// Predictions of text tasks, in the order of the examples.
class PredictionReader {
 public:
  PredictionReader(const TextKind& kind, const TextExamples& data) : kind_(kind), data_(data) {
    for (size_t i = 0; i < data.examples.size(); ++i)
      if (!places_.emplace(data.examples[i].id, i).second)
        throw Error({.what = "an id given twice",
                     .where = data.path + ":" + std::to_string(data.examples[i].line),
                     .found = in_quotes(data.examples[i].id),
                     .expected = "an id for each row"});
  }

  /// The prediction of each example and the place of each in its file.
  std::vector<std::pair<std::string, std::string>> read(const std::filesystem::path& path) const {
    const std::vector<ColumnWish> wishes = {{{"index", "id", "idx"}, true},
                                            {{"prediction", "label", "answer", "score"}, true}};
    const RecordFile file = read_records(path, wishes);
    std::vector<std::pair<std::string, std::string>> predictions(data_.examples.size());
    for (const Record& record : file.records) {
      const auto place = record.has(0) ? places_.find(record.at(0)) : places_.end();
      if (place == places_.end())
        throw Error({.what = "a prediction for no row of the data",
                     .where = file.where(record),
                     .found = record.has(0) ? in_quotes(record.at(0)) : "no id",
                     .expected = "an id of " + data_.path});
      if (!predictions[place->second].second.empty())
        throw Error({.what = "two predictions for one row of the data",
                     .where = file.where(record),
                     .found = in_quotes(record.at(0)),
                     .expected = "each id once"});
      predictions[place->second] = {record.has(1) ? record.at(1) : "", file.where(record)};
    }
    for (size_t i = 0; i < predictions.size(); ++i)
      if (predictions[i].second.empty())
        throw Error({.what = "no prediction for a row of the data",
                     .where = file.path,
                     .expected = "one for id " + in_quotes(data_.examples[i].id) + ", line " +
                                 std::to_string(data_.examples[i].line) + " of " + data_.path});
    return predictions;
  }

  int32_t class_of(const std::pair<std::string, std::string>& prediction) const {
    std::vector<std::string> names = data_.labels;
    if (kind_.head == TaskHead::kChoice)
      for (size_t i = 0; i < data_.examples.front().choices.size(); ++i) names.push_back(std::to_string(i));
    const auto at = std::find(names.begin(), names.end(), prediction.first);
    if (at == names.end())
      throw Error({.what = "a label outside the set",
                   .where = prediction.second,
                   .found = in_quotes(prediction.first),
                   .expected = list_of(names)});
    return static_cast<int32_t>(at - names.begin());
  }

 private:
  const TextKind& kind_;
  const TextExamples& data_;
  std::unordered_map<std::string, size_t> places_;
};

FileScores score_texts(const TextKind& kind, const ScoreRequest& request) {
  const TextExamples data = read_text_examples(kind, request.data, request.labels, true);
  const PredictionReader reader(kind, data);
  const auto predictions = reader.read(request.predictions);
  FileScores scores;
  scores.scored = static_cast<int64_t>(predictions.size());
  if (kind.head == TaskHead::kRegression) {
    std::vector<double> expected, found;
    for (size_t i = 0; i < predictions.size(); ++i) {
      expected.push_back(data.examples[i].value);
      const auto value = as_number(predictions[i].first);
      if (!value)
        throw Error({.what = "a score that is no number",
                     .where = predictions[i].second,
                     .found = in_quotes(predictions[i].first),
                     .expected = "a number"});
      found.push_back(*value);
    }
    for (const TaskMetric metric : kind.metrics)
      scores.metrics.emplace_back(metric_name(metric), measure(metric, expected, found));
    return scores;
  }
  std::vector<int32_t> expected, found;
  for (size_t i = 0; i < predictions.size(); ++i) {
    expected.push_back(data.examples[i].label);
    found.push_back(reader.class_of(predictions[i]));
  }
  for (const TaskMetric metric : kind.metrics)
    scores.metrics.emplace_back(metric_name(metric),
                                measure(metric, kind, expected, found, static_cast<int32_t>(data.labels.size())));
  return scores;
}

FileScores score_chunks(const ScoreRequest& request) {
  const bool one_file = request.predictions.empty();
  const int column = request.kind == "conll2000" ? 2 : request.kind == "conll2003" ? 3 : -1;
  const ConllFile expected = read_conll(request.data, 0, one_file ? -2 : column);
  const ConllFile found = read_conll(one_file ? request.data : request.predictions, 0, -1);
  if (expected.sentences.size() != found.sentences.size())
    throw Error({.what = "another number of sentences than in the data",
                 .where = found.path,
                 .found = std::to_string(found.sentences.size()),
                 .expected = std::to_string(expected.sentences.size())});
  ChunkScores chunks;
  for (size_t s = 0; s < expected.sentences.size(); ++s) {
    const LabelledWords &right = expected.sentences[s], &said = found.sentences[s];
    for (size_t w = 0; w < std::max(right.words.size(), said.words.size()); ++w)
      if (w >= right.words.size() || w >= said.words.size() || right.words[w] != said.words[w])
        throw Error({.what = "another word than in the data",
                     .where = found.path + ":" + std::to_string(said.line + static_cast<int64_t>(w)),
                     .found = w < said.words.size() ? in_quotes(said.words[w]) : "the sentence's end",
                     .expected = w < right.words.size() ? in_quotes(right.words[w]) : "the sentence's end"});
    chunks.add(right.labels, said.labels);
  }
  FileScores scores;
  scores.scored = static_cast<int64_t>(expected.sentences.size());
  scores.metrics = chunks.metrics();
  for (const auto& [type, counts] : chunks.types)
    scores.parts.push_back({type.empty() ? "(no type)" : type,
                            {{"f1", counts.f1()}, {"precision", counts.precision()}, {"recall", counts.recall()}}});
  return scores;
}

}  // namespace

FileScores score_files(const ScoreRequest& request) {
  const auto is_one = [&](const std::vector<std::string>& kinds) {
    return std::find(kinds.begin(), kinds.end(), request.kind) != kinds.end();
  };
  const bool chunks = is_one(token_kinds());
  if (request.predictions.empty() && !chunks)
    throw Error({.what = "no file of predictions", .where = request.kind, .expected = "a file with predictions"});
  if (chunks) return score_chunks(request);
  if (is_one(span_kinds())) return score_answers(request);
  if (const TextKind* kind = find_text_kind(request.kind)) return score_texts(*kind, request);
  const std::vector<std::string> names = published_task_names();
  const std::string near = nearest_name(request.kind, names);
  const std::string all = listed(names);
  throw Error({.what = "no such kind of task",
               .found = in_quotes(request.kind),
               .expected = (near.empty() ? "one of " : "perhaps '" + near + "', or another of ") + all});
}

}  // namespace ramet::text
