#include "ramet/train/metrics.h"

#include <cmath>
#include <limits>

namespace ramet::train {

double number_of(const Numbers& numbers, const std::string& name) {
  for (const auto& [key, value] : numbers)
    if (key == name) return value;
  return std::numeric_limits<double>::quiet_NaN();
}

MetricSums::MetricSums(const std::vector<Metric>& metrics, bool held_out, bool by_items)
    : metrics_(metrics), held_out_(held_out), by_items_(by_items) {
  if (metrics_.empty()) metrics_.push_back({.name = "loss", .numerator = "loss", .how = Metric::How::kMean});
}

void MetricSums::add(const NamedNumbers& results) {
  const std::map<std::string, double> batch(results.begin(), results.end());
  ++batches_;
  for (const auto& [name, value] : batch) sums_[name] += value;
  for (const Metric& metric : metrics_) {
    if (!metric.numerator_is_mean) continue;
    const auto mean = batch.find(metric.numerator), items = batch.find(metric.denominator);
    if (mean == batch.end() || items == batch.end()) continue;
    // The mean of no items says nothing, whatever number it is.
    weighted_[metric.name] += items->second == 0 ? 0 : mean->second * items->second;
  }
}

std::optional<double> MetricSums::value_of(const Metric& metric) const {
  const auto value_of_name = [&](const std::string& name) -> std::optional<double> {
    for (const Metric& other : metrics_)
      if (other.name == name) return value_of(other);
    return std::nullopt;
  };
  if (metric.how == Metric::How::kExp) {
    const auto exponent = value_of_name(metric.numerator);
    return exponent ? std::optional(std::exp(*exponent)) : std::nullopt;
  }
  if (metric.how == Metric::How::kAverage) {
    double sum = 0, count = 0;
    for (const std::string& part : metric.parts) {
      const auto value = value_of_name(part);
      if (!value) return std::nullopt;
      if (!std::isnan(*value)) sum += *value, ++count;
    }
    return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
  }
  if (by_items_ && !metric.parts.empty()) {
    double sum = 0;
    for (const std::string& part : metric.parts) {
      const auto value = value_of_name(part);
      if (!value) return std::nullopt;
      sum += *value;
    }
    return sum;
  }
  const auto numerator = sums_.find(metric.numerator);
  if (numerator == sums_.end()) return std::nullopt;
  if (metric.how == Metric::How::kSum) return numerator->second;
  if (metric.how == Metric::How::kMean || (metric.numerator_is_mean && !by_items_)) return numerator->second / batches_;
  const auto denominator = sums_.find(metric.denominator);
  if (denominator == sums_.end()) return std::nullopt;
  if (denominator->second == 0) return std::numeric_limits<double>::quiet_NaN();
  return (metric.numerator_is_mean ? weighted_.at(metric.name) : numerator->second) / denominator->second;
}

Numbers MetricSums::numbers() const {
  Numbers result;
  if (batches_ == 0) return result;
  for (const Metric& metric : metrics_) {
    if (metric.held_out_only && !held_out_) continue;
    if (const auto value = value_of(metric)) result.emplace_back(metric.name, *value);
  }
  return result;
}

}  // namespace ramet::train
