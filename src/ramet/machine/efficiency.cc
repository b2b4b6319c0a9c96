#include "ramet/machine/efficiency.h"

#include <algorithm>
#include <cmath>

namespace ramet::machine {
namespace {

using Points = std::vector<std::pair<double, double>>;  ///< log(size), share

double interpolate(Points points, double at) {
  std::sort(points.begin(), points.end());
  const auto above = std::lower_bound(points.begin(), points.end(), std::pair(at, 0.0));
  if (above == points.begin()) return points.front().second;
  if (above == points.end()) return points.back().second;
  const auto below = above - 1;
  return below->second + (above->second - below->second) * (at - below->first) / (above->first - below->first);
}

}  // namespace

const std::vector<std::string>& efficiency_classes() {
  static const std::vector<std::string> classes = {"matmul", "gather"};
  return classes;
}

const std::vector<std::string>& product_shapes() {
  static const std::vector<std::string> shapes = {"any", "square", "flat", "deep", "batched"};
  return shapes;
}

std::string product_shape(const MatrixProduct& product) {
  constexpr int64_t kMuch = 8;
  if (product.batch > 1) return "batched";
  if (product.k >= kMuch * std::max(product.m, product.n)) return "deep";
  return std::max(product.m, product.n) >= kMuch * std::min(product.m, product.n) ? "flat" : "square";
}

double share_of_peak(const DeviceKind& device, const std::string& op, const std::string& dtype,
                     const std::string& shape, double size) {
  for (const auto& [of_dtype, of_shape] :
       {std::pair(dtype, shape), std::pair(dtype, std::string("any")), std::pair(std::string("any"), shape),
        std::pair(std::string("any"), std::string("any"))}) {
    Points points;
    for (const Efficiency& entry : device.efficiency)
      if (entry.op == op && entry.dtype == of_dtype && entry.shape == of_shape)
        points.emplace_back(std::log(entry.size), entry.share);
    if (!points.empty()) return interpolate(std::move(points), std::log(std::max(size, 1.0)));
  }
  return 1;
}

}  // namespace ramet::machine
