#include <algorithm>
#include <cmath>

#include "ramet/ops/resize.h"

// Positions and weights follow PyTorch's CPU kernels step by step in f32, so that both read the same elements where a
// position is at (or near) a boundary.

namespace ramet::ops {
namespace {

float step_of(const ResampleRule& rule, int64_t inputs, int64_t outputs, float given) {
  if (rule.coordinates == ResampleCoordinates::kCorners)
    return outputs > 1 ? static_cast<float>(inputs - 1) / static_cast<float>(outputs - 1) : 0.0f;
  return given > 0 ? given : static_cast<float>(inputs) / static_cast<float>(outputs);
}

float position_of(const ResampleRule& rule, float step, int64_t i) {
  if (rule.coordinates == ResampleCoordinates::kHalfPixel) return step * (static_cast<float>(i) + 0.5f) - 0.5f;
  return step * static_cast<float>(i);
}

int32_t held(int64_t index, int64_t inputs) { return static_cast<int32_t>(std::clamp<int64_t>(index, 0, inputs - 1)); }

void add_nearest(const ResampleRule& rule, float position, int64_t inputs, TapTable& table) {
  // PyTorch holds positions at 0 before it rounds.
  const float at = std::max(position, 0.0f);
  float index = 0;
  switch (rule.rounding) {
    case ResampleRounding::kFloor: index = std::floor(at); break;
    case ResampleRounding::kCeil: index = std::ceil(at); break;
    case ResampleRounding::kHalfDown: index = std::ceil(at - 0.5f); break;
    case ResampleRounding::kHalfUp: index = std::floor(at + 0.5f); break;
  }
  table.taps.push_back(held(static_cast<int64_t>(index), inputs));
  table.weights.push_back(1);
}

/// The element below a position, and how far the position is above it.
std::pair<int64_t, float> split_position(float position, int64_t inputs) {
  const int64_t below = std::min(static_cast<int64_t>(std::floor(position)), inputs - 1);
  return {below, std::clamp(position - static_cast<float>(below), 0.0f, 1.0f)};
}

void add_linear(float position, int64_t inputs, TapTable& table) {
  const auto [below, part] = split_position(std::max(position, 0.0f), inputs);
  for (const auto& [index, weight] : {std::pair(below, 1 - part), std::pair(below + 1, part)}) {
    table.taps.push_back(held(index, inputs));
    table.weights.push_back(weight);
  }
}

/// Keys' filter at distance x from 0 to 1, and from 1 to 2.
float cubic_near(float x, float a) { return ((a + 2) * x - (a + 3)) * x * x + 1; }
float cubic_far(float x, float a) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; }

void add_cubic(float position, float a, int64_t inputs, TapTable& table) {
  const auto [below, part] = split_position(position, inputs);
  const float rest = 1 - part;
  const float weights[] = {cubic_far(part + 1, a), cubic_near(part, a), cubic_near(rest, a), cubic_far(rest + 1, a)};
  for (int64_t tap = 0; tap < 4; ++tap) {
    table.taps.push_back(held(below + tap - 1, inputs));
    table.weights.push_back(weights[tap]);
  }
}

float filter_at(const ResampleRule& rule, float x) {
  const float distance = std::fabs(x);
  if (rule.method == ResampleMethod::kLinear) return distance < 1 ? 1 - distance : 0.0f;
  const auto a = static_cast<float>(rule.cubic);
  return distance < 1 ? cubic_near(distance, a) : distance < 2 ? cubic_far(distance, a) : 0.0f;
}

/// A filter as wide as the step, normalised.
void add_wide(const ResampleRule& rule, float step, int64_t i, int64_t inputs, TapTable& table) {
  const float half = rule.method == ResampleMethod::kCubic ? 2.0f : 1.0f;
  const float support = step >= 1 ? half * step : half, narrowing = step >= 1 ? 1 / step : 1.0f;
  // As in PyTorch, aligned corners change the step alone: centres stay those of half pixels.
  const float center = step * (static_cast<float>(i) + 0.5f);
  const int64_t first = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5f), 0);
  const int64_t end = std::min<int64_t>(static_cast<int64_t>(center + support + 0.5f), inputs);
  const size_t begin = table.weights.size();
  float sum = 0;
  for (int64_t tap = first; tap < end; ++tap) {
    const float weight = filter_at(rule, (static_cast<float>(tap) - center + 0.5f) * narrowing);
    table.taps.push_back(static_cast<int32_t>(tap));
    table.weights.push_back(weight);
    sum += weight;
  }
  for (size_t t = begin; t < table.weights.size(); ++t)
    if (sum != 0) table.weights[t] /= sum;
}

}  // namespace

TapTable tap_table(const ResampleRule& rule, int64_t inputs, int64_t outputs, float step) {
  TapTable table;
  const float used = step_of(rule, inputs, outputs, step);
  for (int64_t i = 0; i < outputs; ++i) {
    const float position = position_of(rule, used, i);
    if (rule.antialias && rule.method != ResampleMethod::kNearest)
      add_wide(rule, used, i, inputs, table);
    else if (rule.method == ResampleMethod::kNearest)
      add_nearest(rule, position, inputs, table);
    else if (rule.method == ResampleMethod::kLinear)
      add_linear(position, inputs, table);
    else
      add_cubic(position, static_cast<float>(rule.cubic), inputs, table);
    table.starts.push_back(static_cast<int64_t>(table.taps.size()));
  }
  if (!table.is_identity(inputs)) return table;
  TapTable identity;
  for (int64_t i = 0; i < outputs; ++i) {
    identity.taps.push_back(static_cast<int32_t>(i));
    identity.weights.push_back(1);
    identity.starts.push_back(i + 1);
  }
  return identity;
}

bool TapTable::is_identity(int64_t inputs) const {
  if (outputs() != inputs) return false;
  for (int64_t i = 0; i < inputs; ++i) {
    float own = 0;
    for (int64_t t = starts[static_cast<size_t>(i)]; t < starts[static_cast<size_t>(i) + 1]; ++t) {
      const auto at = static_cast<size_t>(t);
      if (taps[at] == i)
        own += weights[at];
      else if (weights[at] != 0)
        return false;
    }
    if (own != 1) return false;
  }
  return true;
}

TapTable TapTable::transposed(int64_t inputs) const {
  TapTable table;
  table.starts.assign(static_cast<size_t>(inputs) + 1, 0);
  for (int32_t tap : taps) ++table.starts[static_cast<size_t>(tap) + 1];
  for (size_t i = 1; i < table.starts.size(); ++i) table.starts[i] += table.starts[i - 1];
  table.taps.resize(taps.size());
  table.weights.resize(taps.size());
  std::vector<int64_t> next(table.starts.begin(), table.starts.end() - 1);
  for (int64_t i = 0; i < outputs(); ++i)
    for (int64_t t = starts[static_cast<size_t>(i)]; t < starts[static_cast<size_t>(i) + 1]; ++t) {
      const auto to = static_cast<size_t>(next[static_cast<size_t>(taps[static_cast<size_t>(t)])]++);
      table.taps[to] = static_cast<int32_t>(i);
      table.weights[to] = weights[static_cast<size_t>(t)];
    }
  return table;
}

}  // namespace ramet::ops
