// Exact sums of squares and counts (ops/exact_sum.h). The sums over a tensor are compiled with Element, a type of
// convert.cuh.

#include "exact_sum.cuh"
#include "states.cuh"

namespace ramet_device {

RAMET_KERNEL(256, sum_squares, SumArguments, a) {
  RAMET_SHARED(unsigned, digits, kExactIntegers);
  clear_sums(digits, 1);
  SquareSum squares(digits);
  const Index lane = threadIdx.x % 32u;
  // A warp has two groups of each lane at once.
  for (Index warp = (first_index() - lane) * 2; warp * kGroup < a.count; warp += index_step() * 2) {
    float front[kGroup], back[kGroup];
    load_state<Element, kPlain>(a.from, Group((warp + lane) * kGroup, a.count), front);
    load_state<Element, kPlain>(a.from, Group((warp + lane + 32) * kGroup, a.count), back);
    const float values[2 * kGroup] = {front[0], front[1], front[2], front[3], back[0], back[1], back[2], back[3]};
    squares.add(values);
  }
  squares.flush();
  __syncthreads();
  write_sum(digits, a.partials, a.result);
}

RAMET_KERNEL(256, count_underflow, SumArguments, a) {
  RAMET_SHARED(unsigned, digits, kExactIntegers);
  clear_sums(digits, 1);
  unsigned found = 0;
  for (Index first = first_index() * kGroup; first < a.count; first += index_step() * kGroup) {
    float values[kGroup];
    load_state<Element, kPlain>(a.from, Group(first, a.count), values);
    RAMET_UNROLL
    for (int k = 0; k < kGroup; ++k) {
      const float magnitude = fabsf(values[k]);
      found += magnitude > 0.0f && magnitude < a.least ? 1u : 0u;
    }
  }
  RAMET_UNROLL
  for (int distance = 16; distance > 0; distance /= 2) found += __shfl_xor_sync(0xffffffffu, found, distance);
  if (threadIdx.x % 32u == 0u) add_integer(digits, found, 0, 298);  // counts are whole numbers
  __syncthreads();
  write_sum(digits, a.partials, a.result);
}

/// The end of a sum of which each warp has an integer, and each lane a share of it; `total` is shared by the block.
__device__ __forceinline__ void finish_sum(unsigned long long share, long long* total, long long* result) {
  const int integer = static_cast<int>(threadIdx.x / 32u), lane = static_cast<int>(threadIdx.x % 32u);
  RAMET_UNROLL
  for (int distance = 16; distance > 0; distance /= 2) share += __shfl_xor_sync(0xffffffffu, share, distance);
  if (lane == 0) total[integer] = static_cast<long long>(share);
  __syncthreads();
  if (threadIdx.x == 0u) carry_digits(total);
  __syncthreads();
  if (lane == 0) result[integer] = total[integer];
}

/// A warp an integer of a sum.
RAMET_KERNEL(672, finish_sums, FinishArguments, a) {
  RAMET_SHARED(long long, total, kExactIntegers);
  const unsigned* partials = blockIdx.x == 0u ? a.partials[0] : a.partials[1];
  long long* result = blockIdx.x == 0u ? a.results[0] : a.results[1];
  const int integer = static_cast<int>(threadIdx.x / 32u), lane = static_cast<int>(threadIdx.x % 32u);
  unsigned long long sum = 0;
  for (int i = lane; i < a.blocks; i += 32) sum += partials[static_cast<Index>(integer) * a.blocks + i];
  finish_sum(sum, total, result);
}

/// A warp an integer.
RAMET_KERNEL(672, exact_sum, ExactSumArguments, a) {
  RAMET_SHARED(long long, total, kExactIntegers);
  const int integer = static_cast<int>(threadIdx.x / 32u), lane = static_cast<int>(threadIdx.x % 32u);
  unsigned long long sum = 0;
  for (int i = lane; i < a.count; i += 32) sum += static_cast<unsigned long long>(a.sums[i][integer]);
  finish_sum(sum, total, a.result);
}

/// exact_value of ops/exact_sum.h, of carried digits.
__device__ inline float exact_value(const long long* sum) {
  if (sum[kExactNaNs] != 0) return __uint_as_float(0x7fc00000u);
  if (sum[kExactInfinities] != 0) return __uint_as_float(0x7f800000u);
  int top = kExactDigits - 1;
  while (top > 0 && sum[top] == 0) --top;
  auto window = static_cast<unsigned long long>(sum[top]) << 32;
  if (top > 0) window |= static_cast<unsigned long long>(sum[top - 1]);
  int exponent = 32 * (top - 1) - 298;
  bool rest = false;
  for (int k = 0; k + 1 < top; ++k) rest = rest || sum[k] != 0;
  if (window >> 53) {
    rest = rest || (window & 0x7ffu) != 0;
    window >>= 11;
    exponent += 11;
  }
  const auto power = static_cast<long long>(exponent + 1023) << 52;
  return static_cast<float>(static_cast<double>(window | (rest ? 1u : 0u)) * __longlong_as_double(power));
}

RAMET_KERNEL(32, from_exact, FromExactArguments, a) {
  RAMET_SHARED(long long, sum, 32);
  const auto k = static_cast<int>(threadIdx.x);
  if (k < kExactIntegers) sum[k] = a.sum[k];
  __syncthreads();
  if (k != 0) return;
  carry_digits(sum);
  *a.result = exact_value(sum);
}

}  // namespace ramet_device
