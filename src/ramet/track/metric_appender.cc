#include "ramet/track/metric_appender.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ramet::track {

MetricAppender::MetricAppender(Database& database, int64_t run, int64_t metric)
    : database_(database), run_(run), metric_(metric), last_value_(std::numeric_limits<double>::quiet_NaN()) {
  Statement row = database_.prepare(
      "SELECT points, first_step, last_step, first_time, last_time, min, max, sum, last, not_finite FROM summaries "
      "WHERE run = ? AND metric = ?");
  row.bind_all(run_, metric_);
  if (!row.step()) return;
  total_.points = row.integer(0), total_.first_step = row.integer(1), total_.last_step = row.integer(2);
  total_.first_time = row.real(3), total_.last_time = row.real(4);
  total_.min = row.real(5), total_.max = row.real(6), total_.sum = row.real(7);
  last_value_ = row.real(8), total_.not_finite = row.integer(9);
  total_.last = total_.min;  // only whether there is one matters
  load();
}

/// Takes the last chunk in, if it is not full.
void MetricAppender::load() {
  tail_.clear();
  number_ = 0, data_ = 0;
  Statement row = database_.prepare(
      "SELECT c.number, c.points, c.data, d.bytes FROM chunks c JOIN chunk_data d ON d.id = c.data "
      "WHERE c.run = ? AND c.metric = ? AND c.level = 0 ORDER BY c.number DESC LIMIT 1");
  row.bind_all(run_, metric_);
  if (!row.step()) return;
  number_ = row.integer(0);
  if (row.integer(1) >= static_cast<int64_t>(kChunkPoints)) {
    ++number_;
    return;
  }
  data_ = row.integer(2);
  if (!unpack_chunk(row.blob(3), tail_))
    throw DatabaseError({.what = "a chunk of the catalogue is damaged"}, kDamagedCode);
}

void MetricAppender::add(const MetricPoint& point) {
  if (total_.points > 0 && point.step <= total_.last_step) rewind(point.step);
  if (tail_.capacity() == 0) tail_.reserve(kChunkPoints);
  tail_.push_back(point);
  changed_ = true;
  last_value_ = point.value;
  if (rewound_) {
    total_.points += 1, total_.last_step = point.step;
  } else {
    total_.add(point);
  }
  if (tail_.size() == kChunkPoints) write_chunk();
}

void MetricAppender::rewind(int64_t step) {
  if (total_.points == 0 || step > total_.last_step) return;
  rewound_ = changed_ = true;
  const auto cut_tail = [&] {
    const auto from = std::lower_bound(tail_.begin(), tail_.end(), step,
                                       [](const MetricPoint& point, int64_t at) { return point.step < at; });
    const auto cut = tail_.end() - from;
    tail_.erase(from, tail_.end());
    replaced_ += cut, total_.points -= cut;
  };
  cut_tail();
  if (tail_.empty()) {
    // Chunks that begin behind the cut go; the one that it cuts is the tail now.
    if (data_ != 0) database_.prepare("DELETE FROM chunk_data WHERE id = ?").bind(data_).run();
    database_.prepare("DELETE FROM chunks WHERE run = ? AND metric = ? AND level = 0 AND number = ?")
        .bind_all(run_, metric_, number_)
        .run();
    data_ = 0;
    int64_t gone = 0;
    {
      Statement points = database_.prepare(
          "SELECT COALESCE(SUM(points), 0) FROM chunks WHERE run = ? AND metric = ? AND level = 0 AND first_step >= ?");
      points.bind_all(run_, metric_, step);
      if (points.step()) gone = points.integer(0);
    }
    replaced_ += gone, total_.points -= gone;
    database_
        .prepare(
            "DELETE FROM chunk_data WHERE id IN (SELECT data FROM chunks WHERE run = ? AND metric = ? AND level = 0 "
            "AND first_step >= ?)")
        .bind_all(run_, metric_, step)
        .run();
    database_.prepare("DELETE FROM chunks WHERE run = ? AND metric = ? AND level = 0 AND first_step >= ?")
        .bind_all(run_, metric_, step)
        .run();
    database_.prepare("DELETE FROM chunks WHERE run = ? AND metric = ? AND level > 0 AND last_step >= ?")
        .bind_all(run_, metric_, step)
        .run();
    bool cuts = false;
    {
      Statement row = database_.prepare(
          "SELECT c.number, c.data, c.last_step, d.bytes FROM chunks c JOIN chunk_data d ON d.id = c.data "
          "WHERE c.run = ? AND c.metric = ? AND c.level = 0 ORDER BY c.number DESC LIMIT 1");
      row.bind_all(run_, metric_);
      number_ = 0;
      if (row.step()) {
        number_ = row.integer(0) + 1;
        cuts = row.integer(2) >= step;
        if (cuts) {
          number_ = row.integer(0), data_ = row.integer(1);
          if (!unpack_chunk(row.blob(3), tail_))
            throw DatabaseError({.what = "a chunk of the catalogue is damaged"}, kDamagedCode);
        }
        if (!cuts) total_.last_step = row.integer(2);
      }
    }
    if (cuts) cut_tail();
  }
  if (!tail_.empty()) total_.last_step = tail_.back().step;
}

