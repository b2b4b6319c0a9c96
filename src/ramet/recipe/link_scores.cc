#include "ramet/recipe/link_scores.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace ramet::recipe {
namespace {

/// Calls `visit` for each threshold, greatest first, with how many right and wrong links have that score.
void each_threshold(const LinkScores& scores, const std::function<void(double right, double wrong)>& visit) {
  std::vector<std::pair<double, bool>> all;
  for (const double score : scores.right) all.emplace_back(score, true);
  for (const double score : scores.wrong) all.emplace_back(score, false);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t begin = 0; begin < all.size();) {
    double count[2] = {};
    size_t end = begin;
    for (; end < all.size() && all[end].first == all[begin].first; ++end) ++count[all[end].second];
    visit(count[1], count[0]);
    begin = std::max(end, begin + 1);  // a score that is no number equals nothing
  }
}

}  // namespace

double average_precision(const LinkScores& scores) {
  if (scores.right.empty()) return std::numeric_limits<double>::quiet_NaN();
  double right = 0, all = 0, sum = 0;
  each_threshold(scores, [&](double more_right, double more_wrong) {
    right += more_right, all += more_right + more_wrong;
    if (more_right > 0) sum += more_right * right / all;
  });
  return sum / static_cast<double>(scores.right.size());
}

double roc_auc(const LinkScores& scores) {
  if (scores.right.empty() || scores.wrong.empty()) return std::numeric_limits<double>::quiet_NaN();
  double right = 0, sum = 0;  // of the right links above each wrong one
  each_threshold(scores, [&](double more_right, double more_wrong) {
    sum += more_wrong * (right + more_right / 2);
    right += more_right;
  });
  return sum / (static_cast<double>(scores.right.size()) * static_cast<double>(scores.wrong.size()));
}

}  // namespace ramet::recipe
