#include "ramet/ops/random_fill.h"

#include <cmath>

#include "ramet/base/error.h"

namespace ramet::ops {

RandomKind random_kind_from_name(std::string_view name) {
  if (name == "uniform") return RandomKind::kUniform;
  if (name == "normal") return RandomKind::kNormal;
  if (name == "truncated_normal") return RandomKind::kTruncatedNormal;
  throw Error({.what = "unknown kind of random numbers",
               .found = "'" + std::string(name) + "'",
               .expected = "uniform, normal or truncated_normal"});
}

float random_initial_value(RandomKind kind, double a, double b, uint64_t seed, uint64_t tensor, uint64_t element) {
  const auto stream = [&](uint64_t attempt) { return RandomStream(seed, RandomPurpose::kInit, attempt, tensor); };
  if (kind == RandomKind::kUniform)
    return static_cast<float>(a + (b - a) * static_cast<double>(stream(0).uniform(element)));
  double draw = stream(0).normal(element);
  // The attempt takes the place of the step in the counter. Each misses with probability 0.046, so that the bound is
  // never met in practice; it only keeps the loop finite.
  for (uint64_t attempt = 1; kind == RandomKind::kTruncatedNormal && std::fabs(draw) > 2; ++attempt)
    draw = attempt < 64 ? stream(attempt).normal(element) : 0;
  return static_cast<float>(a + b * draw);
}

}  // namespace ramet::ops
