#include "ramet/sweep/draw.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/data/permutation.h"

namespace ramet::sweep {
namespace {

RandomStream stream_of(const SweepOptions& options, int64_t number, size_t parameter) {
  return {static_cast<uint64_t>(options.seed), RandomPurpose::kSweep, static_cast<uint64_t>(number), parameter};
}

PointValues draw_random(const SweepOptions& options, int64_t number) {
  PointValues values;
  for (size_t i = 0; i < options.parameters.size(); ++i)
    values.push_back(options.parameters[i].value_at(static_cast<double>(stream_of(options, number, i).uniform(0))));
  return values;
}

/// McKay, Beckman and Conover, "A comparison of three methods for selecting values of input variables", Technometrics
/// 1979: of each parameter, every one of `points` equal ranges is drawn from once.
PointValues draw_latin(const SweepOptions& options, int64_t number) {
  PointValues values;
  for (size_t i = 0; i < options.parameters.size(); ++i) {
    const Permutation strata(options.points, static_cast<uint64_t>(options.seed), i, kSweepStrata);
    const auto stratum = static_cast<double>(strata(number));
    const auto within = static_cast<double>(stream_of(options, number, i).uniform(0));
    values.push_back(options.parameters[i].value_at((stratum + within) / static_cast<double>(options.points)));
  }
  return values;
}

}  // namespace

int64_t points_needed(const SweepOptions& options, int64_t number) {
  const bool learns = options.drawing() == "tpe" && number >= options.tpe.first;
  const bool stops = options.stop.no_improvement > 0 || options.stop.target;
  return learns || stops ? std::max<int64_t>(0, number - options.use.parallel + 1) : 0;
}

PointValues draw_point(const SweepOptions& options, int64_t number, std::span<const TriedPoint> tried) {
  const std::string& drawing = options.drawing();
  if (drawing == "grid") return grid_point(options.parameters, number);
  if (drawing == "latin_hypercube") return draw_latin(options, number);
  if (drawing != "tpe" || number < options.tpe.first) return draw_random(options, number);
  const auto needed = static_cast<size_t>(points_needed(options, number));
  if (tried.size() < needed) internal_error("draw_point", "a point is drawn before those that it is drawn from");
  return draw_tpe(options, number, tried.first(needed));
}

}  // namespace ramet::sweep
