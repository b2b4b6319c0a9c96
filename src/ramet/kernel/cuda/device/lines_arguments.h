#pragma once

// Arguments of lines.cu and fold.cu.

namespace ramet_device {

/// [outer, extent, inner]; a line is one index of outer and of inner.
struct LineArguments {
  const void* from;
  void* to;
  long long outer, extent, inner;
  int reverse;
};

constexpr int kMostGuards = 16;

struct FoldArguments {
  const float* state;   ///< [elements]
  const float* values;  ///< [rows, elements]
  float* to;            ///< may be the state
  const float* guards[kMostGuards];
  long long rows, elements;
  float momentum;
  int count_of_guards;
};

}  // namespace ramet_device
