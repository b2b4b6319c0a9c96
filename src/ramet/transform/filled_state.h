#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>

#include "ramet/transform/step_graph.h"

namespace ramet::transform {

/// A function of the element (StateInit::of_element) that gives many elements at once: the numbers of a state of f32
/// that somebody else holds.
struct FillFunction {
  /// Writes the elements from `first` on.
  std::function<void(int64_t first, std::span<float> to)> fill;

  double operator()(int64_t element) const {
    float value = 0;
    fill(element, {&value, 1});
    return static_cast<double>(value);
  }
};

inline StateInit filled(std::string name, std::function<void(int64_t first, std::span<float> to)> fill) {
  return StateInit::by(std::move(name), FillFunction{std::move(fill)});
}

/// The FillFunction of a state's first values; null: they are given otherwise.
inline const FillFunction* fill_of(const StateInit& init) { return init.of_element.target<FillFunction>(); }

}  // namespace ramet::transform
