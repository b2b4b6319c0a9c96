#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::program {

/// A buffer to be placed: `bytes` long, live at every instant of [first, last].
struct PlaceItem {
  int64_t bytes = 0;
  int32_t first = 0, last = 0;
  friend bool operator==(const PlaceItem&, const PlaceItem&) = default;
};

struct PlaceOptions {
  int64_t alignment = 64;  ///< of every offset; a power of two
  /// Bound on the search after the portfolio, in visits of pairs of overlapping items (and in steps of sorting them),
  /// not in seconds, so that the same program always gets the same addresses. About 10^8 a second.
  int64_t search_work = 60'000'000;
  /// The portfolio and the search end when height <= bound * (1 + tolerance): the rest is not worth waiting for.
  double tolerance = 0.0025;
};

/// Addresses, and how good they are.
struct Placement {
  std::vector<int64_t> offsets;  ///< one an item
  int64_t height = 0;            ///< bytes of the arena
  int64_t bound = 0;             ///< no placement can be lower: the most bytes live at one instant
  std::string method;            ///< "size", "total-width-area", "search", ...
  int64_t work = 0;              ///< visits, as of `search_work`

  /// Share of the arena above the bound; 0 is proven optimal.
  double gap() const { return bound > 0 ? static_cast<double>(height - bound) / static_cast<double>(bound) : 0; }
};

/// Places buffers in one arena so that no two buffers that are live at one instant overlap. The offline dynamic storage
/// allocation problem is NP-hard; this takes the best of a portfolio of first-fit orders, stops when one comes near
/// enough to the bound, and otherwise improves the best few by a local search. Parts that share no instant are solved
/// apart.
Placement place(std::span<const PlaceItem> items, const PlaceOptions& options = {});

/// Most bytes live at one instant, sizes rounded up to the alignment; `instant` gets the first such instant.
int64_t live_bound(std::span<const PlaceItem> items, int64_t alignment, int32_t* instant = nullptr);

}  // namespace ramet::program
