#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ramet/program/place.h"

namespace ramet::program {

/// A part of a placement in a form that is quick to search: sizes aligned, instants compact, overlaps listed.
struct PlaceProblem {
  explicit PlaceProblem(std::vector<PlaceItem> items);

  std::span<const int32_t> neighbours(int32_t item) const {
    return {overlaps.data() + starts[static_cast<size_t>(item)],
            overlaps.data() + starts[static_cast<size_t>(item) + 1]};
  }

  std::vector<PlaceItem> items;
  int32_t instants = 0;           ///< after leaving out instants at which nothing begins
  int32_t peak = 0;               ///< instant with the most live bytes
  int64_t bound = 0;              ///< live bytes there
  std::vector<int64_t> live;      ///< bytes live at each instant
  std::vector<int64_t> totals;    ///< for each item, the most bytes live during its life
  std::vector<size_t> starts;     ///< of each item's row in `overlaps`
  std::vector<int32_t> overlaps;  ///< items that are live together with an item
};

/// Places items in an order, each at the lowest address that is free during its whole life.
class FirstFit {
 public:
  explicit FirstFit(const PlaceProblem& problem);
  /// Height of the placement, or some value >= `limit` when it cannot be below it (it then stops early).
  int64_t run(std::span<const int32_t> order, int64_t limit = INT64_MAX);
  const std::vector<int64_t>& offsets() const { return offsets_; }
  int64_t work() const { return work_; }  ///< visits of pairs and steps of sorting, over all runs

 private:
  const PlaceProblem& problem_;
  std::vector<int64_t> offsets_;  // -1: not placed
  std::vector<std::pair<int64_t, int64_t>> taken_;
  int64_t work_ = 0;
};

struct PlacementResult {
  int64_t height = 0;
  std::vector<int64_t> offsets;
};

/// Tries to come from `height` (that of `order`) down to `good`, in at most `work` (see PlaceOptions). Deterministic.
PlacementResult search_orders(const PlaceProblem& problem, FirstFit& fit, const std::vector<int32_t>& order,
                              int64_t height, int64_t good, int64_t work);

}  // namespace ramet::program
