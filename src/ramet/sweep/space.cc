#include "ramet/sweep/space.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ramet/base/error.h"

namespace ramet::sweep {
namespace {

constexpr int kDigits = 5;       // significant, of drawn numbers: short to read, and no last bit of a logarithm shows
constexpr int kStepDigits = 12;  // of numbers on steps: 0.1 + 2 x 0.1 is 0.3

double rounded(double value, int digits) {
  char text[64];
  const auto written = std::to_chars(text, text + sizeof text, value, std::chars_format::general, digits);
  double result = value;
  std::from_chars(text, written.ptr, result);
  return result;
}

double number_of(const RecipeValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* number = std::get_if<int64_t>(&value)) return static_cast<double>(*number);
  internal_error("Parameter", "a value of a range is no number");
}

/// A range as a line: numbers or their logarithms, and half a step beyond either end where it has steps.
class Line {
 public:
  explicit Line(const Parameter& parameter)
      : log_(parameter.log), step_(parameter.step), low_(parameter.low), high_(parameter.high) {
    double begin = low_, end = high_;
    if (step_ > 0) {
      end = low_ + step_ * std::floor((high_ - low_) / step_ + 1e-9);
      high_ = end;
      begin = log_ ? std::max(low_ - step_ / 2, low_ / 2) : low_ - step_ / 2;
      end += step_ / 2;
    }
    begin_ = along(begin), end_ = along(end);
  }

  double value_at(double coordinate) const {
    const double at = begin_ + coordinate * (end_ - begin_);
    return settled(log_ ? std::exp(at) : at);
  }
  double coordinate_of(double value) const {
    return end_ > begin_ ? std::clamp((along(value) - begin_) / (end_ - begin_), 0.0, 1.0) : 0.5;
  }
  /// Value `index` of `count` evenly spaced ones from low to high.
  double evenly(int64_t index, int64_t count) const {
    if (count == 1) return low_;
    const double share = static_cast<double>(index) / static_cast<double>(count - 1);
    const double at = along(low_) + share * (along(high_) - along(low_));
    return settled(log_ ? std::exp(at) : at);
  }

 private:
  double along(double value) const { return log_ ? std::log(value) : value; }
  double settled(double value) const {
    if (step_ == 0) return std::clamp(rounded(value, kDigits), low_, high_);
    return std::clamp(low_ + step_ * std::round((value - low_) / step_), low_, high_);
  }

  bool log_;
  double step_, low_, high_, begin_ = 0, end_ = 0;
};

}  // namespace

int64_t Parameter::count() const {
  if (is_choice()) return static_cast<int64_t>(values.size());
  return step > 0 ? static_cast<int64_t>(std::floor((high - low) / step + 1e-9)) + 1 : 0;
}

RecipeValue Parameter::value_at(double coordinate) const {
  if (is_choice()) {
    const auto size = static_cast<double>(values.size());
    const auto index = static_cast<int64_t>(std::floor(std::clamp(coordinate, 0.0, 1.0) * size));
    return values[static_cast<size_t>(std::min(index, std::ssize(values) - 1))];
  }
  const double value = Line(*this).value_at(coordinate);
  if (kind == Kind::kInteger) return static_cast<int64_t>(std::llround(value));
  return step > 0 ? rounded(value, kStepDigits) : value;
}

double Parameter::coordinate_of(const RecipeValue& value) const {
  if (!is_choice()) return Line(*this).coordinate_of(number_of(value));
  const auto found = std::find(values.begin(), values.end(), value);
  return (static_cast<double>(found - values.begin()) + 0.5) / static_cast<double>(values.size());
}

std::vector<RecipeValue> Parameter::grid_values() const {
  if (is_choice()) return values;
  const int64_t wanted = grid > 0 ? grid : count();
  std::vector<RecipeValue> all;
  const Line line(*this);
  for (int64_t i = 0; i < wanted; ++i) {
    const double value = grid > 0 ? line.evenly(i, grid) : low + step * static_cast<double>(i);
    if (kind == Kind::kInteger)
      all.emplace_back(static_cast<int64_t>(std::llround(value)));
    else
      all.emplace_back(step > 0 ? rounded(value, kStepDigits) : value);
    if (all.size() > 1 && all.back() == all[all.size() - 2]) all.pop_back();
  }
  return all;
}

int64_t grid_points(std::span<const Parameter> parameters) {
  int64_t points = 1;
  for (const Parameter& parameter : parameters) {
    const int64_t values = parameter.grid > 0 ? parameter.grid : parameter.count();
    if (values > kMostPoints / points)
      throw Error({.what = "the grid has too many points",
                   .where = "parameters",
                   .expected = "at most " + std::to_string(kMostPoints),
                   .remedy = "Set `grid` of a range to fewer values, or use another method"});
    points *= std::ssize(parameter.grid_values());
  }
  return points;
}

PointValues grid_point(std::span<const Parameter> parameters, int64_t number) {
  PointValues values(parameters.size());
  for (size_t i = parameters.size(); i-- > 0;) {
    const std::vector<RecipeValue> all = parameters[i].grid_values();
    values[i] = all[static_cast<size_t>(number % std::ssize(all))];
    number /= std::ssize(all);
  }
  return values;
}

}  // namespace ramet::sweep
