#pragma once

#include <span>

#include "ramet/track/catalogue.h"

namespace ramet::track {

/// Spearman's correlation: Pearson's of ranks, where equal values share the mean of their ranks. NaN where either side
/// is constant, or there are fewer than two pairs.
double rank_correlation(std::span<const double> a, std::span<const double> b);

/// How much each key of the configurations explains of the results: rank correlation, and the share of the variance
/// that splits by the key take away in a random forest of regression trees (Breiman 2001; impurity importance, 100
/// trees, the same in every call). `configs[i]` belongs to `results[i]`. Keys that have one value in all runs are left
/// out, as are all when there are fewer than four results. Most important first.
std::vector<KeyImportance> importance_of(const std::vector<std::vector<std::pair<std::string, FieldValue>>>& configs,
                                         const std::vector<double>& results);

}  // namespace ramet::track
