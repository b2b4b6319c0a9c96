#pragma once

#include <cstdint>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::recipe {

/// Scores of links that are and of links that are not.
struct LinkScores {
  std::vector<double> right, wrong;
};

/// The area under the curve of precision over recall, by steps: the sum over thresholds, from the greatest score on, of
/// the gain in recall times the precision there. Equal scores share a threshold. NaN without a right link.
double average_precision(const LinkScores& scores);
/// How likely a right link has a greater score than a wrong one; equal scores count half. NaN without one of either.
double roc_auc(const LinkScores& scores);

}  // namespace ramet::recipe