void MetricAppender::write_row(int64_t level, int64_t number, const PointsSummary& summary, int64_t data) {
  Statement row = database_.prepare(
      "INSERT OR REPLACE INTO chunks(run, metric, level, number, points, first_step, last_step, first_time, last_time, "
      "min, max, sum, first, last, not_finite, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  row.bind_all(run_, metric_, level, number, summary.points, summary.first_step, summary.last_step, summary.first_time,
               summary.last_time, summary.min, summary.max, summary.sum, summary.first, summary.last,
               summary.not_finite);
  if (data != 0)
    row.bind(data);
  else
    row.bind_null();
  row.run();
}

void MetricAppender::write_chunk() {
  const std::string bytes = pack_chunk(tail_);
  if (data_ != 0) {
    database_.prepare("UPDATE chunk_data SET bytes = ? WHERE id = ?").bind_blob(bytes).bind(data_).run();
  } else {
    database_.prepare("INSERT INTO chunk_data(bytes) VALUES (?)").bind_blob(bytes).run();
    data_ = database_.last_row();
  }
  write_row(0, number_, summary_of(tail_), data_);
  if (tail_.size() < kChunkPoints) return;
  group(0, number_);
  tail_.clear();
  ++number_, data_ = 0;
}

/// Where a row completes a group of kLevelFactor, sums the group up.
void MetricAppender::group(int64_t level, int64_t number) {
  if ((number + 1) % kLevelFactor != 0) return;
  PointsSummary all;
  int64_t rows = 0;
  {
    Statement row = database_.prepare(
        "SELECT points, first_step, last_step, first_time, last_time, min, max, sum, first, last, not_finite FROM "
        "chunks "
        "WHERE run = ? AND metric = ? AND level = ? AND number > ? AND number <= ? ORDER BY number");
    row.bind_all(run_, metric_, level, number - kLevelFactor, number);
    for (; row.step(); ++rows) {
      PointsSummary one;
      one.points = row.integer(0), one.first_step = row.integer(1), one.last_step = row.integer(2);
      one.first_time = row.real(3), one.last_time = row.real(4);
      one.min = row.real(5), one.max = row.real(6), one.sum = row.real(7);
      one.first = row.real(8), one.last = row.real(9), one.not_finite = row.integer(10);
      all.add(one);
    }
  }
  if (rows != kLevelFactor) return;
  write_row(level + 1, number / kLevelFactor, all, 0);
  group(level + 1, number / kLevelFactor);
}

/// All numbers of the summary anew, from the chunks.
void MetricAppender::sum_up() {
  const double last_value = last_value_;
  total_ = {};
  Statement row = database_.prepare(
      "SELECT COALESCE(SUM(points), 0), MIN(first_step), MAX(last_step), MIN(first_time), MAX(last_time), MIN(min), "
      "MAX(max), SUM(sum), COALESCE(SUM(not_finite), 0) FROM chunks WHERE run = ? AND metric = ? AND level = 0");
  row.bind_all(run_, metric_);
  if (!row.step() || row.integer(0) == 0) return;
  total_.points = row.integer(0), total_.first_step = row.integer(1), total_.last_step = row.integer(2);
  total_.first_time = row.real(3), total_.last_time = row.real(4);
  total_.min = row.real(5), total_.max = row.real(6), total_.sum = row.real(7);
  total_.not_finite = row.integer(8);
  total_.last = total_.min;
  last_value_ = last_value;
}

void MetricAppender::finish() {
  if (!changed_) return;
  if (!tail_.empty()) write_chunk();
  if (rewound_) {
    if (!tail_.empty()) {
      last_value_ = tail_.back().value;
    } else {
      Statement row = database_.prepare(
          "SELECT d.bytes FROM chunks c JOIN chunk_data d ON d.id = c.data WHERE c.run = ? AND c.metric = ? AND "
          "c.level = 0 ORDER BY c.number DESC LIMIT 1");
      row.bind_all(run_, metric_);
      std::vector<MetricPoint> points;
      if (row.step() && unpack_chunk(row.blob(0), points) && !points.empty()) last_value_ = points.back().value;
    }
    sum_up();
  }
  changed_ = rewound_ = false;
  if (total_.points == 0) {
    database_.prepare("DELETE FROM summaries WHERE run = ? AND metric = ?").bind_all(run_, metric_).run();
    return;
  }
  database_
      .prepare(
          "INSERT OR REPLACE INTO summaries(run, metric, points, first_step, last_step, first_time, last_time, min, "
          "max, sum, last, not_finite) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .bind_all(run_, metric_, total_.points, total_.first_step, total_.last_step, total_.first_time, total_.last_time,
                total_.min, total_.max, total_.sum, last_value_, total_.not_finite)
      .run();
}

}  // namespace ramet::track
