#pragma once

// What answers are worth: counts and correlations over classes and numbers.

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::text {

/// Metrics by name, the one that decides first.
using Metrics = std::vector<std::pair<std::string, double>>;

/// Share of equal elements, in [0, 1]; 0 for none. Both spans have the same length (so in all that follow).
double accuracy(std::span<const int32_t> expected, std::span<const int32_t> found);
/// Harmonic mean of precision and recall of class `positive`; 0 where either is not defined, as scikit-learn has it.
double f1_score(std::span<const int32_t> expected, std::span<const int32_t> found, int32_t positive = 1);
/// The mean over the classes that occur of their F1 (macro average).
double macro_f1(std::span<const int32_t> expected, std::span<const int32_t> found, int32_t classes);
/// Matthews' correlation of any number of classes (Gorodkin, "Comparing two K-category assignments by a K-category
/// correlation coefficient", 2004); 0 where one side has but one class.
double matthews_correlation(std::span<const int32_t> expected, std::span<const int32_t> found);
/// NaN where one side is constant or has fewer than two elements.
double pearson_correlation(std::span<const double> x, std::span<const double> y);
/// Pearson's correlation of ranks, equal values sharing their mean rank.
double spearman_correlation(std::span<const double> x, std::span<const double> y);

/// Area under the curve of true over false positives: the probability that an item with the answer 1 has a greater
/// score than one with the answer 0, where equal scores count half (Hanley and McNeil 1982). Items with any other
/// answer are left out. NaN without items of both kinds.
double roc_auc(std::span<const double> answers, std::span<const double> scores);

}  // namespace ramet::text
