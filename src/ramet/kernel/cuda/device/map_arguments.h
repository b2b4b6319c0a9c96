#pragma once

#include "place_arguments.h"

// What printed maps (print_map.h) are launched with.

namespace ramet_device {

/// Dropout of one step (ops/random_bits.h): its stream but for the micro-batch, and what it does.
struct MapDraw {
  unsigned key0, key1, tensor, threshold;
  float scale;
  long long elements;  ///< of the logical tensor
};

struct NoPlace {};
template <bool kPlaced>
struct MapPlaceOf {
  using Type = ElementPlace;
};
template <>
struct MapPlaceOf<false> {
  using Type = NoPlace;
};

template <int kInputs, int kOutputs, int kImmediates, int kDims, int kDraws, bool kPlaced>
struct MapArguments {
  const void* inputs[kInputs];
  void* outputs[kOutputs];
  float* sums;  ///< of blocks of rows: [summed output, block, column]
  long long elements, rows, columns;
  Divider extents[kDims];             ///< of the collapsed space
  Divider tiles;                      ///< of columns (MapPlan::tile_columns), in a row
  long long strides[kInputs][kDims];  ///< in elements
  float immediates[kImmediates];
  MapDraw draws[kDraws];
  typename MapPlaceOf<kPlaced>::Type place;
};
using SmallMap = MapArguments<8, 4, 8, 4, 2, false>;
using LargeMap = MapArguments<24, 12, 48, 6, 4, false>;
using PlacedMap = MapArguments<12, 6, 16, 6, 4, true>;

/// Sums of blocks of rows, [blocks, columns], along the balanced tree (ops/reduce_order.h) to one row.
struct MapSumsArguments {
  const float* sums;
  void* output;
  long long blocks, columns;
};

}  // namespace ramet_device
