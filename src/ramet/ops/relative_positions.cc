#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "ramet/base/error.h"
#include "ramet/ops/build_attention.h"

// Tables of relative positions, as constants and as biases of attention.

namespace ramet::ops {
namespace {

void check_positive(const std::string& function, const std::string& name, int64_t value) {
  if (value >= 1 && value <= (int64_t{1} << 20)) return;
  throw Error({.what = name + " is out of range",
               .where = function,
               .found = std::to_string(value),
               .expected = "1 to " + std::to_string(int64_t{1} << 20)});
}

HostTensor indices(int64_t rows, int64_t columns) { return HostTensor(TensorType{DType::kI32, Shape{rows, columns}}); }

}  // namespace

std::vector<double> alibi_slopes(int64_t heads) {
  check_positive("alibi_slopes", "the number of heads", heads);
  int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  std::vector<double> slopes;
  for (int64_t i = 1; i <= power; ++i)
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(power)));
  for (int64_t i = 0; static_cast<int64_t>(slopes.size()) < heads; ++i)
    slopes.push_back(std::exp2(-4.0 * static_cast<double>(2 * i + 1) / static_cast<double>(power)));
  for (double& slope : slopes) slope = static_cast<float>(slope);
  return slopes;
}

HostTensor t5_buckets(int64_t queries, int64_t keys, bool bidirectional, int64_t buckets, int64_t max_distance,
                      int64_t first_query) {
  check_positive("t5_buckets", "the number of buckets", buckets);
  const int64_t sides = bidirectional ? 2 : 1, half = buckets / sides, exact = half / 2;
  if (exact < 1 || max_distance <= exact)
    throw Error(
        {.what = "too few buckets, or too short a distance",
         .where = "t5_buckets",
         .found = std::to_string(buckets) + " buckets up to distance " + std::to_string(max_distance),
         .expected = std::to_string(2 * sides) + " buckets or more, and a distance above " + std::to_string(exact)});
  // The first distance of each bucket behind the single ones. The exact root, rounded up, has a margin for its error:
  // where it is a whole number, the distance itself begins the bucket.
  std::vector<int64_t> begins;
  for (int64_t i = 1; i < half - exact; ++i) {
    const double growth = static_cast<double>(max_distance) / static_cast<double>(exact);
    const double begin =
        static_cast<double>(exact) * std::pow(growth, static_cast<double>(i) / static_cast<double>(half - exact));
    begins.push_back(static_cast<int64_t>(std::ceil(begin * (1 - 1e-9))));
  }
  const auto bucket_of = [&](int64_t distance) {
    if (distance < exact) return distance;
    return exact + (std::upper_bound(begins.begin(), begins.end(), distance) - begins.begin());
  };
  HostTensor result = indices(queries, keys);
  for (int64_t q = 0; q < queries; ++q)
    for (int64_t k = 0; k < keys; ++k) {
      const int64_t ahead = k - (first_query + q);
      const int64_t bucket =
          bidirectional ? (ahead > 0 ? half : 0) + bucket_of(std::abs(ahead)) : bucket_of(std::max<int64_t>(0, -ahead));
      result.set(q * keys + k, static_cast<double>(bucket));
    }
  return result;
}

HostTensor swin_places(int64_t height, int64_t width) {
  check_positive("swin_places", "the window's height", height);
  check_positive("swin_places", "the window's width", width);
  const int64_t places = height * width;
  check_positive("swin_places", "the number of places in a window", places);
  HostTensor result = indices(places, places);
  for (int64_t q = 0; q < places; ++q)
    for (int64_t k = 0; k < places; ++k) {
      const int64_t down = q / width - k / width + height - 1, right = q % width - k % width + width - 1;
      result.set(q * places + k, static_cast<double>(down * (2 * width - 1) + right));
    }
  return result;
}

Tensor relative_bias(Tensor table, Tensor buckets) {
  if (table.shape().rank() != 2 || buckets.shape().rank() < 2 || buckets.shape().rank() > 3)
    throw Error({.what = "a table of relative positions and its buckets have the wrong shapes",
                 .where = "relative_bias in '" + table.builder->scope_path() + "'",
                 .found = table.type().text() + " and " + buckets.type().text(),
                 .expected = "[buckets,heads] and [S,T] or [B,S,T]"});
  const Tensor rows = gather(table, buckets);  // [.., S, T, heads]
  if (buckets.shape().rank() == 3) return transpose(rows, {0, 3, 1, 2});
  const Tensor by_head = transpose(rows, {2, 0, 1});
  const Shape& shape = by_head.shape();
  return reshape(by_head, {1, shape[0], shape[1], shape[2]});
}

}  // namespace ramet::ops
