#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "ramet/sweep/sweep_file.h"

namespace ramet::sweep {

/// A point that has been tried, as far as drawing further points goes.
struct TriedPoint {
  PointValues values;
  std::optional<double> score;  ///< absent: refused, failed, or not a number
};

/// How many of the first points point `number` is drawn from: those up to number - parallel, so that `parallel` points
/// can be tried at once; none where the method learns nothing.
int64_t points_needed(const SweepOptions& options, int64_t number);

/// The values of point `number`: a function of options, number and the first `points_needed` points, which `tried`
/// holds in the order of their numbers. Nothing of it depends on time, or on the order in which runs end.
PointValues draw_point(const SweepOptions& options, int64_t number, std::span<const TriedPoint> tried);

/// One point of a tree-structured Parzen estimator (Bergstra, Bardenet, Bengio and Kégl, "Algorithms for
/// hyper-parameter optimization", NIPS 2011, section 4). Tried points are split at a quantile y* of their scores: good
/// ones have the density l(x), the others g(x), equation (2). The expected improvement is monotonous in l(x) / g(x),
/// equation (3). Of `candidates` points drawn from l the one with the greatest l / g is taken. Parameters are
/// independent in both densities. That of a number is a mixture of Gaussians, one on each point and the prior, as wide
/// as the distance to the farther neighbour; that of a choice counts points, beside the prior. Points without a score
/// are bad ones.
PointValues draw_tpe(const SweepOptions& options, int64_t number, std::span<const TriedPoint> tried);

}  // namespace ramet::sweep
