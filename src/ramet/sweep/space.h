#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ramet/recipe/recipe.h"

namespace ramet::sweep {

/// One key of the recipe that a sweep varies, and the values that it may have.
struct Parameter {
  enum class Kind : uint8_t {
    kChoice,  ///< one of `values`, which have no order
    kNumber,  ///< from `low` to `high`; of five significant digits, or on the steps low, low + step, ...
    kInteger  ///< the same of whole numbers, on steps
  };
  std::string key;
  Kind kind = Kind::kChoice;
  std::vector<RecipeValue> values{};
  double low = 0, high = 0;
  double step = 0;   ///< 0: none, of numbers alone
  bool log = false;  ///< drawn by its logarithm
  int64_t grid = 0;  ///< values of a grid over the range; 0: every step

  bool is_choice() const { return kind == Kind::kChoice; }
  /// Different values, where the range has steps or is a choice; 0: too many to count.
  int64_t count() const;
  /// The value at a coordinate in [0, 1): equal lengths hold equally many choices, or equal ranges of the number (of
  /// its logarithm where `log` is set).
  RecipeValue value_at(double coordinate) const;
  /// A coordinate with this value: the middle of those that have it, where they are a range.
  double coordinate_of(const RecipeValue& value) const;
  /// The values of a grid, in ascending order.
  std::vector<RecipeValue> grid_values() const;
};

/// The values of one point, in the order of the parameters.
using PointValues = std::vector<RecipeValue>;

/// Points of the grid over all parameters; throws Error beyond `kMostPoints`.
inline constexpr int64_t kMostPoints = 100'000;
int64_t grid_points(std::span<const Parameter> parameters);
/// Point `number` of that grid: the last parameter changes fastest.
PointValues grid_point(std::span<const Parameter> parameters, int64_t number);

}  // namespace ramet::sweep
