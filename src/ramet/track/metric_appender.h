#pragma once

#include "ramet/track/chunk.h"
#include "ramet/track/sqlite.h"

namespace ramet::track {

/// Adds points to a metric of a run in the catalogue: fills its last chunk, makes new ones, groups them into levels.
/// Steps rise: a point at a step that is there already replaces it and all behind it.
class MetricAppender {
 public:
  MetricAppender(Database& database, int64_t run, int64_t metric);

  void add(const MetricPoint& point);
  /// Takes away all points of `step` and later ones.
  void rewind(int64_t step);
  /// Writes what is not written yet.
  void finish();

  int64_t replaced() const { return replaced_; }
  int64_t last_step() const { return total_.last_step; }
  bool empty() const { return total_.points == 0; }

 private:
  void load();
  void write_chunk();
  void write_row(int64_t level, int64_t number, const PointsSummary& summary, int64_t data);
  void group(int64_t level, int64_t number);
  void sum_up();

  Database& database_;
  const int64_t run_, metric_;
  std::vector<MetricPoint> tail_;  ///< points of the last chunk, which is not full
  int64_t number_ = 0;             ///< of that chunk
  int64_t data_ = 0;               ///< its row in chunk_data; 0: none yet
  PointsSummary total_;
  double last_value_;
  int64_t replaced_ = 0;
  bool rewound_ = false, changed_ = false;
};

}  // namespace ramet::track
