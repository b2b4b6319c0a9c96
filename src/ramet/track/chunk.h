#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::track {

struct MetricPoint {
  int64_t step = 0;
  double time = 0, value = 0;
};

/// Points of a metric in a compressed chunk.
inline constexpr size_t kChunkPoints = 512;
/// Chunks in a group of the first level, groups in one of the next.
inline constexpr int64_t kLevelFactor = 8;

/// Consecutive points in one row. min, max, sum, first and last are of finite values: NaN where there are none, sum 0.
struct PointsSummary {
  int64_t points = 0, first_step = 0, last_step = 0, not_finite = 0;
  double first_time = 0, last_time = 0;  ///< the least and the greatest
  double min, max, sum = 0, first, last;

  PointsSummary();
  void add(const MetricPoint& point);
  /// Adds points that follow these.
  void add(const PointsSummary& next);
};
PointsSummary summary_of(std::span<const MetricPoint> points);

/// Points as bytes: steps as differences of differences, times likewise by their bits, values as the bits that changed;
/// zstd over all of it, with a checksum. No bit is lost.
std::string pack_chunk(std::span<const MetricPoint> points);
/// False when the bytes are damaged.
bool unpack_chunk(std::string_view bytes, std::vector<MetricPoint>& points);

}  // namespace ramet::track
