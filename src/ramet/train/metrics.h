#pragma once

#include <map>
#include <string>
#include <vector>

#include "ramet/model/model.h"
#include "ramet/runtime/cluster.h"

namespace ramet::train {

/// Named numbers, in the order in which they are shown. NaN: not defined.
using Numbers = NamedNumbers;
/// The number of that name, or NaN.
double number_of(const Numbers& numbers, const std::string& name);

/// Adds up the results of micro-batches and gives the metrics that a model declares. Metrics whose outputs are not among
/// the results are left out. Metrics with a denominator of 0 are NaN.
class MetricSums {
 public:
  /// `held_out`: of an evaluation. `by_items`: a mean over items counts for as many as its micro-batch has; otherwise
  /// all micro-batches count alike, as they do in a step whose loss is the mean of their means.
  MetricSums(const std::vector<Metric>& metrics, bool held_out, bool by_items);
  void add(const NamedNumbers& results);
  /// In the order of the declarations; a model that declares none has the mean of "loss".
  Numbers numbers() const;

 private:
  std::optional<double> value_of(const Metric& metric) const;

  std::vector<Metric> metrics_;
  const bool held_out_, by_items_;
  std::map<std::string, double> sums_;      ///< of outputs
  std::map<std::string, double> weighted_;  ///< of metrics that are means: numerator times denominator
  double batches_ = 0;
};

}  // namespace ramet::train
