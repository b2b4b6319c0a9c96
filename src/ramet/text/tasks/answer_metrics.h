#pragma once

// What predicted answers are worth: SQuAD's and CMRC's official measures. Inside data/ and cli/ only.

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ramet/text/tasks/metrics.h"
#include "ramet/text/tasks/question_answers.h"

namespace ramet::text {

/// Lower case, without ASCII punctuation, without the words a, an and the, words one blank apart: what SQuAD's
/// evaluation compares.
std::string normalize_answer(std::string_view text);
/// Whether both are the same when normalised.
bool exact_match(std::string_view expected, std::string_view found);
/// F1 of the words of both, normalised. With neither text having words: 0 (SQuAD 1.1), or with `empty_matches` 1.
double answer_f1(std::string_view expected, std::string_view found, bool empty_matches = false);

/// SQuAD 1.1's "f1" and "exact_match" in percent: the best of the answers counts; a missing prediction counts 0.
Metrics score_squad(const QuestionAnswers& data, const PredictedAnswers& predictions);

/// SQuAD 2.0's, in percent: "f1", "exact_match", the same over questions that have an answer and that have none, and
/// (with probabilities) the best that any threshold would reach, with the threshold. As in the official evaluation, a
/// question without a prediction is left out. A probability above `threshold` makes the answer "no answer".
Metrics score_squad2(const QuestionAnswers& data, const PredictedAnswers& predictions,
                     const std::unordered_map<std::string, double>* no_answer = nullptr, double threshold = 1.0);

/// CMRC2018's (also used for DRCD): "f1" over the longest common run of segments, "exact_match" without punctuation,
/// and their "average". A missing prediction counts 0. Segments: Chinese characters one by one, other text by words.
Metrics score_cmrc(const QuestionAnswers& data, const PredictedAnswers& predictions);
/// The segments that F1 compares; punctuation that CMRC names is left out.
std::vector<std::string> mixed_segments(std::string_view text);

/// Questions without a prediction.
int64_t missing_predictions(const QuestionAnswers& data, const PredictedAnswers& predictions);

}  // namespace ramet::text
