#pragma once

#include <cstdint>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::data {

/// Which rows of a set of samples a source gives, and in what order.
struct OrderOptions {
  bool shuffle = true;  ///< a new order every epoch
  uint64_t seed = 0;    ///< of that order
  /// Share of the samples that is held out, drawn once for a number of samples whatever the seed; 0: none.
  double held_out = 0;
  bool evaluation = false;  ///< gives the samples held out, in order, instead of the others
};

/// The rows of a set, epoch after epoch: sample i of a run is row(i), a pure function of the options and i.
class SampleOrder {
 public:
  /// `rows`: of the set, 1 or more. Throws Error for a share that is out of range or leaves no sample on a side.
  SampleOrder(int64_t rows, const OrderOptions& options);

  int64_t size() const { return size_; }  ///< samples of an epoch
  int64_t epoch_of(int64_t index) const { return index / size_; }
  /// Rows of samples [first, first + count).
  std::vector<int64_t> rows(int64_t first, int64_t count) const;
  int64_t row(int64_t index) const { return rows(index, 1).front(); }
  const OrderOptions& options() const { return options_; }

 private:
  OrderOptions options_;
  int64_t rows_, held_ = 0, size_ = 0;
};

}  // namespace ramet::data
