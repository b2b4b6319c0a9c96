#include "ramet/track/chunk.h"

#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

namespace ramet::track {
namespace {

constexpr int kZstdLevel = 1;
constexpr char kForm = 1;
constexpr size_t kMostVarint = 10;

void put_varint(std::string& to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}
bool get_varint(std::string_view from, size_t& at, uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 7 * kMostVarint && at < from.size(); shift += 7) {
    const auto byte = static_cast<unsigned char>(from[at++]);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}
/// Small for small numbers of either sign.
uint64_t zigzag(uint64_t value) { return value << 1 ^ (value >> 63 ? ~uint64_t{0} : 0); }
uint64_t unzigzag(uint64_t value) { return value >> 1 ^ (value & 1 ? ~uint64_t{0} : 0); }

/// Numbers whose differences change little.
class Differences {
 public:
  uint64_t shrink(uint64_t value) {
    const uint64_t difference = value - last_, change = difference - difference_;
    last_ = value, difference_ = difference;
    return zigzag(change);
  }
  uint64_t grow(uint64_t coded) {
    difference_ += unzigzag(coded);
    return last_ += difference_;
  }

 private:
  uint64_t last_ = 0, difference_ = 0;
};

struct ContextEnd {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

}  // namespace

PointsSummary::PointsSummary() : min(std::numeric_limits<double>::quiet_NaN()), max(min), first(min), last(min) {}

void PointsSummary::add(const MetricPoint& point) {
  PointsSummary one;
  one.points = 1;
  one.first_step = one.last_step = point.step;
  one.first_time = one.last_time = point.time;
  if (std::isfinite(point.value))
    one.min = one.max = one.sum = one.first = one.last = point.value;
  else
    one.not_finite = 1;
  add(one);
}

void PointsSummary::add(const PointsSummary& next) {
  if (next.points == 0) return;
  if (points == 0) {
    *this = next;
    return;
  }
  points += next.points, not_finite += next.not_finite;
  last_step = next.last_step;
  first_time = std::min(first_time, next.first_time), last_time = std::max(last_time, next.last_time);
  sum += next.sum;
  if (std::isnan(next.last)) return;  // no finite value
  min = std::isnan(min) ? next.min : std::min(min, next.min);
  max = std::isnan(max) ? next.max : std::max(max, next.max);
  if (std::isnan(first)) first = next.first;
  last = next.last;
}

PointsSummary summary_of(std::span<const MetricPoint> points) {
  PointsSummary summary;
  for (const auto& point : points) summary.add(point);
  return summary;
}

std::string pack_chunk(std::span<const MetricPoint> points) {
  std::string plain;
  plain.reserve(points.size() * 14);
  Differences steps, times;
  for (const auto& point : points) put_varint(plain, steps.shrink(static_cast<uint64_t>(point.step)));
  for (const auto& point : points) put_varint(plain, times.shrink(std::bit_cast<uint64_t>(point.time)));
  // First bytes of all values, then second ones: equal exponents stand together.
  const size_t values = plain.size(), count = points.size();
  plain.resize(values + 8 * count);
  uint64_t last = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<uint64_t>(points[i].value), changed = bits ^ last;
    for (size_t byte = 0; byte < 8; ++byte) plain[values + byte * count + i] = static_cast<char>(changed >> 8 * byte);
    last = bits;
  }
  thread_local const std::unique_ptr<ZSTD_CCtx, ContextEnd> context(ZSTD_createCCtx());
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, kZstdLevel);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  std::string packed(3 + ZSTD_compressBound(plain.size()), '\0');
  packed[0] = kForm;
  packed[1] = static_cast<char>(count & 0xff), packed[2] = static_cast<char>(count >> 8);
  const size_t size = ZSTD_compress2(context.get(), packed.data() + 3, packed.size() - 3, plain.data(), plain.size());
  packed.resize(3 + (ZSTD_isError(size) ? 0 : size));
  return packed;
}

bool unpack_chunk(std::string_view bytes, std::vector<MetricPoint>& points) {
  points.clear();
  if (bytes.size() < 3 || bytes[0] != kForm) return false;
  const size_t count = static_cast<unsigned char>(bytes[1]) | static_cast<size_t>(static_cast<unsigned char>(bytes[2]))
                                                                  << 8;
  if (count > kChunkPoints) return false;
  thread_local const std::unique_ptr<ZSTD_DCtx, ContextEnd> context(ZSTD_createDCtx());
  thread_local std::string plain;
  plain.resize(count * (2 * kMostVarint + 8) + 1);
  const size_t size =
      ZSTD_decompressDCtx(context.get(), plain.data(), plain.size(), bytes.data() + 3, bytes.size() - 3);
  if (ZSTD_isError(size)) return false;
  const std::string_view text = std::string_view(plain).substr(0, size);
  points.resize(count);
  Differences steps, times;
  size_t at = 0;
  uint64_t coded = 0;
  for (auto& point : points) {
    if (!get_varint(text, at, coded)) return false;
    point.step = static_cast<int64_t>(steps.grow(coded));
  }
  for (auto& point : points) {
    if (!get_varint(text, at, coded)) return false;
    point.time = std::bit_cast<double>(times.grow(coded));
  }
  if (text.size() - at != 8 * count) return false;
  uint64_t last = 0;
  for (size_t i = 0; i < count; ++i) {
    uint64_t changed = 0;
    for (size_t byte = 0; byte < 8; ++byte)
      changed |= static_cast<uint64_t>(static_cast<unsigned char>(text[at + byte * count + i])) << 8 * byte;
    last ^= changed;
    points[i].value = std::bit_cast<double>(last);
  }
  return true;
}

}  // namespace ramet::track
