#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::text {

/// How the next token of a text is chosen from a model's logits. They are applied in this order: the repetition
/// penalty, the temperature, top_k, top_p, the draw.
struct SamplingOptions {
  /// Logits are divided by it before the softmax; 0 takes the likeliest token and draws nothing.
  double temperature = 0;
  int64_t top_k = 0;  ///< only so many of the likeliest tokens may be drawn; 0: all
  /// Only the likeliest tokens may be drawn whose probabilities add up to at least this share (Holtzman et al., arXiv
  /// 1904.09751); 1: all.
  double top_p = 1;
  /// Logits of tokens that the text holds already are divided by it where they are positive, else multiplied with it
  /// (Keskar et al., arXiv 1909.05858); 1: none.
  double repetition_penalty = 1;
  uint64_t seed = 0;
};
/// Throws Error naming an option that is out of its range.
void check_sampling(const SamplingOptions& options);

/// A token that may be drawn.
struct TokenChance {
  int32_t token = 0;
  double probability = 0;
};

/// The tokens that may follow `context` (the text so far) and their probabilities, which add up to 1; in order of the
/// tokens. Of equal logits at a limit the lower token is kept. With temperature 0 the likeliest token alone. Logits
/// that are NaN or -infinity are never chosen. Throws Error when no logit is left.
std::vector<TokenChance> next_token_chances(std::span<const float> logits, std::span<const int32_t> context,
                                            const SamplingOptions& options);

/// The next token. The draw is a function of the seed, the number of the text and the position of the new token alone;
/// it depends neither on the other texts nor on how they are computed.
int32_t next_token(std::span<const float> logits, std::span<const int32_t> context, const SamplingOptions& options,
                   int64_t text, int64_t position);

}  // namespace ramet::text
