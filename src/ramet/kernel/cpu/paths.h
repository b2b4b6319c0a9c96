#pragma once

// Loops over the messages of edges, for the dispatch of instruction sets. Inside kernel/cpu/ only.

#include <cstdint>

#include "ramet/ops/paths.h"

namespace ramet::kernel {

class Backend;
void add_cpu_paths(Backend& backend);

}  // namespace ramet::kernel

namespace ramet::kernel::cpu {

/// One sample's operands. `own` and the outputs behind `sum` are null where there are none.
struct PathCall {
  ops::PathForm form;
  ops::PathPointers lists{};
  const float *own = nullptr, *x = nullptr, *relations = nullptr;
  float *sum = nullptr, *squares = nullptr, *most = nullptr, *least = nullptr;
  int32_t *most_place = nullptr, *least_place = nullptr;
};

/// Of the gradient.
struct PathGradientCall {
  ops::PathForm form;
  ops::PathPointers lists{};
  const float *x = nullptr, *relations = nullptr;
  const float *sum = nullptr, *squares = nullptr, *most = nullptr, *least = nullptr;  ///< what flows into these
  const int32_t *most_place = nullptr, *least_place = nullptr;
  float *of_x = nullptr, *of_relations = nullptr;
};

}  // namespace ramet::kernel::cpu
