#include "ramet/text/tasks/answer_metrics.h"

#include <algorithm>
#include <map>

#include "ramet/text/tasks/treebank.h"
#include "ramet/text/unicode.h"

namespace ramet::text {
namespace {

std::string as_utf8(std::u32string_view characters) {
  std::string text;
  for (const char32_t c : characters) append_utf8(c, text);
  return text;
}

// Classes of characters as Python's str and re have them.
bool is_blank(char32_t c) { return is_unicode_space(c) || (c >= 0x1C && c <= 0x1F); }
bool is_word(char32_t c) { return c == '_' || is_unicode_letter(c) || is_unicode_number(c); }
bool is_ascii_punctuation(char32_t c) {
  return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
}

std::vector<std::string> normalized_words(std::string_view text) {
  std::u32string kept;
  for (const char32_t c : lower_case(text))
    if (!is_ascii_punctuation(c)) kept += c;
  // An article is one where no letter or digit touches it.
  std::u32string without;
  for (size_t i = 0; i < kept.size();) {
    size_t end = i;
    while (end < kept.size() && is_word(kept[end])) ++end;
    const std::u32string_view word = std::u32string_view(kept).substr(i, end - i);
    if (word == U"a" || word == U"an" || word == U"the")
      without += U' ';
    else
      without += word;
    if (end < kept.size()) without += kept[end];
    i = end + 1;
  }
  std::vector<std::string> words;
  std::u32string word;
  for (const char32_t c : without + U" ") {
    if (!is_blank(c)) {
      word += c;
      continue;
    }
    if (!word.empty()) words.push_back(as_utf8(word));
    word.clear();
  }
  return words;
}

double words_f1(const std::vector<std::string>& expected, const std::vector<std::string>& found, bool empty_matches) {
  if (empty_matches && (expected.empty() || found.empty())) return expected.empty() && found.empty() ? 1 : 0;
  std::map<std::string_view, int64_t> counts;
  for (const std::string& word : expected) ++counts[word];
  double common = 0;
  for (const std::string& word : found)
    if (const auto count = counts.find(word); count != counts.end() && count->second > 0) ++common, --count->second;
  if (common == 0) return 0;
  const double precision = common / static_cast<double>(found.size());
  const double recall = common / static_cast<double>(expected.size());
  return 2 * precision * recall / (precision + recall);
}

// Punctuation that CMRC's evaluation leaves out.
constexpr std::u32string_view kIgnored = U"-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』";

std::u32string trimmed(std::u32string text) {
  while (!text.empty() && is_blank(text.back())) text.pop_back();
  size_t begin = 0;
  while (begin < text.size() && is_blank(text[begin])) ++begin;
  return text.substr(begin);
}

std::u32string without_punctuation(std::string_view text) {
  std::u32string kept;
  for (const char32_t c : trimmed(lower_case(text)))
    if (kIgnored.find(c) == std::u32string_view::npos) kept += c;
  return kept;
}

/// Length of the longest run of segments that stands in both.
size_t longest_common_run(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<size_t> row(b.size() + 1);  // runs that end at this segment of `a` and the one before this of `b`
  size_t longest = 0;
  for (const std::string& segment : a)
    for (size_t j = b.size(); j > 0; --j) {
      row[j] = segment == b[j - 1] ? row[j - 1] + 1 : 0;
      longest = std::max(longest, row[j]);
    }
  return longest;
}

double segments_f1(const std::vector<std::string>& expected, const std::vector<std::string>& found) {
  const auto common = static_cast<double>(longest_common_run(expected, found));
  if (common == 0) return 0;
  const double precision = common / static_cast<double>(found.size());
  const double recall = common / static_cast<double>(expected.size());
  return 2 * precision * recall / (precision + recall);
}

double percent(double sum, size_t count) { return count == 0 ? 0 : 100 * sum / static_cast<double>(count); }

/// A question of SQuAD 2.0 and the scores of its prediction.
struct Judged {
  bool has_answer;
  double exact, f1, no_answer;
  bool says_none;
};

/// The best mean that a threshold on the probability reaches: answers of those at most so sure that there is none.
std::pair<double, double> best_threshold(std::vector<Judged> all, double Judged::* score) {
  std::stable_sort(all.begin(), all.end(), [](const Judged& a, const Judged& b) { return a.no_answer < b.no_answer; });
  double current = 0;
  for (const Judged& one : all) current += one.has_answer ? 0 : 1;
  double best = current, threshold = 0;
  for (const Judged& one : all) {
    current += one.has_answer ? one.*score : one.says_none ? 0 : -1;
    if (current > best) best = current, threshold = one.no_answer;
  }
  return {percent(best, all.size()), threshold};
}

}  // namespace

std::string normalize_answer(std::string_view text) {
  std::string joined;
  for (const std::string& word : normalized_words(text)) joined += (joined.empty() ? "" : " ") + word;
  return joined;
}

bool exact_match(std::string_view expected, std::string_view found) {
  return normalized_words(expected) == normalized_words(found);
}

double answer_f1(std::string_view expected, std::string_view found, bool empty_matches) {
  return words_f1(normalized_words(expected), normalized_words(found), empty_matches);
}

Metrics score_squad(const QuestionAnswers& data, const PredictedAnswers& predictions) {
  double exact = 0, f1 = 0;
  for (const Question& question : data.questions) {
    const auto prediction = predictions.find(question.id);
    if (prediction == predictions.end()) continue;
    const std::vector<std::string> found = normalized_words(prediction->second);
    double best_exact = 0, best_f1 = 0;
    for (const Answer& answer : question.answers) {
      const std::vector<std::string> expected = normalized_words(answer.text);
      best_exact = std::max(best_exact, expected == found ? 1.0 : 0.0);
      best_f1 = std::max(best_f1, words_f1(expected, found, false));
    }
    exact += best_exact;
    f1 += best_f1;
  }
  return {{"f1", percent(f1, data.questions.size())}, {"exact_match", percent(exact, data.questions.size())}};
}

Metrics score_squad2(const QuestionAnswers& data, const PredictedAnswers& predictions,
                     const std::unordered_map<std::string, double>* no_answer, double threshold) {
  std::vector<Judged> raw, judged;
  for (const Question& question : data.questions) {
    const auto prediction = predictions.find(question.id);
    if (prediction == predictions.end()) continue;
    const std::vector<std::string> found = normalized_words(prediction->second);
    Judged one{!question.answers.empty(), 0, 0, 0, prediction->second.empty()};
    bool any = false;
    for (const Answer& answer : question.answers) {
      const std::vector<std::string> expected = normalized_words(answer.text);
      if (expected.empty()) continue;
      any = true;
      one.exact = std::max(one.exact, expected == found ? 1.0 : 0.0);
      one.f1 = std::max(one.f1, words_f1(expected, found, true));
    }
    if (!any) one.exact = one.f1 = found.empty() ? 1 : 0;
    if (no_answer)
      if (const auto probability = no_answer->find(question.id); probability != no_answer->end())
        one.no_answer = probability->second;
    raw.push_back(one);
    if (one.no_answer > threshold) one.exact = one.f1 = one.has_answer ? 0 : 1;
    judged.push_back(one);
  }
  Metrics metrics;
  const auto add = [&](const char* prefix, auto&& wanted, bool with_count) {
    double exact = 0, f1 = 0;
    size_t count = 0;
    for (const Judged& one : judged)
      if (wanted(one)) exact += one.exact, f1 += one.f1, ++count;
    if (count == 0 && with_count) return;
    metrics.emplace_back(std::string(prefix) + "f1", percent(f1, count));
    metrics.emplace_back(std::string(prefix) + "exact_match", percent(exact, count));
    if (with_count) metrics.emplace_back(std::string(prefix) + "total", static_cast<double>(count));
  };
  add("", [](const Judged&) { return true; }, false);
  add("has_answer_", [](const Judged& one) { return one.has_answer; }, true);
  add("no_answer_", [](const Judged& one) { return !one.has_answer; }, true);
  if (no_answer) {
    for (const auto& [name, score] : {std::pair{"exact_match", &Judged::exact}, {"f1", &Judged::f1}}) {
      const auto [best, at] = best_threshold(raw, score);
      metrics.emplace_back(std::string("best_") + name, best);
      metrics.emplace_back(std::string("best_") + name + "_threshold", at);
    }
  }
  return metrics;
}

std::vector<std::string> mixed_segments(std::string_view text) {
  std::vector<std::string> segments;
  std::u32string other;
  const auto flush = [&] {
    for (const std::u32string& word : treebank_words(other)) segments.push_back(as_utf8(word));
    other.clear();
  };
  for (const char32_t c : without_punctuation(text)) {
    if (c < 0x4E00 || c > 0x9FA5) {
      other += c;
      continue;
    }
    flush();
    segments.push_back(as_utf8({&c, 1}));
  }
  flush();
  return segments;
}

Metrics score_cmrc(const QuestionAnswers& data, const PredictedAnswers& predictions) {
  double exact = 0, f1 = 0;
  for (const Question& question : data.questions) {
    const auto prediction = predictions.find(question.id);
    if (prediction == predictions.end()) continue;
    const std::vector<std::string> segments = mixed_segments(prediction->second);
    const std::u32string found = without_punctuation(prediction->second);
    double best_exact = 0, best_f1 = 0;
    for (const Answer& answer : question.answers) {
      best_exact = std::max(best_exact, without_punctuation(answer.text) == found ? 1.0 : 0.0);
      best_f1 = std::max(best_f1, segments_f1(mixed_segments(answer.text), segments));
    }
    exact += best_exact;
    f1 += best_f1;
  }
  exact = percent(exact, data.questions.size());
  f1 = percent(f1, data.questions.size());
  return {{"f1", f1}, {"exact_match", exact}, {"average", (f1 + exact) / 2}};
}

int64_t missing_predictions(const QuestionAnswers& data, const PredictedAnswers& predictions) {
  return std::count_if(data.questions.begin(), data.questions.end(),
                       [&](const Question& question) { return !predictions.contains(question.id); });
}

}  // namespace ramet::text
