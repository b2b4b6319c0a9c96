#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/track/catalogue.h"
#include "ramet/track/catalogue_state.h"
#include "ramet/track/chunk.h"

namespace ramet::track {
namespace {

constexpr int64_t kMostBuckets = 100'000;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// Where a point stands on the horizontal axis. x rises with the point's key, which is its step or its time.
struct AxisMap {
  bool by_time = false;
  double scale = 1, origin = 0;
  double x_of(int64_t step, double time) const { return by_time ? time - origin : static_cast<double>(step) * scale; }
  double first(const PointsSummary& row) const { return x_of(row.first_step, row.first_time); }
  double last(const PointsSummary& row) const { return x_of(row.last_step, row.last_time); }
};

struct ChunkRow {
  int64_t level = 0, number = 0, data = 0;
  PointsSummary summary;
};

/// Reads a metric's points of a range: whole rows of the coarsest level that lie in one bucket, and finer ones, down to
/// the points themselves, where a bucket's border cuts a row.
class SeriesReader {
 public:
  SeriesReader(Database& database, int64_t run, int64_t metric, const AxisMap& axis, double from, double to)
      : database_(database), run_(run), metric_(metric), axis_(axis), from_(from), to_(to) {}

  Series read(int64_t buckets) {
    // Points at the ends, which alone may be outside: then the count is exact.
    count_points();
    if (count_ <= buckets) return raw();
    series_.raw = false;
    series_.points = count_;
    buckets_.resize(static_cast<size_t>(buckets));
    width_ = last_x_ - first_x_;
    for (const auto& row : roots()) visit(row);
    return collected();
  }

 private:
  struct Bucket {
    double x = 0, min = kNone, max = kNone, last = kNone;
    uint32_t count = 0, not_finite = 0;
  };

  std::vector<ChunkRow> rows(int64_t level, int64_t begin, int64_t end) {
    std::vector<ChunkRow> found;
    Statement row = database_.prepare(
        "SELECT number, points, first_step, last_step, first_time, last_time, min, max, sum, first, last, not_finite, "
        "data "
        "FROM chunks WHERE run = ? AND metric = ? AND level = ? AND number >= ? AND number < ? ORDER BY number");
    row.bind(run_).bind(metric_).bind(level).bind(begin).bind(end);
    while (row.step()) {
      ChunkRow& one = found.emplace_back();
      one.level = level, one.number = row.integer(0);
      PointsSummary& sum = one.summary;
      sum.points = row.integer(1), sum.first_step = row.integer(2), sum.last_step = row.integer(3);
      sum.first_time = row.real(4), sum.last_time = row.real(5), sum.min = row.real(6), sum.max = row.real(7);
      sum.sum = row.real(8), sum.first = row.real(9), sum.last = row.real(10), sum.not_finite = row.integer(11);
      one.data = row.integer(12);
    }
    return found;
  }

  /// Rows that together hold all points once, in order: the coarsest there are.
  std::vector<ChunkRow> roots() {
    int64_t highest = 0;
    {
      Statement row = database_.prepare("SELECT MAX(level) FROM chunks WHERE run = ? AND metric = ?");
      row.bind(run_).bind(metric_);
      if (row.step()) highest = row.integer(0);
    }
    std::vector<ChunkRow> all;
    int64_t begin = 0;
    for (int64_t level = highest; level >= 0; --level) {
      auto found = rows(level, begin, INT64_MAX);
      begin = (found.empty() ? begin : found.back().number + 1) * kLevelFactor;
      all.insert(all.end(), found.begin(), found.end());
    }
    return all;
  }

  const std::vector<MetricPoint>& points_of(const ChunkRow& row) {
    Statement data = database_.prepare("SELECT bytes FROM chunk_data WHERE id = ?");
    data.bind(row.data);
    if (!data.step() || !unpack_chunk(data.blob(0), points_))
      throw DatabaseError({.what = "a chunk of the catalogue is damaged"}, kDamagedCode);
    return points_;
  }

  bool is_outside(const PointsSummary& row) const { return axis_.last(row) < from_ || axis_.first(row) > to_; }
  bool is_inside(const PointsSummary& row) const { return axis_.first(row) >= from_ && axis_.last(row) <= to_; }

  /// Calls `whole` for rows within the range, and `point` for the points of those that its ends cut.
  /// A row that `whole` does not take is looked into.
  template <typename Whole, typename Point>
  void walk(const ChunkRow& row, const Whole& whole, const Point& point) {
    if (is_outside(row.summary)) return;
    if (is_inside(row.summary) && whole(row)) return;
    if (row.level > 0) {
      for (const auto& finer : rows(row.level - 1, row.number * kLevelFactor, (row.number + 1) * kLevelFactor))
        walk(finer, whole, point);
      return;
    }
    const std::vector<MetricPoint> points = points_of(row);
    for (const auto& each : points)
      if (const double x = axis_.x_of(each.step, each.time); x >= from_ && x <= to_) point(each, x);
  }

  /// How many points there are, and where the first and the last one stand.
  void count_points() {
    first_x_ = std::numeric_limits<double>::infinity(), last_x_ = -first_x_;
    const auto reach = [&](double first, double last, int64_t count) {
      first_x_ = std::min(first_x_, first), last_x_ = std::max(last_x_, last), count_ += count;
    };
    for (const auto& root : roots())
      walk(
          root,
          [&](const ChunkRow& row) {
            reach(axis_.first(row.summary), axis_.last(row.summary), row.summary.points);
            return true;
          },
          [&](const MetricPoint&, double x) { reach(x, x, 1); });
  }

