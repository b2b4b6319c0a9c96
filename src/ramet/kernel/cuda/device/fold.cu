// Rows folded into a state one after another, a chain an element, unless a guard is not finite. Definition: kBy: 0
// average, 1 sum, 2 last, 3 max, 4 min.

#include "lines_arguments.h"
#include "math.cuh"

namespace ramet_device {

__device__ __forceinline__ float next_state(float state, float value, float momentum) {
  if (kBy == 0) return (1.0f - momentum) * state + momentum * value;
  if (kBy == 1) return state + value;
  if (kBy == 2) return value;
  if (is_nan(state) || is_nan(value)) return not_a_number();
  return (kBy == 3 ? value > state : value < state) ? value : state;
}

__device__ __forceinline__ bool all_finite(const FoldArguments& a) {
  bool finite = true;
  for (int i = 0; i < a.count_of_guards; ++i) finite = finite && fabsf(*a.guards[i]) < infinity();
  return finite;
}

}  // namespace ramet_device

RAMET_KERNEL(256, fold, ramet_device::FoldArguments, a) {
  using namespace ramet_device;
  const Index rows = all_finite(a) ? a.rows : 0;
  for (Index i = first_index(); i < a.elements; i += index_step()) {
    float state = a.state[i];
    for (Index row = 0; row < rows; ++row) state = next_state(state, a.values[row * a.elements + i], a.momentum);
    a.to[i] = state;
  }
}
