#include "ramet/data/sample_order.h"

#include <algorithm>
#include <optional>

#include "ramet/base/error.h"
#include "ramet/data/permutation.h"

namespace ramet::data {

SampleOrder::SampleOrder(int64_t rows, const OrderOptions& options) : options_(options), rows_(rows) {
  if (!(options_.held_out >= 0 && options_.held_out < 1))
    throw Error({.what = "the share of samples held out is out of range",
                 .found = std::to_string(options_.held_out),
                 .expected = "0 or more, below 1"});
  held_ = options_.held_out == 0
              ? 0
              : std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(rows_) * options_.held_out));
  size_ = options_.evaluation && held_ > 0 ? held_ : rows_ - held_;
  if (size_ == 0) throw Error({.what = "all samples are held out", .found = std::to_string(rows_) + " in all"});
  if (options_.evaluation) options_.shuffle = false;
}

std::vector<int64_t> SampleOrder::rows(int64_t first, int64_t count) const {
  std::vector<int64_t> rows;
  rows.reserve(static_cast<size_t>(count));
  std::optional<Permutation> order, held;
  if (held_ > 0) held.emplace(rows_, 0, 0, kHoldOut);
  int64_t epoch = -1;
  for (int64_t index = first; index < first + count; ++index) {
    int64_t element = index % size_;
    if (options_.shuffle) {
      if (epoch_of(index) != epoch)
        order.emplace(size_, options_.seed, static_cast<uint64_t>(epoch = epoch_of(index)), kShuffleSamples);
      element = (*order)(element);
    }
    rows.push_back(!held ? element : (*held)(options_.evaluation ? rows_ - held_ + element : element));
  }
  return rows;
}

}  // namespace ramet::data
