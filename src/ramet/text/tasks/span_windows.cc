#include "ramet/text/tasks/span_windows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <unordered_set>

#include "ramet/text/unicode.h"

namespace ramet::text {
namespace {

/// Places of the `most` greatest logits, greatest first, the first of equals; NaN never.
std::vector<size_t> greatest(std::span<const float> logits, size_t most) {
  std::vector<size_t> order;
  for (size_t i = 0; i < logits.size(); ++i)
    if (!std::isnan(logits[i])) order.push_back(i);
  const auto before = [&](size_t a, size_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
  const size_t kept = std::min(most, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), before);
  order.resize(kept);
  return order;
}

std::string_view trimmed(std::string_view text) {
  const auto blank_at = [&](size_t at) {
    return is_unicode_space(next_code_point(text, at));
  };
  while (!text.empty()) {
    size_t after = 0;
    if (!is_unicode_space(next_code_point(text, after))) break;
    text.remove_prefix(after);
  }
  while (!text.empty()) {
    size_t last = text.size() - 1;
    while (last > 0 && (static_cast<uint8_t>(text[last]) & 0xC0) == 0x80) --last;
    if (!blank_at(last)) break;
    text = text.substr(0, last);
  }
  return text;
}

/// exp(score - highest), each over their sum.
std::vector<double> softmax(const std::vector<double>& scores) {
  const double highest = *std::max_element(scores.begin(), scores.end());
  std::vector<double> shares;
  for (const double score : scores) shares.push_back(std::isfinite(highest) ? std::exp(score - highest) : 1);
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  return shares;
}

}  // namespace

std::vector<SpanWindow> make_windows(size_t tokens, size_t room, size_t stride) {
  std::vector<SpanWindow> windows;
  for (size_t first = 0;;) {
    const size_t count = std::min(tokens - first, room);
    windows.push_back({first, count});
    if (first + count >= tokens) return windows;
    first += std::min(count, stride);
  }
}

size_t best_window(std::span<const SpanWindow> windows, size_t token) {
  size_t best = windows.size();
  double most = 0;
  for (size_t w = 0; w < windows.size(); ++w) {
    const SpanWindow& window = windows[w];
    if (token < window.first || token >= window.first + window.count) continue;
    const size_t left = token - window.first, right = window.first + window.count - 1 - token;
    const double context = static_cast<double>(std::min(left, right)) + 0.01 * static_cast<double>(window.count);
    if (best == windows.size() || context > most) best = w, most = context;
  }
  return best;
}

std::optional<TokenRange> tokens_of_place(std::span<const TokenSpan> tokens, TokenSpan place) {
  const auto first = std::find_if(tokens.begin(), tokens.end(), [&](TokenSpan token) { return token.end > place.begin; });
  size_t end = tokens.size();
  while (end > 0 && tokens[end - 1].begin >= place.end) --end;
  const auto begin = static_cast<size_t>(first - tokens.begin());
  if (begin >= end) return std::nullopt;
  return TokenRange{begin, end - 1};
}

SpanAnswers find_answers(std::string_view context, std::span<const TokenSpan> spans,
                         std::span<const WindowLogits> windows, const SpanOptions& options, bool may_be_null) {
  std::vector<SpanWindow> places;
  for (const WindowLogits& logits : windows) places.push_back(logits.window);
  SpanAnswers answers;
  answers.null_score = std::numeric_limits<double>::infinity();
  std::vector<SpanCandidate> candidates;
  for (size_t w = 0; w < windows.size(); ++w) {
    const WindowLogits& logits = windows[w];
    const double null_score = double{logits.null_start} + double{logits.null_end};
    if (null_score < answers.null_score) answers.null_score = null_score;
    const std::vector<size_t> ends = greatest(logits.end, options.n_best);
    for (const size_t start : greatest(logits.start, options.n_best)) {
      if (best_window(places, logits.window.first + start) != w) continue;
      for (const size_t end : ends)
        if (end >= start && end - start < options.max_answer)
          candidates.push_back({.text = {},
                                .score = double{logits.start[start]} + double{logits.end[end]},
                                .tokens = {logits.window.first + start, logits.window.first + end}});
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const SpanCandidate& a, const SpanCandidate& b) { return a.score > b.score; });
  std::unordered_set<std::string> seen;
  for (SpanCandidate& candidate : candidates) {
    if (answers.best.size() == options.n_best) break;
    const uint32_t begin = spans[candidate.tokens.first].begin, end = spans[candidate.tokens.last].end;
    candidate.text = trimmed(context.substr(begin, std::max(begin, end) - begin));
    if (candidate.text.empty() || !seen.insert(candidate.text).second) continue;
    answers.best.push_back(std::move(candidate));
  }
  std::vector<double> scores;
  for (const SpanCandidate& candidate : answers.best) scores.push_back(candidate.score);
  if (may_be_null) scores.push_back(answers.null_score);
  if (scores.empty()) return answers;
  const std::vector<double> shares = softmax(scores);
  for (size_t i = 0; i < answers.best.size(); ++i) answers.best[i].probability = shares[i];
  if (may_be_null) answers.null_probability = shares.back();
  return answers;
}

std::string vote(std::span<const SpanAnswers> runs, bool may_be_null, double null_threshold) {
  std::map<std::string_view, double> votes;
  double margin = 0;  // of no answer over the best one
  size_t with_answers = 0;
  for (const SpanAnswers& run : runs) {
    for (const SpanCandidate& candidate : run.best) votes[candidate.text] += candidate.probability;
    if (run.best.empty()) continue;
    margin += run.null_score - run.best.front().score;
    ++with_answers;
  }
  if (votes.empty()) return "";
  if (may_be_null && margin / static_cast<double>(with_answers) > null_threshold) return "";
  // Equal votes: the first run's better one.
  std::string_view best;
  double most = -1;
  for (const SpanAnswers& run : runs)
    for (const SpanCandidate& candidate : run.best)
      if (const double share = votes[candidate.text]; share > most) best = candidate.text, most = share;
  return std::string(best);
}

}  // namespace ramet::text
