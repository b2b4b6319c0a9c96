#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::serve {

/// Metrics in Prometheus' text format, version 0.0.4.
class PrometheusText {
 public:
  /// Begins a family; `type` is "gauge" or "counter".
  void family(std::string_view name, std::string_view type, std::string_view help);
  /// A sample of the family that was begun last.
  void sample(std::string_view name, const std::vector<std::pair<std::string_view, std::string>>& labels, double value);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace ramet::serve
