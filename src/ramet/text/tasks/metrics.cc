#include "ramet/text/tasks/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "ramet/base/error.h"

namespace ramet::text {
namespace {

void require_equal_lengths(size_t a, size_t b) {
  if (a != b) internal_error("metrics", "answers of " + std::to_string(b) + " elements for " + std::to_string(a));
}

std::vector<double> ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> rank(values.size());
  for (size_t begin = 0, end; begin < order.size(); begin = end) {
    for (end = begin + 1; end < order.size() && values[order[end]] == values[order[begin]];) ++end;
    for (size_t i = begin; i < end; ++i) rank[order[i]] = (static_cast<double>(begin + end) + 1) / 2;
  }
  return rank;
}

}  // namespace

double accuracy(std::span<const int32_t> expected, std::span<const int32_t> found) {
  require_equal_lengths(expected.size(), found.size());
  size_t right = 0;
  for (size_t i = 0; i < expected.size(); ++i) right += expected[i] == found[i];
  return expected.empty() ? 0 : static_cast<double>(right) / static_cast<double>(expected.size());
}

double f1_score(std::span<const int32_t> expected, std::span<const int32_t> found, int32_t positive) {
  require_equal_lengths(expected.size(), found.size());
  double both = 0, wanted = 0, given = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    wanted += expected[i] == positive;
    given += found[i] == positive;
    both += expected[i] == positive && found[i] == positive;
  }
  return wanted + given == 0 ? 0 : 2 * both / (wanted + given);
}

double macro_f1(std::span<const int32_t> expected, std::span<const int32_t> found, int32_t classes) {
  double sum = 0;
  int occurring = 0;
  for (int32_t c = 0; c < classes; ++c) {
    const auto is_class = [&](int32_t label) { return label == c; };
    if (std::none_of(expected.begin(), expected.end(), is_class) && std::none_of(found.begin(), found.end(), is_class))
      continue;
    sum += f1_score(expected, found, c);
    ++occurring;
  }
  return occurring == 0 ? 0 : sum / occurring;
}

double matthews_correlation(std::span<const int32_t> expected, std::span<const int32_t> found) {
  require_equal_lengths(expected.size(), found.size());
  std::map<int32_t, std::pair<double, double>> totals;  // of each class: how often expected, how often found
  double right = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    right += expected[i] == found[i];
    ++totals[expected[i]].first;
    ++totals[found[i]].second;
  }
  const auto count = static_cast<double>(expected.size());
  double crossed = 0, expected_squares = 0, found_squares = 0;
  for (const auto& [label, total] : totals) {
    crossed += total.first * total.second;
    expected_squares += total.first * total.first;
    found_squares += total.second * total.second;
  }
  const double spread = (count * count - found_squares) * (count * count - expected_squares);
  return spread <= 0 ? 0 : (right * count - crossed) / std::sqrt(spread);
}

double pearson_correlation(std::span<const double> x, std::span<const double> y) {
  require_equal_lengths(x.size(), y.size());
  const auto count = static_cast<double>(x.size());
  if (x.size() < 2) return std::numeric_limits<double>::quiet_NaN();
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / count;
  const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / count;
  double xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - mean_x, dy = y[i] - mean_y;
    xx += dx * dx, yy += dy * dy, xy += dx * dy;
  }
  if (xx == 0 || yy == 0) return std::numeric_limits<double>::quiet_NaN();
  return std::clamp(xy / std::sqrt(xx) / std::sqrt(yy), -1.0, 1.0);
}

double spearman_correlation(std::span<const double> x, std::span<const double> y) {
  require_equal_lengths(x.size(), y.size());
  const auto is_nan = [](double value) { return std::isnan(value); };
  if (std::any_of(x.begin(), x.end(), is_nan) || std::any_of(y.begin(), y.end(), is_nan))
    return std::numeric_limits<double>::quiet_NaN();
  return pearson_correlation(ranks(x), ranks(y));
}

double roc_auc(std::span<const double> answers, std::span<const double> scores) {
  require_equal_lengths(answers.size(), scores.size());
  std::vector<std::pair<double, bool>> items;
  for (size_t i = 0; i < answers.size(); ++i)
    if (answers[i] == 0 || answers[i] == 1) items.emplace_back(scores[i], answers[i] == 1);
  if (std::any_of(items.begin(), items.end(), [](const auto& item) { return std::isnan(item.first); }))
    return std::numeric_limits<double>::quiet_NaN();
  std::sort(items.begin(), items.end());
  double right = 0, wrong = 0, above = 0;
  for (size_t begin = 0, end = 0; begin < items.size(); begin = end) {
    double of_right = 0, of_wrong = 0;
    for (; end < items.size() && items[end].first == items[begin].first; ++end)
      (items[end].second ? of_right : of_wrong) += 1;
    above += of_right * (wrong + of_wrong / 2);
    right += of_right, wrong += of_wrong;
  }
  return right * wrong > 0 ? above / (right * wrong) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace ramet::text
