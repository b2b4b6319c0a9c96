#include "ramet/text/tasks/question_answers.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "ramet/base/error.h"
#include "ramet/text/tasks/json_file.h"
#include "ramet/text/unicode.h"

namespace ramet::text {
namespace {

/// Byte offsets of the characters of a text, and its size behind the last.
std::vector<uint32_t> character_offsets(std::string_view text) {
  std::vector<uint32_t> offsets;
  offsets.reserve(text.size() + 1);
  for (size_t at = 0; at < text.size();) {
    offsets.push_back(static_cast<uint32_t>(at));
    (void)next_code_point(text, at);
  }
  offsets.push_back(static_cast<uint32_t>(text.size()));
  return offsets;
}

/// The place of `words` in `text` nearest to `wish`, or npos.
size_t nearest_place(std::string_view text, std::string_view words, size_t wish) {
  const size_t before = text.rfind(words, wish), after = text.find(words, wish);
  if (before == std::string_view::npos) return after;
  if (after == std::string_view::npos) return before;
  return wish - before <= after - wish ? before : after;
}

class Reader {
 public:
  Reader(const JsonFile& file, AbsentAnswer absent) : absent_(absent) { result_.path = file.name(); }

  QuestionAnswers read(const JsonNode& root) {
    if (root.json().is_array()) {
      for (size_t i = 0; i < root.size(); ++i) read_cmrc(root[i]);
    } else {
      const JsonNode data = root.at("data");
      for (size_t a = 0; a < data.size(); ++a) {
        const JsonNode paragraphs = data[a].at("paragraphs");
        for (size_t p = 0; p < paragraphs.size(); ++p) read_paragraph(paragraphs[p]);
      }
    }
    if (result_.questions.empty()) root.fail("no questions", describe(root.json()), "articles with paragraphs and qas");
    const auto answered = [](const Question& question) { return question.answered(); };
    result_.labelled = std::all_of(result_.questions.begin(), result_.questions.end(), answered);
    return std::move(result_);
  }

 private:
  void read_paragraph(const JsonNode& paragraph) {
    add_context(paragraph.at("context"));
    const JsonNode questions = paragraph.at("qas");
    for (size_t q = 0; q < questions.size(); ++q) {
      const JsonNode node = questions[q];
      Question& question = add_question(node.at("id"), node.at("question"));
      if (const auto flag = node.find("is_impossible")) question.impossible = flag->flag();
      const auto answers = node.find("answers");
      for (size_t a = 0; answers && a < answers->size(); ++a) {
        const JsonNode answer = (*answers)[a];
        const auto start = answer.find("answer_start");
        add_answer(question, answer.at("text"), start ? &*start : nullptr);
      }
      if (question.impossible && !question.answers.empty())
        node.fail("answers of a question that has none", describe((*answers).json()), "no answers, or is_impossible false");
    }
  }

  void read_cmrc(const JsonNode& paragraph) {
    add_context(paragraph.at("context_text"));
    const JsonNode questions = paragraph.at("qas");
    for (size_t q = 0; q < questions.size(); ++q) {
      Question& question = add_question(questions[q].at("query_id"), questions[q].at("query_text"));
      const auto answers = questions[q].find("answers");
      for (size_t a = 0; answers && a < answers->size(); ++a) add_answer(question, (*answers)[a], nullptr);
    }
  }

  void add_context(const JsonNode& node) {
    if (node.text().size() > UINT32_MAX) node.fail("a context of more than 4 GiB", "", "less");
    result_.contexts.push_back(node.text());
    offsets_ = character_offsets(node.text());
  }

  Question& add_question(const JsonNode& id, const JsonNode& text) {
    Question& question = result_.questions.emplace_back();
    question.id = id.scalar();
    question.text = text.text();
    question.context = result_.contexts.size() - 1;
    if (!ids_.insert(question.id).second) id.fail("an id given twice", in_quotes(question.id), "an id for each question");
    return question;
  }

  /// `start` in characters; null: the first place where the text stands.
  void add_answer(Question& question, const JsonNode& text, const JsonNode* start) {
    const std::string& context = result_.contexts.back();
    Answer answer{.text = text.text()};
    size_t wish = 0;
    if (start) {
      const int64_t character = start->integer();
      const bool unplaced = absent_ == AbsentAnswer::kKeep && character == -1;
      if (!unplaced && (character < 0 || character >= static_cast<int64_t>(offsets_.size())))
        start->fail("an answer that begins outside its context", std::to_string(character),
                    "0 to " + std::to_string(offsets_.size() - 1) + ", in characters");
      wish = unplaced ? 0 : offsets_[static_cast<size_t>(character)];
    }
    const bool there = std::string_view(context).substr(wish).starts_with(answer.text);
    const size_t place = there ? wish : nearest_place(context, answer.text, wish);
    answer.placed = place != std::string::npos && !answer.text.empty();
    if (place == std::string::npos) {
      if (absent_ == AbsentAnswer::kRefuse)
        text.fail("an answer that does not stand in its context", in_quotes(answer.text), "words of the context");
      ++result_.absent;
    } else {
      answer.place = {static_cast<uint32_t>(place), static_cast<uint32_t>(place + answer.text.size())};
      result_.moved += start && !there;
    }
    question.answers.push_back(std::move(answer));
  }

  AbsentAnswer absent_;
  QuestionAnswers result_;
  std::vector<uint32_t> offsets_;  // of the last context
  std::unordered_set<std::string> ids_;
};

}  // namespace

QuestionAnswers read_question_answers(const std::filesystem::path& path, AbsentAnswer absent) {
  const JsonFile file(path);
  QuestionAnswers result = Reader(file, absent).read(file.root());
  result.hash = hash_text(file.text());
  return result;
}

PredictedAnswers read_predicted_answers(const std::filesystem::path& path) {
  const JsonFile file(path);
  const JsonNode root = file.root();
  if (!root.json().is_object()) root.fail("no predictions", describe(root.json()), "an object of ids and answers");
  PredictedAnswers answers;
  for (auto member = root.json().begin(); member != root.json().end(); ++member)
    answers[member.key()] = JsonNode(file, *member).text();
  return answers;
}

std::unordered_map<std::string, double> read_no_answer_probabilities(const std::filesystem::path& path) {
  const JsonFile file(path);
  const JsonNode root = file.root();
  if (!root.json().is_object()) root.fail("no probabilities", describe(root.json()), "an object of ids and numbers");
  std::unordered_map<std::string, double> numbers;
  for (auto member = root.json().begin(); member != root.json().end(); ++member)
    numbers[member.key()] = JsonNode(file, *member).number();
  return numbers;
}

}  // namespace ramet::text
