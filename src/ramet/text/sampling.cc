#include "ramet/text/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <unordered_set>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"

namespace ramet::text {
namespace {

struct Logit {
  int32_t token;
  float value;
};

/// The likelier first; of equal ones the lower token.
bool is_likelier(const Logit& a, const Logit& b) {
  return a.value > b.value || (a.value == b.value && a.token < b.token);
}

/// Logits of tokens of the text, made less likely.
void penalise(std::vector<Logit>& logits, std::span<const int32_t> context, double penalty) {
  const std::unordered_set<int32_t> met(context.begin(), context.end());
  const auto factor = static_cast<float>(penalty);
  for (Logit& logit : logits)
    if (met.count(logit.token)) logit.value = logit.value > 0 ? logit.value / factor : logit.value * factor;
}

/// Chances by the softmax of logits / temperature; `most` is the greatest logit.
std::vector<double> chances_of(const std::vector<Logit>& logits, double most, double temperature) {
  std::vector<double> chances;
  double sum = 0;
  for (const Logit& logit : logits)
    sum += chances.emplace_back(std::exp((static_cast<double>(logit.value) - most) / temperature));
  for (double& chance : chances) chance /= sum;
  return chances;
}

/// Keeps the likeliest logits whose chances add up to `share`.
void keep_share(std::vector<Logit>& logits, double most, const SamplingOptions& options) {
  double sum = 0;
  for (const Logit& logit : logits) sum += std::exp((static_cast<double>(logit.value) - most) / options.temperature);
  // A heap gives the likeliest one after another: of a whole vocabulary few are needed.
  const auto is_less = [](const Logit& a, const Logit& b) { return is_likelier(b, a); };
  std::make_heap(logits.begin(), logits.end(), is_less);
  double share = 0;
  auto end = logits.end();
  while (end != logits.begin() && share < options.top_p) {
    std::pop_heap(logits.begin(), end, is_less);
    --end;
    share += std::exp((static_cast<double>(end->value) - most) / options.temperature) / sum;
  }
  logits.erase(logits.begin(), end);
}

[[noreturn]] void refuse(const std::string& option, double found, const std::string& expected) {
  throw Error({.what = "a sampling option is out of range",
               .where = option,
               .found = std::to_string(found),
               .expected = expected});
}

}  // namespace

void check_sampling(const SamplingOptions& options) {
  if (!(options.temperature >= 0) || std::isinf(options.temperature))
    refuse("temperature", options.temperature, "a number from 0 on");
  if (options.top_k < 0) refuse("top_k", static_cast<double>(options.top_k), "0 (all), or how many tokens");
  if (!(options.top_p > 0 && options.top_p <= 1)) refuse("top_p", options.top_p, "above 0, at most 1");
  if (!(options.repetition_penalty > 0) || std::isinf(options.repetition_penalty))
    refuse("repetition_penalty", options.repetition_penalty, "above 0 (1: none)");
}

std::vector<TokenChance> next_token_chances(std::span<const float> all, std::span<const int32_t> context,
                                            const SamplingOptions& options) {
  std::vector<Logit> logits;
  logits.reserve(all.size());
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i] > -std::numeric_limits<float>::infinity()) logits.push_back({static_cast<int32_t>(i), all[i]});
  if (options.repetition_penalty != 1) penalise(logits, context, options.repetition_penalty);
  if (logits.empty())
    throw Error({.what = "the model gives no token a chance: all logits are -infinity or not numbers",
                 .where = "decoding",
                 .remedy = "Look at the weights with `ramet inspect`; in f16 try bf16"},
                ErrorKind::kFailure);
  const Logit likeliest = *std::min_element(logits.begin(), logits.end(), is_likelier);
  if (options.temperature == 0 || std::isinf(likeliest.value)) return {{likeliest.token, 1.0}};
  const auto most = static_cast<double>(likeliest.value);
  if (options.top_k > 0 && options.top_k < std::ssize(logits)) {
    std::nth_element(logits.begin(), logits.begin() + options.top_k - 1, logits.end(), is_likelier);
    logits.resize(static_cast<size_t>(options.top_k));
  }
  // In one order whatever came before, so that sums have one order too.
  const auto by_token = [](const Logit& a, const Logit& b) { return a.token < b.token; };
  std::sort(logits.begin(), logits.end(), by_token);
  if (options.top_p < 1) {
    keep_share(logits, most, options);
    std::sort(logits.begin(), logits.end(), by_token);
  }
  const std::vector<double> chances = chances_of(logits, most, options.temperature);
  std::vector<TokenChance> result;
  for (size_t i = 0; i < logits.size(); ++i) result.push_back({logits[i].token, chances[i]});
  return result;
}

int32_t next_token(std::span<const float> logits, std::span<const int32_t> context, const SamplingOptions& options,
                   int64_t text, int64_t position) {
  const std::vector<TokenChance> chances = next_token_chances(logits, context, options);
  if (chances.size() == 1) return chances[0].token;
  const RandomStream random(options.seed, RandomPurpose::kSampling, static_cast<uint64_t>(text), 0);
  // 53 bits of two words.
  const auto element = static_cast<uint64_t>(position) * 2;
  const uint64_t bits = (uint64_t{random.bits(element)} << 32 | random.bits(element + 1)) >> 11;
  double draw = static_cast<double>(bits) * 0x1p-53;
  for (const TokenChance& chance : chances) {
    if (draw < chance.probability) return chance.token;
    draw -= chance.probability;
  }
  return chances.back().token;  // the chances add up to a little less than 1
}

}  // namespace ramet::text
