#pragma once

// Reading comprehension files: SQuAD 1.1 and 2.0, XQuAD, CMRC2018, DRCD. Inside data/ and cli/ only.

#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "ramet/base/hash.h"
#include "ramet/text/tokenizer.h"

namespace ramet::text {

struct Answer {
  std::string text;
  TokenSpan place{};    ///< bytes of the context
  bool placed = false;  ///< false: the text does not stand in the context
};

struct Question {
  std::string id, text;
  size_t context = 0;  ///< which one
  std::vector<Answer> answers;
  bool impossible = false;  ///< SQuAD 2.0: the context does not tell
  bool answered() const { return impossible || !answers.empty(); }
};

struct QuestionAnswers {
  std::string path;
  std::vector<std::string> contexts;
  std::vector<Question> questions;
  bool labelled = false;  ///< every question has its answers
  int64_t moved = 0;      ///< answers that stand elsewhere than the file says: the nearest place is taken
  int64_t absent = 0;     ///< answers that do not stand in their context
  Hash hash;
};

/// What to do with an answer whose text is not in its context.
enum class AbsentAnswer {
  kRefuse,  ///< an Error (SQuAD has none)
  kKeep     ///< it counts when predictions are scored, but has no place (CMRC2018 has some)
};

/// SQuAD's layout ({"data": [{"paragraphs": [{"context", "qas": [...]}]}]}), or the first one of CMRC2018
/// ([{"context_text", "qas": [{"query_id", "query_text", "answers": ["..."]}]}]). Error with line and place in the file
/// for what is missing, of another type, an id given twice, an answer that begins outside its context.
QuestionAnswers read_question_answers(const std::filesystem::path& path, AbsentAnswer absent = AbsentAnswer::kRefuse);

using PredictedAnswers = std::unordered_map<std::string, std::string>;
/// {"id": "answer", ...}, as SQuAD's and CMRC's evaluation take it.
PredictedAnswers read_predicted_answers(const std::filesystem::path& path);
/// {"id": number, ...}: the probabilities that there is no answer (SQuAD 2.0's na_prob.json).
std::unordered_map<std::string, double> read_no_answer_probabilities(const std::filesystem::path& path);

}  // namespace ramet::text
