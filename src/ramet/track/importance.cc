#include "ramet/track/importance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>

namespace ramet::track {
namespace {

constexpr int kTrees = 100, kMostDepth = 12;
constexpr size_t kLeastSplit = 4, kLeastResults = 4, kMostResults = 5000;

/// One key over all runs.
struct Feature {
  std::string key;
  bool is_text = false;
  std::vector<double> values;  ///< numbers, or numbers of the distinct texts; NaN: absent
  int64_t present = 0;
};

std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t i = 0; i < order.size();) {
    size_t end = i;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (size_t j = i; j < end; ++j) ranks[order[j]] = static_cast<double>(i + end - 1) / 2;
    i = end;
  }
  return ranks;
}

std::optional<double> number_of(const FieldValue& value) {
  if (const bool* truth = std::get_if<bool>(&value)) return *truth ? 1.0 : 0.0;
  if (const int64_t* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  if (const double* real = std::get_if<double>(&value)) return *real;
  return std::nullopt;
}

std::vector<Feature> features_of(const std::vector<std::vector<std::pair<std::string, FieldValue>>>& configs) {
  std::map<std::string, std::vector<const FieldValue*>> by_key;
  for (size_t run = 0; run < configs.size(); ++run)
    for (const auto& [key, value] : configs[run]) {
      auto& values = by_key[key];
      values.resize(configs.size());
      if (!std::holds_alternative<std::monostate>(value)) values[run] = &value;
    }
  std::vector<Feature> features;
  for (const auto& [key, values] : by_key) {
    Feature feature{.key = key, .values = std::vector<double>(configs.size(), std::nan(""))};
    feature.is_text =
        std::any_of(values.begin(), values.end(), [](const auto* value) { return value && !number_of(*value); });
    std::map<std::string, double> texts;
    if (feature.is_text)
      for (const auto* value : values)
        if (value) texts.emplace(field_text(*value), static_cast<double>(texts.size()));
    for (size_t run = 0; run < values.size(); ++run) {
      if (!values[run]) continue;
      ++feature.present;
      feature.values[run] = feature.is_text ? texts[field_text(*values[run])] : *number_of(*values[run]);
    }
    const auto same = [&](double value) {
      return value == feature.values[0] || (std::isnan(value) && std::isnan(feature.values[0]));
    };
    if (!std::all_of(feature.values.begin(), feature.values.end(), same)) features.push_back(std::move(feature));
  }
  return features;
}

/// A random forest that keeps nothing but what its splits explain.
class Forest {
 public:
  Forest(const std::vector<Feature>& features, const std::vector<double>& results)
      : features_(features), results_(results), explained_(features.size()) {}

  /// Shares of the keys; they sum to 1, or are all 0 where nothing is explained.
  std::vector<double> shares() {
    const size_t count = results_.size();
    for (int tree = 0; tree < kTrees; ++tree) {
      std::vector<size_t> rows(count);
      for (auto& row : rows) row = below(count);
      split(rows, 0);
    }
    const double all = std::accumulate(explained_.begin(), explained_.end(), 0.0);
    for (auto& share : explained_) share = all > 0 ? share / all : 0;
    return explained_;
  }

 private:
  size_t below(size_t end) { return static_cast<size_t>(random_() % end); }
  /// What rows are sorted by: a number, or of texts the mean result of those that share it, which finds the best
  /// parting of them in two (Breiman and others 1984, section 4.2). Absent values come first.
  std::vector<std::pair<double, double>> sorted(const std::vector<size_t>& rows, const Feature& feature) const {
    std::map<double, std::pair<double, double>> means;
    if (feature.is_text)
      for (const size_t row : rows)
        if (!std::isnan(feature.values[row])) {
          auto& [sum, number] = means[feature.values[row]];
          sum += results_[row], ++number;
        }
    std::vector<std::pair<double, double>> pairs;
    for (const size_t row : rows) {
      double at = feature.values[row];
      if (std::isnan(at))
        at = -std::numeric_limits<double>::infinity();
      else if (feature.is_text)
        at = means[at].first / means[at].second;
      pairs.emplace_back(at, results_[row]);
    }
    return pairs;
  }

  void split(const std::vector<size_t>& rows, int depth) {
    if (rows.size() < kLeastSplit || depth >= kMostDepth) return;
    double best = 0, cut = 0;
    size_t chosen = features_.size();
    std::vector<std::pair<double, double>> chosen_pairs;
    const size_t tries = std::max<size_t>(1, (features_.size() + 2) / 3);
    for (size_t i = 0; i < tries; ++i) {
      const size_t feature = below(features_.size());
      auto pairs = sorted(rows, features_[feature]);
      const auto unsorted = pairs;
      std::sort(pairs.begin(), pairs.end());
      double sum = 0;
      for (const auto& pair : pairs) sum += pair.second;
      const auto count = static_cast<double>(pairs.size());
      double left = 0;
      for (size_t at = 0; at + 1 < pairs.size(); ++at) {
        left += pairs[at].second;
        if (pairs[at].first == pairs[at + 1].first) continue;
        const double n = static_cast<double>(at + 1), right = sum - left;
        const double gain = left * left / n + right * right / (count - n) - sum * sum / count;
        if (gain > best * (1 + 1e-12)) best = gain, cut = pairs[at].first, chosen = feature, chosen_pairs = unsorted;
      }
    }
    if (chosen == features_.size()) return;
    explained_[chosen] += best;
    std::vector<size_t> low, high;
    for (size_t i = 0; i < rows.size(); ++i) (chosen_pairs[i].first <= cut ? low : high).push_back(rows[i]);
    split(low, depth + 1);
    split(high, depth + 1);
  }

  const std::vector<Feature>& features_;
  const std::vector<double>& results_;
  std::vector<double> explained_;
  std::mt19937_64 random_{20'260'101};
};

}  // namespace