  Series raw() {
    Series series;
    std::vector<std::pair<double, double>> found;
    for (const auto& root : roots())
      walk(
          root, [](const ChunkRow&) { return false; },
          [&](const MetricPoint& point, double x) { found.emplace_back(x, point.value); });
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [x, value] : found) series.x.push_back(x), series.last.push_back(value);
    series.points = static_cast<int64_t>(found.size());
    return series;
  }

  size_t bucket_of(double x) const {
    if (width_ <= 0) return 0;
    const auto count = static_cast<double>(buckets_.size());
    return static_cast<size_t>(std::clamp((x - first_x_) / width_ * count, 0.0, count - 1));
  }

  void visit(const ChunkRow& root) {
    walk(
        root,
        [&](const ChunkRow& row) {
          const size_t bucket = bucket_of(axis_.last(row.summary));
          if (bucket_of(axis_.first(row.summary)) != bucket) return false;
          add(buckets_[bucket], row.summary, axis_.last(row.summary));
          return true;
        },
        [&](const MetricPoint& point, double x) {
          PointsSummary one;
          one.add(point);
          add(buckets_[bucket_of(x)], one, x);
        });
  }

  static void add(Bucket& bucket, const PointsSummary& points, double x) {
    bucket.x = bucket.count == 0 ? x : std::max(bucket.x, x);
    bucket.count += static_cast<uint32_t>(points.points);
    bucket.not_finite += static_cast<uint32_t>(points.not_finite);
    if (std::isnan(points.min)) return;
    bucket.min = std::isnan(bucket.min) ? points.min : std::min(bucket.min, points.min);
    bucket.max = std::isnan(bucket.max) ? points.max : std::max(bucket.max, points.max);
    bucket.last = points.last;
  }

  Series collected() {
    for (const auto& bucket : buckets_) {
      if (bucket.count == 0) continue;
      series_.x.push_back(bucket.x), series_.min.push_back(bucket.min), series_.max.push_back(bucket.max);
      series_.last.push_back(bucket.last), series_.count.push_back(bucket.count);
      series_.not_finite.push_back(bucket.not_finite);
    }
    return std::move(series_);
  }

  Database& database_;
  const int64_t run_, metric_;
  const AxisMap axis_;
  const double from_, to_;
  int64_t count_ = 0;
  double first_x_ = 0, last_x_ = 0, width_ = 0;
  std::vector<Bucket> buckets_;
  std::vector<MetricPoint> points_;
  Series series_;
};

AxisMap axis_map(Database& database, int64_t run, SeriesAxis axis) {
  AxisMap map;
  Statement row = database.prepare("SELECT started_seconds, samples_per_step, units_per_step FROM runs WHERE key = ?");
  row.bind(run).step();
  switch (axis) {
    case SeriesAxis::kStep: break;
    case SeriesAxis::kTime: map.by_time = true; break;
    case SeriesAxis::kRelativeTime: map.by_time = true, map.origin = row.real(0); break;
    case SeriesAxis::kSamples: map.scale = row.real(1) > 0 ? row.real(1) : 1; break;
    case SeriesAxis::kUnits: map.scale = row.real(2) > 0 ? row.real(2) : 1; break;
  }
  return map;
}

}  // namespace

std::string_view name_of(SeriesAxis axis) {
  switch (axis) {
    case SeriesAxis::kStep: return "step";
    case SeriesAxis::kTime: return "time";
    case SeriesAxis::kRelativeTime: return "relative_time";
    case SeriesAxis::kSamples: return "samples";
    case SeriesAxis::kUnits: return "units";
  }
  internal_error("name_of", "unknown axis");
}

SeriesAxis parse_axis(std::string_view name) {
  for (const SeriesAxis axis :
       {SeriesAxis::kStep, SeriesAxis::kTime, SeriesAxis::kRelativeTime, SeriesAxis::kSamples, SeriesAxis::kUnits})
    if (name_of(axis) == name) return axis;
  throw Error({.what = "no such axis",
               .found = "'" + std::string(name.substr(0, 60)) + "'",
               .expected = "step, time, relative_time, samples or units"});
}

Series Catalogue::series(const SeriesRequest& request) const {
  if (request.buckets < 1 || request.buckets > kMostBuckets)
    throw Error({.what = "too few or too many buckets",
                 .where = "series",
                 .found = std::to_string(request.buckets),
                 .expected = "1 to " + std::to_string(kMostBuckets)});
  return state_->with([&](Database& database) {
    const int64_t run = state_->key_of(request.run);
    Statement row = database.prepare(
        "SELECT s.metric FROM summaries s WHERE s.run = ? AND s.metric = (SELECT id FROM metrics WHERE name = ?)");
    row.bind(run).bind(std::string_view(request.metric));
    if (!row.step()) {
      std::vector<std::string> names;
      Statement known =
          database.prepare("SELECT m.name FROM summaries s JOIN metrics m ON m.id = s.metric WHERE s.run = ?");
      known.bind(run);
      while (known.step()) names.push_back(known.text(0));
      const std::string near = nearest_name(request.metric, names);
      throw Error({.what = "the run has no such metric",
                   .where = state_->id_of(run),
                   .found = "'" + request.metric.substr(0, 100) + "'",
                   .expected = near.empty() ? "" : "perhaps '" + near + "'"});
    }
    const int64_t metric = row.integer(0);
    return SeriesReader(database, run, metric, axis_map(database, run, request.axis), request.from, request.to)
        .read(request.buckets);
  });
}

}  // namespace ramet::track
