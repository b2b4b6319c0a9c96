#pragma once

// Long contexts in windows, and answers from the logits of their tokens. Inside data/ and cli/ only.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ramet/text/tasks/question_answers.h"
#include "ramet/text/tokenizer.h"

namespace ramet::text {

/// Tokens [first, first + count) of a context.
struct SpanWindow {
  size_t first = 0, count = 0;
};

/// Windows of at most `room` tokens over `tokens`, each `stride` after the one before, until one reaches the end
/// (BERT's run_squad). One empty window for no tokens.
std::vector<SpanWindow> make_windows(size_t tokens, size_t room, size_t stride);

/// Of the windows that hold a token, the one where it has most context: the least of what stands left and right of it,
/// plus a hundredth of the window's length; the first of equals (BERT's max context).
size_t best_window(std::span<const SpanWindow> windows, size_t token);

/// First and last token of a place, as tokens overlap it; none when no token does.
struct TokenRange {
  size_t first = 0, last = 0;
};
std::optional<TokenRange> tokens_of_place(std::span<const TokenSpan> tokens, TokenSpan place);

/// A model's output for one window: logits of its tokens, in the order of the context, and of [CLS].
struct WindowLogits {
  SpanWindow window;
  std::span<const float> start, end;
  float null_start = 0, null_end = 0;
};

struct SpanOptions {
  size_t n_best = 20, max_answer = 30;
};

/// An answer: a piece of the context.
struct SpanCandidate {
  std::string text;
  double score = 0;        ///< start logit plus end logit
  double probability = 0;  ///< softmax of the scores over the list (with no answer among them, when it may be)
  TokenRange tokens{};
};

/// The likeliest answers of one question, best first, no text twice.
struct SpanAnswers {
  std::vector<SpanCandidate> best;
  double null_score = 0;        ///< the least over windows of the logits of [CLS]
  double null_probability = 0;  ///< 0 unless asked for
};

/// Starts where their token has its best window, ends at or behind them, at most max_answer tokens; of each window the
/// n_best likeliest starts and ends are tried, n_best texts stay. `spans` are the places of the context's tokens;
/// blanks at both ends of an answer are cut.
SpanAnswers find_answers(std::string_view context, std::span<const TokenSpan> spans,
                         std::span<const WindowLogits> windows, const SpanOptions& options, bool may_be_null);

/// The answer that the runs of an ensemble agree on: the text with most probability over their lists. "" where the null
/// score exceeds the best answer's by more than `null_threshold` (in the mean of the runs), when it may be null.
std::string vote(std::span<const SpanAnswers> runs, bool may_be_null, double null_threshold);

}  // namespace ramet::text
