// Lines along one axis, as kernel/cpu/gather.cc: the place of the greatest or least element, and running sums.
// Definitions: Type, and kGreatest of places.

#include "lines_arguments.h"
#include "rows.cuh"

#ifndef kGreatest
#define kGreatest 1
#endif

namespace ramet_device {

using Number = Type::Register;

struct Found {
  Number value;
  Index place;
};

/// Whether `a` stands before `b`: NaN before all, of equals the first.
__device__ __forceinline__ bool precedes(const Found& a, const Found& b) {
  const bool strange = a.value != a.value, other = b.value != b.value;
  if (strange != other) return strange;
  if (!strange && a.value != b.value) return kGreatest != 0 ? a.value > b.value : a.value < b.value;
  return a.place < b.place;
}

__device__ __forceinline__ Index line_at(const LineArguments& a, Index line) {
  return line / a.inner * a.extent * a.inner + line % a.inner;
}
__device__ __forceinline__ Found found_at(const LineArguments& a, Index line, Index place) {
  return {Type::widen(static_cast<const Type::Stored*>(a.from)[line_at(a, line) + place * a.inner]), place};
}

/// A line of elements that lie together, by a warp.
__device__ __forceinline__ void extreme_of_warp(const LineArguments& a, Index line) {
  const Index lane = threadIdx.x % 32;
  Found best = found_at(a, line, lane < a.extent ? lane : 0);
  for (Index place = lane + 32; place < a.extent; place += 32) {
    const Found next = found_at(a, line, place);
    if (precedes(next, best)) best = next;
  }
  for (int by = 16; by > 0; by /= 2) {
    const Found other{__shfl_xor_sync(~0u, best.value, by), __shfl_xor_sync(~0u, best.place, by)};
    if (precedes(other, best)) best = other;
  }
  if (lane == 0) static_cast<int*>(a.to)[line] = static_cast<int>(best.place);
}

__device__ __forceinline__ void extreme_of_thread(const LineArguments& a, Index line) {
  Found best = found_at(a, line, 0);
  for (Index place = 1; place < a.extent; ++place) {
    const Found next = found_at(a, line, place);
    if (precedes(next, best)) best = next;
  }
  static_cast<int*>(a.to)[line] = static_cast<int>(best.place);
}

/// Whole numbers wrap.
__device__ __forceinline__ float sum_of(float a, float b) { return a + b; }
__device__ __forceinline__ int sum_of(int a, int b) {
  return static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
}
__device__ __forceinline__ long long sum_of(long long a, long long b) {
  return static_cast<long long>(static_cast<unsigned long long>(a) + static_cast<unsigned long long>(b));
}

__device__ __forceinline__ void running_sums(const LineArguments& a, Index line) {
  Number sum{};
  for (Index i = 0; i < a.extent; ++i) {
    const Index place = a.reverse != 0 ? a.extent - 1 - i : i;
    sum = sum_of(sum, found_at(a, line, place).value);
    static_cast<Type::Stored*>(a.to)[line_at(a, line) + place * a.inner] = Type::narrow(sum);
  }
}

}  // namespace ramet_device

RAMET_KERNEL(256, extreme_places, ramet_device::LineArguments, a) {
  using namespace ramet_device;
  for (Index line = first_row(); line < a.outer; line += row_step()) extreme_of_warp(a, line);
}

RAMET_KERNEL(256, extreme_places_apart, ramet_device::LineArguments, a) {
  using namespace ramet_device;
  for (Index line = first_index(); line < a.outer * a.inner; line += index_step()) extreme_of_thread(a, line);
}

RAMET_KERNEL(256, cumsum, ramet_device::LineArguments, a) {
  using namespace ramet_device;
  for (Index line = first_index(); line < a.outer * a.inner; line += index_step()) running_sums(a, line);
}
