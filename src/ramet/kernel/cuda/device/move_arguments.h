#pragma once

#include "divider.h"

namespace ramet_device {

constexpr int kMostDims = 8;

/// Units of 1 to 16 bytes between two strided views; strides in units.
struct MoveArguments {
  long long units;  ///< in all
  Divider extents[kMostDims];
  long long from_strides[kMostDims], to_strides[kMostDims];
  const void* from;
  void* to;
};

/// Planes of [columns][rows] turned to [rows][columns]. The planes stand at strided places.
struct TurnArguments {
  long long planes, rows, columns;
  long long from_step;  ///< from a column to the next; rows are neighbours
  long long to_step;    ///< from a row to the next; columns are neighbours
  Divider extents[kMostDims];
  long long from_strides[kMostDims], to_strides[kMostDims];
  const void* from;
  void* to;
};

/// The bytes of an element, repeated to eight.
struct FillArguments {
  long long elements;
  unsigned long long pattern;
  void* to;
};

struct IotaArguments {
  long long elements, inner, extent;
  void* to;
};

}  // namespace ramet_device
