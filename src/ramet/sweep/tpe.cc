#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numbers>
#include <numeric>

#include "ramet/base/rng.h"
#include "ramet/sweep/draw.h"

namespace ramet::sweep {
namespace {

/// Draws of one point and parameter, one after another.
class Draws {
 public:
  explicit Draws(const RandomStream& stream) : stream_(stream) {}
  double uniform() { return static_cast<double>(stream_.uniform(next_++)); }
  double normal() {
    next_ = (next_ + 3) / 4 * 4;  // a pair of words makes a normal number: a block of its own for each
    const double value = stream_.normal(next_);
    next_ += 4;
    return value;
  }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

/// The density of one parameter over points of one side.
class Density {
 public:
  virtual ~Density() = default;
  virtual double draw(Draws& draws) const = 0;
  /// At a coordinate in [0, 1].
  virtual double at(double coordinate) const = 0;
};

/// Over choices: proportional to kPriorCount + the number of points with the choice. (The paper has 1; with few points
/// a choice whose first try was bad would hardly be tried again.)
constexpr double kPriorCount = 3;
class ChoiceDensity final : public Density {
 public:
  ChoiceDensity(std::span<const double> coordinates, int64_t choices)
      : shares_(static_cast<size_t>(choices), kPriorCount) {
    for (const double coordinate : coordinates) shares_[index_of(coordinate)] += 1;
    const double sum = std::accumulate(shares_.begin(), shares_.end(), 0.0);
    for (double& share : shares_) share /= sum;
  }
  double draw(Draws& draws) const override {
    double left = draws.uniform();
    size_t index = 0;
    while (index + 1 < shares_.size() && left >= shares_[index]) left -= shares_[index++];
    return (static_cast<double>(index) + 0.5) / static_cast<double>(shares_.size());
  }
  double at(double coordinate) const override { return shares_[index_of(coordinate)]; }

 private:
  size_t index_of(double coordinate) const {
    return std::min(static_cast<size_t>(coordinate * static_cast<double>(shares_.size())), shares_.size() - 1);
  }
  std::vector<double> shares_;
};

/// Least width of a Gaussian, times the number of them: no point says much about its nearest surroundings alone.
constexpr double kLeastWidth = 0.3;

/// Gaussians cut off outside [0, 1], equally many parts of each: one a point, and the prior in the middle of the range.
class RangeDensity final : public Density {
 public:
  explicit RangeDensity(std::span<const double> coordinates) {
    std::vector<double> centres(coordinates.begin(), coordinates.end());
    std::sort(centres.begin(), centres.end());
    const auto count = static_cast<double>(centres.size());
    const double least = kLeastWidth / std::min(100.0, 1 + count);
    for (size_t i = 0; i < centres.size(); ++i) {
      const double left = i > 0 ? centres[i] - centres[i - 1] : 0;
      const double right = i + 1 < centres.size() ? centres[i + 1] - centres[i] : 0;
      const double width = centres.size() > 1 ? std::max(left, right) : 1;
      add(centres[i], std::clamp(width, least, 1.0));
    }
    add(0.5, 1);
  }
  double draw(Draws& draws) const override {
    const auto index = static_cast<size_t>(draws.uniform() * static_cast<double>(parts_.size()));
    const Part& part = parts_[std::min(index, parts_.size() - 1)];
    constexpr int kMostTries = 64;  // half of a Gaussian on the edge is inside: all of them fail once in 2^64
    for (int i = 0; i < kMostTries; ++i)
      if (const double value = part.centre + part.width * draws.normal(); value >= 0 && value < 1) return value;
    return part.centre;
  }
  double at(double coordinate) const override {
    double sum = 0;
    for (const Part& part : parts_) {
      const double distance = (coordinate - part.centre) / part.width;
      sum += std::exp(-distance * distance / 2) * part.factor;
    }
    return sum / static_cast<double>(parts_.size());
  }

 private:
  struct Part {
    double centre, width, factor;  ///< factor: 1 / the integral over [0, 1] of the Gaussian without a factor
  };
  void add(double centre, double width) {
    const auto below = [&](double at) { return 0.5 * std::erfc((centre - at) / (width * std::numbers::sqrt2)); };
    const double integral = (below(1) - below(0)) * width * std::sqrt(2 * std::numbers::pi);
    parts_.push_back({centre, width, 1 / integral});
  }
  std::vector<Part> parts_;
};

/// Both densities of a parameter, and its draws.
struct Sides {
  std::unique_ptr<Density> good, bad;
  Draws draws;
};

std::unique_ptr<Density> density_of(const Parameter& parameter, const std::vector<double>& coordinates) {
  if (parameter.is_choice()) return std::make_unique<ChoiceDensity>(coordinates, parameter.count());
  return std::make_unique<RangeDensity>(coordinates);
}

}  // namespace

PointValues draw_tpe(const SweepOptions& options, int64_t number, std::span<const TriedPoint> tried) {
  std::vector<size_t> order(tried.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto badness = [&](size_t i) {
    const auto& score = tried[i].score;
    if (!score || std::isnan(*score)) return std::numeric_limits<double>::infinity();
    return options.maximizes() ? -*score : *score;
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return badness(a) < badness(b); });
  auto good = static_cast<size_t>(std::ceil(options.tpe.good * static_cast<double>(tried.size())));
  while (good > 0 && std::isinf(badness(order[good - 1]))) --good;
  std::vector<Sides> sides;
  for (size_t i = 0; i < options.parameters.size(); ++i) {
    const Parameter& parameter = options.parameters[i];
    std::vector<double> of_good, of_bad;
    for (size_t rank = 0; rank < order.size(); ++rank)
      (rank < good ? of_good : of_bad).push_back(parameter.coordinate_of(tried[order[rank]].values[i]));
    const RandomStream stream(static_cast<uint64_t>(options.seed), RandomPurpose::kSweep, static_cast<uint64_t>(number),
                              i);
    sides.push_back({density_of(parameter, of_good), density_of(parameter, of_bad), Draws(stream)});
  }
  std::vector<double> best;
  double most = -std::numeric_limits<double>::infinity();
  for (int64_t k = 0; k < options.tpe.candidates; ++k) {
    std::vector<double> candidate;
    double ratio = 0;
    for (Sides& side : sides) {
      candidate.push_back(side.good->draw(side.draws));
      ratio += std::log(side.good->at(candidate.back()) / side.bad->at(candidate.back()));
    }
    if (best.empty() || ratio > most) best = std::move(candidate), most = ratio;
  }
  PointValues values;
  for (size_t i = 0; i < best.size(); ++i) values.push_back(options.parameters[i].value_at(best[i]));
  return values;
}

}  // namespace ramet::sweep