double rank_correlation(std::span<const double> a, std::span<const double> b) {
  if (a.size() < 2 || a.size() != b.size()) return std::nan("");
  const std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double mean = static_cast<double>(a.size() - 1) / 2;
  double together = 0, of_x = 0, of_y = 0;
  for (size_t i = 0; i < x.size(); ++i)
    together += (x[i] - mean) * (y[i] - mean), of_x += (x[i] - mean) * (x[i] - mean),
        of_y += (y[i] - mean) * (y[i] - mean);
  return of_x > 0 && of_y > 0 ? together / std::sqrt(of_x * of_y) : std::nan("");
}

std::vector<KeyImportance> importance_of(const std::vector<std::vector<std::pair<std::string, FieldValue>>>& configs,
                                         const std::vector<double>& results) {
  std::vector<KeyImportance> all;
  if (results.size() < kLeastResults || configs.size() != results.size()) return all;
  if (results.size() > kMostResults) {  // every n-th tells as much
    const size_t every = (results.size() + kMostResults - 1) / kMostResults;
    std::vector<std::vector<std::pair<std::string, FieldValue>>> fewer;
    std::vector<double> their;
    for (size_t i = 0; i < results.size(); i += every) fewer.push_back(configs[i]), their.push_back(results[i]);
    return importance_of(fewer, their);
  }
  const std::vector<Feature> features = features_of(configs);
  if (features.empty()) return all;
  // About the mean, so that sums of squares lose no digits.
  const double mean = std::accumulate(results.begin(), results.end(), 0.0) / static_cast<double>(results.size());
  std::vector<double> centred;
  for (const double result : results) centred.push_back(result - mean);
  const std::vector<double> shares = Forest(features, centred).shares();
  for (size_t i = 0; i < features.size(); ++i) {
    KeyImportance one{
        .key = features[i].key, .runs = features[i].present, .correlation = std::nan(""), .importance = shares[i]};
    if (!features[i].is_text) {
      std::vector<double> values, their;
      for (size_t run = 0; run < results.size(); ++run)
        if (!std::isnan(features[i].values[run]))
          values.push_back(features[i].values[run]), their.push_back(results[run]);
      one.correlation = rank_correlation(values, their);
    }
    all.push_back(std::move(one));
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.importance > b.importance; });
  return all;
}

}  // namespace ramet::track
